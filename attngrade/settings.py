"""How a class is graded: the settings that all workers share."""

import hashlib
import hmac
import importlib.metadata
import math
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from attncourse import grading
from attncourse.grading.exercises import load, names
from attngrade.sandbox.limits import MIB, READY_SECONDS, Limits

SHORTEST_SECRET = 16
MOST_LIMITS = 15  # time limit of a notebook, in limits of a cell


class NoSandbox(Exception):
    """A sandbox was demanded and cannot be had; the message says why."""


class Stopped(Exception):
    """The run cannot go on; the message says what to do. Finished results are kept."""


@dataclass(frozen=True)
class Settings:
    """How to grade.

    Args:
        secret: the seed of all inputs.
        seconds: time limit of each cell, and of each exercise.
        memory: memory limit of a student's notebooks, in MiB.
        chapters: the chapters to grade; all if empty.
        sandbox: True refuses to run anything without a sandbox.
        course: `fingerprint` of the course that grades.
        bubblewrap: False leaves bubblewrap out.
    """

    secret: bytes = field(repr=False)
    seconds: float = grading.CELL_SECONDS
    memory: int = 4096
    chapters: tuple[str, ...] = ()
    sandbox: bool = False
    course: str = ""
    bubblewrap: bool = True

    @property
    def limits(self) -> Limits:
        """The limits of one sandbox."""
        return Limits(self.memory * MIB, READY_SECONDS + math.ceil(self.notebook_seconds))

    @property
    def notebook_seconds(self) -> float:
        """Time limit of a notebook with all its exercises."""
        return MOST_LIMITS * self.seconds

    @property
    def cache_key(self) -> str:
        """Cache key: equal keys give equal scores. It does not reveal the secret."""
        matter = f"{self.seconds} {self.memory} {self.chapters} {self.course}"
        return hmac.digest(self.secret, matter.encode(), hashlib.sha256).hex()


def sources() -> dict[str, Path]:
    """The files that decide about points, by name: definitions, exercises with their data, the grader."""
    course = Path(grading.__file__).parents[1]
    folders = course / "spec", course / "grading", Path(__file__).parent
    return {
        f"{folder.name}/{path.relative_to(folder).as_posix()}": path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in (".py", ".json")
    }


@cache
def fingerprint() -> str:
    """The version of the course, with a digest of `sources` and of all installed packages.

    An edited exercise or definition, or another package, has the class graded again. Exercises that this
    machine cannot judge are named in the fingerprint, so all machines leave out the same ones.
    """
    installed = sorted({f"{x.name} {x.version}" for x in importlib.metadata.distributions()})
    digest = hashlib.sha256("\n".join(installed).encode())
    for name, path in sorted(sources().items()):
        content = path.read_bytes()
        digest.update(f"\n{name} {len(content)}\n".encode() + content)
    left_out = "".join(f", without {name}" for name in names() if load(name).left_out())
    return f"{importlib.metadata.version('attncourse')} {digest.hexdigest()[:16]}{left_out}"


def secret_in(path: Path) -> bytes:
    """The secret in a file; a missing file is made, of random bytes, readable by its owner alone.

    Raises:
        ValueError: the file is too short for a secret.
    """
    if not path.exists():
        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)
        part.touch(0o600, exist_ok=False)
        part.write_bytes(secrets.token_bytes(32))
        part.replace(path)
    secret = path.read_bytes()
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(
            f"{path} has {len(secret)} bytes; a secret needs {SHORTEST_SECRET} or more. "
            "Delete the file, and a new secret is made"
        )
    return secret
