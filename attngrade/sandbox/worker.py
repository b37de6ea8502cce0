"""The worker: runs the cells of a submission, finds its answers, and calls them when asked.

The worker has no right answers. Its reports are not trusted: a submission can forge them all.
"""

import ast
import asyncio
import builtins
import gc
import inspect
import linecache
import os
import random
import socket
import sys
import types
import warnings
from contextlib import ExitStack
from typing import Any

import numpy
import torch
from torch import nn

from attncourse import grading
from attncourse.grading.isolation import torch_defaults
from attngrade.sandbox import notebook_shell
from attngrade.sandbox.calls import Calls, StandIn, state_of
from attngrade.sandbox.peer import Peer
from attngrade.sandbox.wire import Lost, Pipe

MOST_HEADER = 2**28  # bytes: cells may be long, and the grader is trusted


class Worker:
    """Serves the notebooks of one student; ``answers`` are those given to `check`, by exercise."""

    def __init__(self, pipe: Pipe, answers: dict[str, Any]):
        self.answers = answers
        self.calls = Calls(lambda: self.peer.objects, lends=True)
        names = "call", "each", "vjp", "measure", "hold", "call_held"
        served = {name: getattr(self.calls, name) for name in names}
        served |= {x.__name__: x for x in (self.run, self.begin, self.fresh, self.module, self.get)}
        self.peer = Peer(pipe, "w", served, lambda peer, x: StandIn(peer, x["mine"]))
        self.exercise, self.warnings = ExitStack(), ExitStack()
        gc.freeze()  # so that later collections visit objects of notebooks only
        self.paths, self.folder, self.environment = list(sys.path), os.getcwd(), dict(os.environ)
        self.fresh()

    def fresh(self) -> None:
        """Reset the process as if no notebook had run; only imported modules remain."""
        self.exercise.close()
        self.warnings.close()
        self.warnings.enter_context(warnings.catch_warnings())
        self.answers.clear()
        self.peer.begin()
        self.calls.begin()
        self.main = sys.modules["__main__"] = types.ModuleType("__main__")
        self.main.__builtins__ = builtins
        notebook_shell.install(self.execute)
        reset()
        sys.path[:] = self.paths
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        gc.collect()

    def run(self, source: str, title: str) -> None:
        """Run a cell."""
        self.execute(source, f"<{title}>")

    def execute(self, source: str, file: str = "<magic>") -> Any:
        """Run source code in the notebook, with top-level `await`; returns the value of a single expression."""
        linecache.cache[file] = len(source), None, source.splitlines(True), file
        tree = ast.parse(source, file)
        alone = len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr)
        tree = ast.Expression(tree.body[0].value) if alone else tree
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(tree, file, "eval" if alone else "exec", flags, dont_inherit=True)
        value = eval(code, vars(self.main))
        return asyncio.run(value) if code.co_flags & inspect.CO_COROUTINE else value

    def begin(self, name: str, variable: str) -> tuple[bool, bool, Any]:
        """Prepare an exercise; returns whether there is an answer, whether it keeps tensors, and the answer."""
        self.exercise.close()
        self.exercise.enter_context(torch_defaults())
        found = name in self.answers or variable in vars(self.main)
        answer = self.answers[name] if name in self.answers else vars(self.main).get(variable)
        # An object that keeps tensors is judged by later changes to them.
        keeps = isinstance(answer, type) and not issubclass(answer, nn.Module)
        self.peer.begin()
        if keeps:
            self.peer.remember()
        self.calls.begin()
        return found, keeps, answer

    def module(self, far_id: int) -> dict:
        """The state of a layer."""
        return state_of(self.peer.objects[far_id])

    def get(self, far_id: int, name: str) -> Any:
        """An attribute of an object."""
        return getattr(self.peer.objects[far_id], name)


def reset() -> None:
    """Restore the process-wide settings that notebooks may change."""
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    torch._C._set_deterministic_algorithms(False)  # the public call imports the compiler: a second
    torch.set_num_threads(1)
    torch.set_printoptions(profile="default")
    torch.default_generator.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    if "matplotlib" in sys.modules:
        import matplotlib.pyplot

        matplotlib.pyplot.close("all")
        matplotlib.rcdefaults()


def listening() -> dict[str, Any]:
    """The answers given to `check`, by exercise; replaces `check` where the course itself was imported."""
    if not hasattr(grading, "_answers"):
        from attngrade.sandbox import stub

        for name in ("_answers", "check", "hint", "status"):
            setattr(grading, name, getattr(stub, name))
    return grading._answers


def main(descriptor: int, most_bytes: int, filtered: bool) -> None:
    """Serve one student until the judge closes the connection.

    Args:
        descriptor: descriptor of a connected socket.
        most_bytes: limit of one message.
        filtered: True if system calls are filtered; sent in the first message.
    """
    sys.tracebacklimit = 0  # tracebacks are not read, and torch.manual_seed formats three
    pipe = Pipe(socket.socket(fileno=descriptor), most_bytes, MOST_HEADER)
    try:
        worker = Worker(pipe, listening())
        pipe.send({"filter": filtered})
        worker.peer.listen()
    except Lost:
        return
