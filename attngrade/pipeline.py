"""From a folder of submissions to the tables: known results are kept, the rest is graded."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain, groupby, islice
from pathlib import Path
from threading import Event

from tqdm import tqdm

from attngrade import File, Graded, Order, Result
from attngrade.control import controlled
from attngrade.journal import Journal
from attngrade.pool import Crew
from attngrade.report import write
from attngrade.sandbox.limits import IN_FORCE
from attngrade.settings import Settings
from attngrade.submissions import alike, contents
from attngrade.table import Run, Table

MOST_FILES, MOST_BYTES = 200, 200 * 10**6  # for each student
TOO_MUCH = f"It was not read: one student may hand in {MOST_FILES} files and 200 MB."

Found = list[tuple[str, Path]]


def grade_class(
    found: Found,
    folder: Path,
    out: Path,
    settings: Settings,
    workers: Callable[[], AbstractContextManager[Crew]],
    stopped: Event,
) -> Table:
    """Grade all that the journal does not know, and write the tables and pages.

    Args:
        found: pairs of student and path, sorted by student.
        folder: folder of the submissions.
        out: folder of the results, locked by this process.
        settings: how to grade.
        workers: starts or finds the workers; called only if there is something to grade.
        stopped: ends the run when set.

    Raises:
        KeyboardInterrupt: ``stopped`` was set. Finished results are in the journal.
        Stopped: a control has failed, or there are no workers.
    """
    results: list[Result] = []
    students = len({student for student, _ in found})
    bar = tqdm(total=students, unit="student", mininterval=0.5, dynamic_ncols=True)
    with Journal(out, settings.cache_key) as journal, bar:

        def take(result: Result) -> None:
            results.append(result)
            bar.update()

        def unknown() -> Iterator[Order]:
            for order in orders(found, folder):
                known = journal.find(order)
                if known and (known.official or not settings.sandbox):
                    take(known)
                else:
                    yield order

        left = unknown()
        first = list(islice(left, 1))
        if first or journal.unproven:
            with workers() as crew:
                for result in controlled(crew, chain(first, left), settings, journal):
                    if result.complete:
                        journal.add(result)
                    take(result)
                    if stopped.is_set():
                        raise KeyboardInterrupt
    return write(compared(results), run_of(results, settings), out)


def orders(found: Found, folder: Path) -> Iterator[Order]:
    """One order for each student; the files are read when the order is taken."""
    for student, pairs in groupby(found, key=lambda pair: pair[0]):
        paths, files, size = [path for _, path in pairs], [], 0
        for path in paths[:MOST_FILES]:
            file = contents(path, folder)
            size += len(file.data or b"")
            files.append(file if size <= MOST_BYTES else replace(file, data=None, problem=TOO_MUCH))
        if len(paths) > MOST_FILES:
            files.append(File(f"{student}, and {len(paths) - MOST_FILES} more", problem=TOO_MUCH))
        yield Order(student, tuple(files))


def compared(results: list[Result]) -> list[Result]:
    """The results, with notes for the teacher on work that several students handed in."""
    notes = alike((x.student, one.file, one.likeness) for x in results for one in x.files)

    def noted(one: Graded) -> Graded:
        return replace(one, notes=(*one.notes, notes[one.file])) if one.file in notes else one

    return [replace(x, files=tuple(map(noted, x.files))) for x in results]


def run_of(results: Iterable[Result], settings: Settings) -> Run:
    """How the class was graded. One student graded without a sandbox makes all scores unofficial."""
    ran = sorted((x for x in results if x.protections), key=lambda x: x.student)
    unofficial = sum(not x.official for x in ran)
    problems = ()
    if 0 < unofficial < len(ran):
        counted = f"{unofficial} of {len(ran)} students were graded without a sandbox"
        problems = (f"{counted}; --require-sandbox grades them again.",)
    states: dict[str, str] = {}  # in force for all students; else a reason why not
    for name, state in chain.from_iterable(x.protections for x in ran):
        if states.get(name, IN_FORCE) == IN_FORCE:
            states[name] = state
    return Run(not unofficial, tuple(states.items()), problems, settings.cache_key[:12])
