"""Where hostile submissions are graded: notebooks, traps around them, and what may not be seen after it."""

import hashlib
import json
import os
import secrets
import socket
import threading
import time
from importlib import import_module
from pathlib import Path

from grader.attacks import NAMES, RIGHT, WRONG, Attack

from attngrade.far.sandbox import Limits
from attngrade.grade import Grader

ROOT = Path(__file__).parents[2]
SETUP = """import math

import torch

from attncourse.grading import check, hint, status

_ = torch.manual_seed(0)
"""


# Of each cell and of each exercise: for attacks that end by the clock, and for all others.
BRIEF, PATIENT = 1.0, 30.0
LIMITS = Limits(memory=2 * 2**30)  # less than usual, so that it is reached soon
MOST_MEMORY = 10**9  # that an attack may cost the grader itself, in bytes
CANARY = "causal_mask"


class Yard:
    """Folders of a teacher with marks in them, and sockets that nobody may reach.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: Path):
        self.tag = f"t{secrets.token_hex(5)}"
        self.submissions, self.results = folder / "submissions", folder / "results"
        self.teacher = folder / "teacher"
        for place, mark in (
            (self.submissions, "neighbour"),
            (self.results, "results"),
            (self.teacher, "teacher"),
        ):
            place.mkdir()
            (place / f"{mark}.json").write_text(f"MARK-{mark}")
        (self.submissions / "neighbour.ipynb").write_text('{"x": "MARK-neighbour"}')
        self.put = self.contents()
        self.secret = f"MARK-seed-{secrets.token_hex(8)}"
        self.reached: list[str] = []
        self.sockets = [self._listen(socket.AF_INET, ("127.0.0.1", 0))]
        port = self.sockets[0].getsockname()[1]
        self.sockets += [
            self._listen(socket.AF_INET, ("127.0.0.1", port), socket.SOCK_DGRAM),
            self._listen(socket.AF_UNIX, str(folder / "socket")),
            self._listen(socket.AF_UNIX, f"\0{self.tag}"),
        ]
        self.words = {
            "TAG": self.tag,
            "NAP": str(10**6 + secrets.randbelow(10**6)),
            "PORT": str(port),
            "SOCKET": str(folder / "socket"),
            "SECONDS": str(BRIEF),
            "PARENT": str(os.getpid()),
            "UID": str(os.getuid()),
            "PIDNS": os.readlink("/proc/self/ns/pid"),
            "SUBMISSIONS": str(self.submissions),
            "RESULTS": str(self.results),
            "TEACHER": str(self.teacher),
            "HOME": str(Path.home()),
            "COURSE": str(ROOT),
            "BOXED": "yes",
        }

    def close(self) -> None:
        """Take the traps away."""
        for sock in self.sockets:
            sock.close()

    def _listen(self, family, address, kind=socket.SOCK_STREAM) -> socket.socket:
        sock = socket.socket(family, kind)
        sock.bind(address)
        if kind == socket.SOCK_STREAM:
            sock.listen()

        def wait():
            try:
                while True:
                    came = sock.accept() if kind == socket.SOCK_STREAM else sock.recvfrom(99)
                    self.reached.append(f"{family.name} {came}")
            except OSError:
                return

        threading.Thread(target=wait, daemon=True).start()
        return sock

    def hand_in(self, attack: Attack) -> Path:
        """The notebook of an attack, as a file among the submissions."""
        check = attack.check or f'check("{attack.exercise}", {NAMES[attack.exercise]})'
        notebook = {
            "cells": [code(k, source) for k, source in enumerate((SETUP, *attack.cells, check))],
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        data = (attack.edit and attack.edit(notebook)) or json.dumps(notebook).encode()
        for name, word in self.words.items():
            data = data.replace(f"@{name}@".encode(), word.encode())
        # the same for the same: the inputs are drawn from it, and what is expected is remembered
        path = self.submissions / f"{hashlib.sha256(data).hexdigest()[:16]}.ipynb"
        path.write_bytes(data)
        self.put[str(path)] = hashlib.sha256(data).hexdigest()
        return path

    def fill(self, source: str) -> str:
        """The text of a cell with its words filled in."""
        for name, word in self.words.items():
            source = source.replace(f"@{name}@", word)
        return source

    def traces(self) -> list[str]:
        """Files anywhere that carry the tag in their names, and texts of the course that hold it."""
        places = {Path.home(), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), ROOT, Path.cwd()}
        found = []
        for place in places:
            for folder, folders, names in os.walk(place):
                folders[:] = [x for x in folders if x not in (".git", "site-packages")]
                found += [f"{folder}/{x}" for x in (*folders, *names) if self.tag in x]
        for path in (*ROOT.glob("attn*/**/*.py"), *ROOT.glob("exercises/*.ipynb")):
            if self.tag in path.read_text(encoding="utf-8"):
                found.append(str(path))
        return found

    def contents(self) -> dict[str, str]:
        """What the folders of the teacher hold, by path."""
        files = [p for x in (self.submissions, self.results, self.teacher) for p in x.rglob("*")]
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def code(number: int, source: str) -> dict:
    """A code cell as it stands in the file."""
    return {
        "cell_type": "code",
        "id": f"cell-{number}",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def processes(*words: str) -> list[str]:
    """Running processes with one of these words in their name or command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                said = (entry / "comm").read_text() + (entry / "cmdline").read_text()
            except (OSError, UnicodeDecodeError):
                continue
            if any(word in said for word in words):
                found.append(f"{entry.name} {said[:80]!r}")
    return found


def descendants(of: int = 0) -> set[int]:
    """A process and those below it; by default those below this one alone."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found, size = {of or os.getpid()}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {os.getpid()}


def ended(pids: set[int], seconds: float = 5.0) -> bool:
    """Whether these processes end in time."""
    until = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def peak_memory(reset: bool = False) -> int:
    """The most memory that this process held since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) * 1024


def all_of(family: str) -> list[Attack]:
    """The attacks of a family."""
    return import_module(f"grader.attacks.{family}").ATTACKS


def honest(exercise: str, right: bool) -> Attack:
    """An honest submission: the right answer of an exercise, or the wrong one."""
    from grader.attacks import Attacks

    one = Attacks("honest")
    one.instead(exercise, "honest", (RIGHT if right else WRONG)[exercise])
    return one[0]


def missing(grader: Grader, attack: Attack) -> str:
    """The protection that an attack needs and this machine lacks; empty if it may run."""
    lacking = [name for name, state in grader.protections if state != "in force"]
    return next((name for name in lacking if attack.needs and attack.needs in name), "")


def harm(grader: Grader, yard: Yard, attack: Attack) -> list[str]:
    """Grade one hostile submission, then an honest one; what the attack has gained or spoilt."""
    path = yard.hand_in(attack)
    before, start = peak_memory(reset=True), time.monotonic()
    graded = grader.grade("mallory", path, yard.submissions)
    took, memory = time.monotonic() - start, peak_memory() - before
    found = []
    if graded.points > attack.earns:
        found.append(f"it earned {graded.points} points, {attack.earns} of them honestly")
    if "MARK-" in repr(graded):
        found.append(f"it got hold of something: {graded.verdicts} {graded.problems}")
    if yard.reached:
        found.append(f"it reached {yard.reached}")
        yard.reached.clear()
    if memory > MOST_MEMORY:
        found.append(f"it made the grader take {memory / 2**20:,.0f} MiB")
    if took > 4 * grader.seconds + 10:
        found.append(f"it took {took:.0f} s")
    if left := processes(yard.tag, f"sleep\0{yard.words['NAP']}"):
        found.append(f"it left processes: {left}")
    after = grader.grade("anna", yard.hand_in(honest(CANARY, right=True)), yard.submissions)
    if after.points != 1:
        found.append(f"the next submission was graded wrongly: {after}")
    return found
