"""Hostile submissions: what a student hands in who wants points without an answer, or harm.

An attack is the text of a few notebook cells, kept beside the wrong answer that it dresses up, so that
without its trick it earns what it must earn with it: nothing. ``@NAME@`` in a text is filled in by the
runner, `support.grader.hostile`, which knows where the traps are. The attacks of a family are notebooks of
one student.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from grader.attacks.answers import NAMES, WRONG, as_found, right

__all__ = ["EVERYWHERE", "FAMILIES", "NAMES", "WRONG", "Attack", "Attacks", "all_of", "as_found", "right"]  # fmt: skip

# What an attack does to the sandbox, the machine or the grader is tried as root and as an ordinary user, with and
# without a cgroup.
EVERYWHERE = ("processes", "limits", "files", "network", "bombs")
# What answers compute is the same everywhere.
FAMILIES = (
    *EVERYWHERE, "exits", "denial", "comparisons", "checks", "liars", "peeking", "wire", "absurd", "library", "memory",
    "by_heart", "trained", "exercises", "notebooks", "text",
)  # fmt: skip

# Before anything that could hurt the machine if the cage were open: stop, and say so.
FUSE = """
import os
if os.readlink("/proc/self/ns/pid") == "@PIDNS@":
    raise SystemExit("MARK-no-cage")
"""
SHOWN = "    return torch.ones(n, m, dtype=torch.bool)\n"  # nothing is hidden: a wrong mask


@dataclass(frozen=True)
class Attack:
    """One hostile notebook.

    Args:
        name: what it tries, in a few words.
        family: the file that it stands in.
        exercise: whose points it wants.
        cells: the text of its code cells, the setup and the ``check`` cell excepted.
        ends: the status of the verdict that it must get, where only one is right; so it reached the judge.
        earns: the most that it may earn, which is what is honest in it.
        endless: it ends by the clock of the grader, which is set to go off soon.
        known: why the grader cannot see it; it then earns what it should not, and the teacher is told.
        apart: it changes torch, or Python, for all notebooks of its student, so that it is a student's only one.
        cgroup: only a cgroup can stop it.
        check: the text of the last cell; by default the honest ``check(...)``.
        edit: what it does to the notebook itself, a dict as in the file, before it is handed in; it
            may also return the bytes of the file.
    """

    name: str
    family: str
    exercise: str
    cells: tuple[str, ...]
    ends: str = "failed"
    earns: int = 0
    endless: bool = False
    known: str = ""
    apart: bool = False
    cgroup: bool = False
    check: str = ""
    edit: Callable | None = None

    @property
    def plain(self) -> bool:
        """Whether it stands in its cells alone, and needs no trap."""
        return not (self.edit or self.check or self.earns or "@" in "".join(self.cells))


class Attacks(list[Attack]):
    """The attacks of a family.

    Args:
        family: the name of the file.
        before: code that all of them need.
        fuse: that code stops where there is no sandbox.
        how: for all of them, as in `Attack`.
    """

    def __init__(self, family: str, before: str = "", fuse: bool = False, **how):
        super().__init__()
        self.family, self.before, self.how = family, FUSE * fuse + before, how

    def add(self, name: str, text: str, exercise: str = "causal_mask", answer: str = "", **how):
        """A trick; where it is not the answer itself, it stands in a cell above a wrong one, or above ``answer``."""
        called = re.escape(NAMES[exercise])
        is_answer = re.search(rf"^(def|class|.* as) {called}\b|^{called} = ", text, re.MULTILINE)
        last = () if is_answer and not answer else (answer or WRONG[exercise],)
        cells = (*as_found(exercise), self.before + text, *last)
        self.append(Attack(name, self.family, exercise, cells, **self.how | how))

    def when_called(self, name: str, body: str, **how):
        """The lines run where the mask of ``n`` queries and ``m`` keys is asked for; then it is a wrong one."""
        lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
        self.add(name, f"def causal_mask(n, m):\n{lines}{SHOWN}", **how)

    def read(self, text: str, **how):
        """Many of them, each below a line ``#: its name | exercise=... | endless | called``.

        ``called`` is for `when_called`, ``right`` puts the right answer below; the others are as in `Attack`.
        """
        for section in re.split(r"^#: ", text, flags=re.MULTILINE)[1:]:
            head, _, body = section.partition("\n")
            name, *options = head.split(" | ")
            parts = (x.partition("=") for x in options)
            given = how | {key: value if is_set else True for key, is_set, value in parts}
            if "earns" in given:
                given["earns"] = int(given["earns"])
            if given.pop("right", False):
                given["answer"] = right(given.get("exercise", "causal_mask"))
            (self.when_called if given.pop("called", False) else self.add)(name, body, **given)


@cache
def all_of(family: str) -> Attacks:
    """The attacks of a family."""
    return import_module(f"grader.attacks.{family}").ATTACKS
