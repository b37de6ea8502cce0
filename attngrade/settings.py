"""How a class is graded: what all who grade must agree on."""

import hashlib
import hmac
import importlib.metadata
import secrets
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from attncourse import grading
from attncourse.grading.exercises import load, names
from attngrade.sandbox.limits import MIB, Limits

SHORTEST_SECRET = 16


class NoSandbox(Exception):
    """A sandbox was demanded and there is none; the message says why."""


class Stopped(Exception):
    """The run cannot go on; the message says what to do. What was graded is kept."""


@dataclass(frozen=True)
class Settings:
    """How to grade.

    Args:
        secret: what the inputs are drawn from.
        seconds: of each cell, and of each exercise.
        memory: MiB that a student's notebooks may use.
        chapters: only these; all if empty.
        sandbox: refuse to run anything without one.
        course: `fingerprint` of the course that grades.
        bubblewrap: False does without.
    """

    secret: bytes = field(repr=False)
    seconds: float = 120
    memory: int = 4096
    chapters: tuple[str, ...] = ()
    sandbox: bool = False
    course: str = ""
    bubblewrap: bool = True

    @property
    def limits(self) -> Limits:
        """Of one sandbox."""
        return Limits(self.memory * MIB)

    @property
    def mark(self) -> str:
        """Cache key: equal keys give equal scores. It does not reveal the secret."""
        matter = f"{self.seconds} {self.memory} {self.chapters} {self.course}"
        return hmac.digest(self.secret, matter.encode(), hashlib.sha256).hex()


def sources() -> dict[str, Path]:
    """The files that decide about points, by their names: definitions, exercises with their data, the grader."""
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
    """The version of the course, and a digest of all that grades and of all that is installed.

    An edited exercise or definition has the class graded again, and so has another package. What cannot be
    judged on this machine stands in it, so that all machines leave out the same.
    """
    installed = sorted({f"{x.name} {x.version}" for x in importlib.metadata.distributions()})
    digest = hashlib.sha256("\n".join(installed).encode())
    for name, path in sorted(sources().items()):
        content = path.read_bytes()
        digest.update(f"\n{name} {len(content)}\n".encode() + content)
    left_out = "".join(f", without {name}" for name in names() if load(name).left_out())
    return f"{importlib.metadata.version('attncourse')} {digest.hexdigest()[:16]}{left_out}"


def secret_in(path: Path) -> bytes:
    """The secret in this file, which is made if it is not there: of random bytes, for its owner only.

    Raises:
        ValueError: what is there is too short to be a secret.
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
