"""The side of the submission: runs its cells, finds its answers, and calls them when asked.

It knows no right answer. Whatever it says of itself is only what the submission wants to be said.
"""

import linecache
import random
import socket
import sys
import types
from contextlib import ExitStack
from typing import Any

import numpy
import torch
from torch import nn

from attncourse.grading.blocked import blocked
from attncourse.grading.isolation import torch_defaults
from attngrade.sandbox.calls import Calls, StandIn, modes_of
from attngrade.sandbox.peer import Peer, described
from attngrade.sandbox.wire import Lost, Pipe


class Worker:
    """Serves one submission.

    Args:
        pipe: the way to the grader.
        answers: what the submission handed to `check`, by exercise.
    """

    def __init__(self, pipe: Pipe, answers: dict[str, Any]):
        self.answers = answers
        self.calls = Calls(lambda: self.peer.objects)
        serve = {
            "run": self.run,
            "begin": self.begin,
            "module": self.module,
            "get": self.get,
            "call": self.calls.call,
            "each": self.calls.each,
            "vjp": self.calls.vjp,
            "measure": self.calls.measure,
            "hold": self.calls.hold,
            "call_held": self.calls.call_held,
        }
        self.peer = Peer(pipe, "w", serve, lambda peer, x: StandIn(peer, x["mine"]))
        self.exercise = ExitStack()
        self.main = types.ModuleType("__main__")
        sys.modules["__main__"] = self.main

    def run(self, cells: list[list[str]]) -> tuple[list[list], list[str]]:
        """Run cells, of which the source and the title are given.

        Returns: which of them raised what, and the names of all variables and all checked exercises.
        """
        failed = []
        for number, (source, title) in enumerate(cells):
            file = f"<{title}>"
            linecache.cache[file] = len(source), None, source.splitlines(True), file
            try:
                exec(compile(source, file, "exec"), self.main.__dict__)
            except Lost:
                raise
            except BaseException as error:
                failed.append([number, *described(error)])
        return failed, [*vars(self.main), *self.answers]

    def begin(self, name: str, variable: str, forbidden: list[str]) -> tuple[bool, bool, Any]:
        """Get ready for an exercise: is there an answer, does it keep tensors, and the answer."""
        self.exercise.close()
        self.exercise.enter_context(torch_defaults())
        self.exercise.enter_context(blocked(tuple(forbidden)))
        # The source of what is forbidden was read from the name of the answer on; so this is judged.
        checked = name in self.answers and not forbidden
        found = checked or variable in vars(self.main)
        answer = self.answers[name] if checked else vars(self.main).get(variable)
        # An object that keeps tensors is judged by what happens to them later.
        keeps = isinstance(answer, type) and not issubclass(answer, nn.Module)
        self.peer.begin()
        if keeps:
            self.peer.remember()
        self.calls.graphs.clear()
        return found, keeps, answer

    def module(self, far_id: int) -> dict:
        """What a `torch.nn.Module` stores, and in which mode each of its parts is."""
        module = self.peer.objects[far_id]
        return {
            "parameters": dict(module.named_parameters()),
            "buffers": dict(module.named_buffers()),
            "training": modes_of(module),
        }

    def get(self, far_id: int, name: str) -> Any:
        """An attribute of an object."""
        return getattr(self.peer.objects[far_id], name)


def work(pipe: Pipe, answers: dict[str, Any]) -> None:
    """Serve one submission until the grader has enough."""
    sys.tracebacklimit = 0  # nobody reads one here, and torch.manual_seed formats three
    try:
        Worker(pipe, answers).peer.listen()
    except Lost:
        return


CELL = """
import math

import torch

_ = torch.manual_seed(0)
torch.set_printoptions(precision=2, sci_mode=False)


def answer(x):
    weights = torch.softmax(x @ x.mT / math.sqrt(x.size(-1)), dim=-1)
    return weights @ x, torch.arange(3) <= torch.arange(3)[:, None]
"""


def rehearse(times: int = 10) -> None:
    """Do what every worker does: what is loaded, set, looked up and sped up here is so in all its forks."""
    ours, theirs = socket.socketpair()
    grader = Peer(Pipe(ours, 2**20), "g", {}, lambda peer, x: x)
    for _ in range(times):
        worker = Worker(Pipe(theirs, 2**20), {})
        for order in (
            ["run", [[CELL, "cell 1"]]],
            ["begin", "", "answer", []],
            ["each", 0, [[[torch.ones(2, 3)], {}, None, False, 0]]],
        ):
            grader._send(["ask", order[0], order[1:]])
            worker.peer._serve(*worker.peer._receive()[1:])
            grader._receive()
        worker.exercise.close()
    ours.close()
    theirs.close()
    torch.set_num_threads(1)
    random.seed(0)
    numpy.random.seed(0)
