"""What a notebook finds besides Python: `get_ipython` and `display`, as far as a grader needs them.

Magics that time or record what they are given run it, in the notebook; all others do nothing.
"""

import builtins
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

TIMED = {"time", "timeit", "prun"}


class Shell:
    """What `get_ipython()` returns.

    Args:
        execute: runs source in the notebook.
        names: the variables of the notebook.
    """

    def __init__(self, execute: Callable[[str], Any], names: dict[str, Any]):
        self._execute, self.user_ns = execute, names

    def run_line_magic(self, name: str, line: str, *rest: Any) -> Any:
        """``%time y = f(x)``: run it once."""
        return self._time(name, line) if name in TIMED else None

    def run_cell_magic(self, name: str, line: str, body: str) -> Any:
        """``%%time`` and such: run what is below."""
        if name == "capture":
            for target in line.split()[:1]:
                self.user_ns[target] = Captured()
            return self._execute(body)
        return (
            self._time(name, f"{line if name == 'timeit' else ''}\n{body}")
            if name in TIMED
            else None
        )

    def _time(self, name: str, source: str) -> Any:
        source, start = without_options(source), time.perf_counter()
        value = self._execute(source)
        took = time.perf_counter() - start
        if name == "timeit":
            return SimpleNamespace(average=took, best=took, worst=took, stdev=0.0, timings=[took])
        return value

    def run_cell(self, source: str, *rest: Any, **options: Any) -> Any:
        """Run a cell."""
        return self._execute(source)

    def getoutput(self, command: str, *rest: Any, **options: Any) -> list[str]:
        """``!command``: nothing is run, and nothing was said."""
        return []

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing


class Captured:
    """What ``%%capture out`` leaves: nothing was printed."""

    stdout = stderr = ""
    outputs = ()

    def __call__(self, *rest: Any) -> None: ...

    show = __call__


def nothing(*rest: Any, **options: Any) -> None:
    """Does nothing."""


def without_options(source: str) -> str:
    """The statement behind ``-n 10 -r 3 -o``."""
    first, *more = source.lstrip(" \t").split("\n", 1)
    while first.startswith("-"):
        option, _, first = first.partition(" ")
        first = first.lstrip()
        if option in ("-n", "-r", "-p", "-l", "-s", "-T", "-D"):
            first = first.partition(" ")[2].lstrip()
    return "\n".join([first, *more])


def install(execute: Callable[[str], Any], names: dict[str, Any]) -> None:
    """Make them known to every module, as IPython does."""
    shell = Shell(execute, names)
    builtins.get_ipython = lambda: shell
    builtins.display = nothing
