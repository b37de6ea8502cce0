"""What was graded so far, on disk: a line of JSON a file, so that a run that was killed can go on.

A line is there in full before its file counts as graded. What a kill has left half written is
cut off, and that file is graded again, on the same inputs.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from attncourse.grading.exercises import load
from attncourse.grading.verdict import Verdict
from attngrade import Graded

Key = tuple[str, str, str]


class Busy(Exception):
    """Somebody else is writing into this folder of results; the message says what to do."""


@dataclass(frozen=True)
class Result:
    """What a grader hands over for one file.

    Args:
        graded: the verdicts.
        likeness: as `attngrade.submissions.likeness` has it.
        official: False when its code ran without a sandbox.
        protections: of the machine on which it ran.
        kept: whether it is worth a line. Where the grader itself failed, the next run tries again.
    """

    graded: Graded
    likeness: str = ""
    official: bool = True
    protections: tuple[tuple[str, str], ...] = ()
    kept: bool = True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else may write results into this folder meanwhile. The kernel frees the lock of who dies.

    Raises:
        Busy: somebody else is at it.
    """
    with (folder / ".lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(
                f"Another attngrade is writing into {folder}. "
                "Wait for it, or give another folder with --out."
            ) from None
        yield


class Journal:
    """The results in ``journal.jsonl`` of a folder. A context manager.

    Args:
        folder: the folder of results, `locked` by us.
        mark: what besides the file decides about its points. Lines with another mark are left
            alone, and not found.
    """

    def __init__(self, folder: Path, mark: str):
        self.path, self.mark = folder / "journal.jsonl", mark
        self.known: dict[Key, Result] = {}

    def __enter__(self):
        self.file = self.path.open("ab+")
        self.file.truncate(self._read())
        return self

    def __exit__(self, *error):
        self.file.close()

    def find(self, student: str, file: str, digest: str) -> Result | None:
        """The result of these bytes, if there is one."""
        return self.known.get((student, file, digest))

    def add(self, result: Result) -> None:
        """Write a result; when this returns, it is on the disk.

        Raises:
            OSError: it cannot be written.
        """
        data = asdict(result) | {"mark": self.mark}
        self.file.write(json.dumps(data).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.known[_key(result)] = result

    def _read(self) -> int:
        """Learn what is there; how many bytes of it are whole lines."""
        self.file.seek(0)
        whole = 0
        for line in self.file:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            # a line that a bad disk or an editor has spoilt is as good as none
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                data = json.loads(line)
                if data.pop("mark") == self.mark:
                    result = _result(data)
                    self.known[_key(result)] = result
        return whole


def _key(result: Result) -> Key:
    return result.graded.student, result.graded.file, result.graded.digest


def _result(data: dict) -> Result:
    graded = data["graded"]
    verdicts = tuple(
        Verdict(**verdict | {"findings": tuple(verdict["findings"])})
        for verdict in graded["verdicts"]
        if load(verdict["name"])
    )
    graded |= {"verdicts": verdicts}
    graded |= {key: tuple(graded[key]) for key in ("problems", "confidential")}
    protections = tuple((name, state) for name, state in data["protections"])
    return Result(**data | {"graded": Graded(**graded), "protections": protections})
