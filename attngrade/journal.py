"""What was graded so far, on disk: a line of JSON a student, so that a run that was killed can go on.

Lines are only added. A line is there in full before its student counts as graded; what a kill has left
half written is cut off. Controls stand between the results: up to where they prove them, or from where
they withdraw them.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from attncourse.grading.exercises import load
from attncourse.grading.verdict import Verdict
from attngrade import Graded, Order, Result
from attngrade.settings import Stopped


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else may write results into this folder meanwhile. The kernel frees the lock of who dies.

    Raises:
        Stopped: somebody else is at it.
    """
    with (folder / ".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            why = f"Another attngrade is writing into {folder}. Wait for it, or give another --out"
            raise Stopped(why) from None
        yield


class Journal:
    """The results in ``journal.jsonl`` of a folder. A context manager.

    Args:
        folder: of the results, `locked` by us.
        mark: what besides the files decides about points; lines with another one are left alone.
    """

    def __init__(self, folder: Path, mark: str):
        self.path, self.mark = folder / "journal.jsonl", mark
        self.known: dict[tuple[str, str], tuple[int, Result]] = {}  # and where its line starts
        self.size = self.proven = 0  # bytes in whole lines, and those before the last good control

    def __enter__(self):
        self.file = self.path.open("ab+")
        self.file.seek(0)
        for line in self.file:
            if not line.endswith(b"\n"):
                break
            # a line that a bad disk or an editor has spoilt is as good as none
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                self._learn(json.loads(line))
            self.size += len(line)
        self.file.truncate(self.size)
        return self

    def __exit__(self, *error):
        self.file.close()

    def find(self, order: Order) -> Result | None:
        """The result of these files of this student, if there is one."""
        return self.known.get((order.student, order.digest), (0, None))[1]

    @property
    def unproven(self) -> int:
        """How many results no control has proven yet."""
        return sum(start >= self.proven for start, _ in self.known.values())

    def add(self, result: Result) -> None:
        """Write a result; when this returns, it is on the disk.

        Raises:
            OSError: it cannot be written.
        """
        self._write(asdict(result) | {"mark": self.mark})

    def prove(self, size: int) -> None:
        """A control was good that began when the journal had this size: what stands before it counts."""
        self._write({"proven": size})

    def withdraw(self) -> None:
        """A control was bad: nothing counts since the last good one."""
        self._write({"withdrawn": self.proven})

    def _write(self, data: dict) -> None:
        line = json.dumps(data).encode() + b"\n"
        self.file.write(line)
        self.file.flush()
        os.fsync(self.file.fileno())
        self._learn(data)
        self.size += len(line)

    def _learn(self, data: dict) -> None:
        if "proven" in data:
            self.proven = max(self.proven, int(data["proven"]))
        elif "withdrawn" in data:
            start = int(data["withdrawn"])
            self.known = {key: x for key, x in self.known.items() if x[0] < start}
        elif data.pop("mark") == self.mark:
            result = _result(data)
            self.known[result.student, result.digest] = self.size, result


def _result(data: dict) -> Result:
    files = tuple(Graded(**_tuples(x) | {"verdicts": _verdicts(x)}) for x in data["files"])
    protections = tuple((name, state) for name, state in data["protections"])
    return Result(**data | {"files": files, "protections": protections})


def _verdicts(graded: dict) -> tuple[Verdict, ...]:
    return tuple(Verdict(**_tuples(x)) for x in graded["verdicts"] if load(x["name"]))


def _tuples(data: dict) -> dict:
    return {key: tuple(x) if isinstance(x, list) else x for key, x in data.items()}
