"""A class from the folder that was handed in to the tables: what is known is kept, the rest is graded."""

import itertools
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from threading import Event

from distributed import Client
from tqdm import tqdm

from attngrade import Graded, Submission
from attngrade.pool import Crew
from attngrade.settings import Order, Settings
from attngrade.sandbox.sandbox import IN_FORCE
from attngrade.journal import Journal, Result
from attngrade.report import write
from attngrade.submissions import alike, collect, contents, likeness
from attngrade.table import Run, Table

Found = list[tuple[str, Path]]
SECRET_BYTES = 32
SHORTEST_SECRET = 16


def handed_in(folder: Path, *own: Path) -> Found:
    """The student and the path of everything that was handed in; what is our ``own`` is left out.

    Raises:
        ValueError: there is nothing, or the submissions are where our results would go.
    """
    ours = set()
    for place in (Path.resolve, os.path.abspath):
        root = Path(place(folder))
        for one in (Path(place(one)) for one in own):
            if root == one:
                raise ValueError(
                    f"{folder} has the submissions; results need a folder of their own"
                )
            if root in one.parents:
                ours.add(one.relative_to(root))
    found = []
    for student, path in collect(folder):
        name = path.relative_to(folder)
        if not ours & {name, *name.parents}:
            found.append((student, path))
    if not found:
        raise ValueError(f"the folder {folder} has nothing to grade in it but our own results")
    return found


def secret_in(path: Path) -> bytes:
    """The secret in this file, which is made if it is not there: of random bytes, for its owner only.

    Raises:
        ValueError: what is there is too short to be a secret.
    """
    if not path.exists():
        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    secret = path.read_bytes()
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(
            f"{path} has {len(secret)} bytes; a secret needs {SHORTEST_SECRET} or more. "
            "Delete the file, and a new secret is made"
        )
    return secret


def mark(
    found: Found,
    folder: Path,
    out: Path,
    settings: Settings,
    cluster: Callable[[], AbstractContextManager[Client]],
    stopped: Event,
) -> Table:
    """Grade what the journal does not know yet, and write the tables and pages.

    Args:
        found: of `handed_in`.
        folder: that of the submissions.
        out: that of the results, `locked` by us.
        settings: how to grade.
        cluster: starts or finds the workers; asked only when there is something to grade.
        stopped: ends the run when it is set.

    Raises:
        KeyboardInterrupt: it was set. What was graded is in the journal.
    """
    class_ = Class(found, folder, settings)
    with Journal(out, settings.mark) as journal, class_.bar:
        orders = class_.orders(journal)
        first = next(orders, None)
        if first is not None:
            with cluster() as client:
                crew = Crew(client, settings)
                for result in crew.results(itertools.chain([first], orders)):
                    if result.kept:
                        journal.add(result)
                    class_.add(result)
                    if stopped.is_set():
                        raise KeyboardInterrupt
    return write(class_.graded(), class_.run(), out)


class Class:
    """What is known of a class so far.

    Args:
        found: of `handed_in`.
        folder: that of the submissions.
        settings: how it is graded.
    """

    def __init__(self, found: Found, folder: Path, settings: Settings):
        self.found, self.folder, self.settings = found, folder, settings
        self.results: list[Result] = []
        self.left = Counter(student for student, _ in found)
        self.bar = tqdm(total=len(self.left), unit="student", mininterval=0.5, dynamic_ncols=True)

    def add(self, result: Result) -> None:
        """Take a result in; a student is done when all files are."""
        self.results.append(result)
        self.left[result.graded.student] -= 1
        self.bar.update(self.left[result.graded.student] == 0)

    def orders(self, journal: Journal) -> Iterator[Order]:
        """What has to be graded; anything else is taken in on the way."""
        for student, path in self.found:
            file = path.relative_to(self.folder).as_posix()
            digest, data, why = contents(path, self.folder)
            if data is None:
                nothing = Submission(student, path, digest, problems=(why,))
                graded = Graded(student, file, digest, (), (why,))
                self.add(Result(graded, likeness(nothing), kept=False))
                continue
            known = journal.find(student, file, digest)
            if known and (known.official or not self.settings.sandbox):
                self.add(known)
            else:
                yield Order(student, file, digest, data)

    def graded(self) -> list[Graded]:
        """All results, with notes where the same work was handed in twice."""
        keys = ((x.graded.student, x.graded.file, x.likeness) for x in self.results)
        notes = alike(keys)
        return [
            replace(one, confidential=(notes[one.file],)) if one.file in notes else one
            for one in (x.graded for x in self.results)
        ]

    def run(self) -> Run:
        """How it was graded. One submission that ran without a sandbox makes all unofficial."""
        ran = [x for x in self.results if x.protections]
        unofficial = sum(not x.official for x in ran)
        problems = []
        if 0 < unofficial < len(ran):
            problems.append(
                f"{unofficial} of {len(ran)} files were graded without a sandbox; "
                "--require-sandbox grades them again."
            )
        mark = self.settings.mark[:12]
        return Run(not unofficial, _protections(ran), tuple(problems), mark)


def _protections(ran: Iterable[Result]) -> tuple[tuple[str, str], ...]:
    """What was in force for all of them; else a reason why not."""
    merged: dict[str, str] = {}
    for result in sorted(ran, key=lambda x: x.graded.file):
        for name, state in result.protections:
            if merged.get(name, IN_FORCE) == IN_FORCE:
                merged[name] = state
    return tuple(merged.items())
