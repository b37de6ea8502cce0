"""The journal of a run on disk, one line of JSON for each student, so that a killed run can go on.

Lines are only added. A student counts as graded once the whole line is on the disk; a line that a kill
left half written is cut off. Lines of controls prove or withdraw the results before them.
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
    """An exclusive lock on a folder of results. The kernel frees the lock of a process that dies.

    Raises:
        Stopped: another process holds the lock.
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
        folder: folder of the results, `locked` by this process.
        settings_key: `Settings.cache_key` of this run; lines with another key are ignored.
    """

    def __init__(self, folder: Path, settings_key: str):
        self.path, self.settings_key = folder / "journal.jsonl", settings_key
        self.known: dict[tuple[str, str], tuple[int, Result]] = {}  # with the start of its line
        self.size = self.proven = 0  # bytes in whole lines; bytes before the last good control

    def __enter__(self):
        self.file = self.path.open("ab+")
        self.file.seek(0)
        for line in self.file:
            if not line.endswith(b"\n"):
                break
            # a line that a bad disk or an editor has spoilt does not count
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                self._learn(json.loads(line))
            self.size += len(line)
        self.file.truncate(self.size)
        return self

    def __exit__(self, *error):
        self.file.close()

    def find(self, order: Order) -> Result | None:
        """The result of an order; None if it was not graded yet."""
        return self.known.get((order.student, order.digest), (0, None))[1]

    @property
    def unproven(self) -> int:
        """The number of results that no control has proven yet."""
        return sum(start >= self.proven for start, _ in self.known.values())

    def add(self, result: Result) -> None:
        """Write a result; it is on the disk when this returns.

        Raises:
            OSError: the journal cannot be written.
        """
        self._write(asdict(result) | {"settings": self.settings_key})

    def prove(self, size: int) -> None:
        """Count all results up to this size: a control that began there was good."""
        self._write({"proven": size})

    def withdraw(self) -> None:
        """Drop all results since the last good control."""
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
        elif data.pop("settings") == self.settings_key:
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
