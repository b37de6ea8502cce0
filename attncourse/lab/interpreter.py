"""Runs a Triton program on the processor: in Triton's interpreter, in a process of its own.

Triton compiles its kernels or interprets them, and a process keeps to the one that it began with. So what is
interpreted gets its own process, and everything else stays free to compile.
"""

import ast
import inspect
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

MISSING = "Triton is not installed here, so there is nothing to see: pip install 'attncourse[gpu]' (Linux only)"


def interpreted(program: Callable[[], None]) -> str:
    """What a program prints that uses Triton's kernels, or one line that says that Triton is missing.

    The body of the function becomes a file, so it imports what it uses. It is never called here.

    Args:
        program: a function without arguments.

    Raises:
        RuntimeError: the program failed; the message is the end of what it said.

    Cost: a Python that starts, and 3 s to import torch and Triton; kernels then run a thousand times slower
        than on a card.
    """
    if not find_spec("triton"):
        return MISSING
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{program.__name__}.py")
        file.write_text(body(program), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, file],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TRITON_INTERPRET": "1"},
        )
    if done.returncode:
        raise RuntimeError(f"{program.__name__} failed:\n{done.stderr[-1500:]}")
    return done.stdout.rstrip()


def body(function: Callable) -> str:
    """The lines of a function below its signature, as a program of their own."""
    source = textwrap.dedent(inspect.getsource(function))
    definition = next(x for x in ast.parse(source).body if isinstance(x, ast.FunctionDef))
    lines = source.splitlines()[definition.body[0].lineno - 1 :]
    return textwrap.dedent("\n".join(lines)) + "\n"
