"""Hostile submissions: what a student hands in who wants points without an answer, or harm.

An attack is the text of a few notebook cells, kept beside the wrong answer that it dresses up, so that
without its trick it earns what it must earn with it: nothing. ``@NAME@`` in a text is filled in by the
runner, ``tests/grader/test_attacks.py``: it knows where the traps are.
"""

from collections.abc import Callable
from dataclasses import dataclass

from grader.attacks.answers import BEFORE, NAMES
from grader.attacks.right_answers import RIGHT
from grader.attacks.wrong_answers import WRONG

__all__ = ["BEFORE", "FAMILIES", "NAMES", "RIGHT", "WRONG", "Attack", "Attacks"]

FAMILIES = (
    "comparisons",
    "checks",
    "liars",
    "peeking",
    "wire",
    "exits",
    "loops",
    "bombs",
    "processes",
    "files",
    "network",
    "forbidden",
    "softmax",
    "smuggled",
    "course",
    "absurd",
    "memory",
    "input_sniffers",
    "trained",
    "kernels",
    "positions",
    "flash",
    "windows",
    "tables",
    "scores",
    "notebooks",
)

# Before anything that could hurt the machine if the cage were open: stop, and say so.
FUSE = """
import os

try:
    shared = os.readlink("/proc/self/ns/pid") == "@PIDNS@"
except OSError:
    shared = False
if shared and os.getuid() in (0, int("@UID@")):
    raise RuntimeError("MARK-no-cage")
"""


@dataclass(frozen=True)
class Attack:
    """One hostile submission.

    Args:
        name: what it tries, in a few words.
        family: the file that it stands in.
        exercise: whose points it wants.
        cells: the text of its code cells, the setup and the ``check`` cell excepted.
        earns: the most that it may earn, which is what is honest in it.
        endless: it ends by the clock of the grader.
        known: why the grader cannot see it; it then earns what it should not, and the teacher is told.
        needs: a word of the protection without which it would do harm to the machine.
        check: the text of the last cell; by default the honest ``check(...)``.
        edit: what it does to the notebook itself, a dict as in the file, before it is handed in; it
            may also return the bytes of the file.
    """

    name: str
    family: str
    exercise: str
    cells: tuple[str, ...]
    earns: int = 0
    endless: bool = False
    known: str = ""
    needs: str = ""
    check: str = ""
    edit: Callable | None = None


class Attacks(list[Attack]):
    """The attacks of a family; `beside` and `instead` add to it.

    Args:
        family: the name of the file.
        needs: what all of them need, as in `Attack`.
    """

    def __init__(self, family: str, needs: str = ""):
        super().__init__()
        self.family, self.needs = family, needs

    def beside(self, exercise: str, name: str, trick: str, *, fuse=False, right=False, **how):
        """A trick in a cell of its own, in front of a wrong answer (a right one where so said)."""
        answer = (RIGHT if right else WRONG)[exercise]
        self.instead(exercise, name, trick, fuse=fuse, last=(answer,), **how)

    def instead(
        self, exercise: str, name: str, answer: str, *, fuse=False, first=(), last=(), **how
    ):
        """The trick is the answer; ``first`` and ``last`` are cells around it."""
        answer = FUSE + answer if fuse else answer
        cells = (*BEFORE.get(exercise, ()), *first, answer, *last)
        how = {"needs": "bubblewrap" if fuse else self.needs} | how
        self.append(Attack(name, self.family, exercise, cells, **how))
