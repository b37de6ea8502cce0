"""Calls across processes: many in one message, or one by one with gradients that flow back."""

import hashlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from attncourse.grading.allocations import Allocations, made_by
from attncourse.grading.answer import Outcome, Question, RemoteAnswer, lists_in, look, tensors_in
from attngrade.sandbox.peer import Far, Peer, described, opened, raised, reply_of
from attngrade.sandbox.values import bounded
from attngrade.sandbox.wire import expect

MOST_GRAPHS, MOST_GRAPH_BYTES = 256, 2**28  # kept for gradients; older graphs are dropped
MOST_WARNINGS = 3


class StandIn(Far, RemoteAnswer):
    """Proxy of a function on the other side; gradients flow through its calls."""

    def __call__(self, *args, **kwargs):
        return call(self.peer, self.far_id, args, kwargs)

    def results(self, calls: list[Question]) -> list[Callable[[], Outcome]]:
        """The outcomes of many calls, asked for in one message; gradients are computed on the other side."""
        asked = [[list(x.args), x.kwargs, x.gradients] for x in calls]
        replies = self.peer.ask("each", self.far_id, asked)
        expect(isinstance(replies, list) and len(replies) == len(calls))
        return [partial(outcome, *x) for x in zip(replies, calls, strict=True)]

    def allocations(self, *args: Any) -> Allocations:
        """Sizes of the tensors that a call creates, as reported by the other side."""
        return allocations(self.peer, self.far_id, args)

    def within(self, most_bytes: int, *args: Any) -> Any:
        """The result of a call that is limited to ``most_bytes`` beyond its arguments.

        Raises:
            Exception: the call exceeds the limit.
        """
        self.peer.ask("hold", list(args))
        held = sum(x.nbytes for x in tensors_in(args))
        with self.peer.limited(most_bytes, held):
            return self.peer.ask("call_held", self.far_id)


def allocations(peer: Peer, far_id: int, args: tuple) -> Allocations:
    """Sizes of the tensors that a call creates, as reported by the other side."""
    told = peer.ask("measure", far_id, list(args))
    expect(isinstance(told, tuple) and [type(x) for x in told] == [int, int, str, int])
    return Allocations(*told)


def outcome(reply: Any, question: Question) -> Outcome:
    """The reported outcome of a call; raises the error of the call, or `Lost` for an impossible report."""
    told = opened(reply)
    expect(isinstance(told, tuple) and len(told) == 3)
    output, gradients, changed = told
    given = tensors_in((*question.args, *question.kwargs.values()))
    count = len(given) + len(lists_in(question.args))
    expect(isinstance(changed, list) and all(type(k) is int and 0 <= k < count for k in changed))
    match gradients:
        case [str(kind), str(message), bool(bare)]:
            return Outcome(output, raised(kind, message, bare), changed)
    wanted = sum(x.is_floating_point() for x in tensors_in(question.args)) * question.gradients
    expect(isinstance(gradients, list) and len(gradients) == wanted)
    expect(all(x is None or isinstance(x, Tensor) for x in gradients))
    return Outcome(output, gradients, changed)


def call(peer: Peer, far_id: int, args: tuple, kwargs: dict, state: dict | None = None) -> Any:
    """Call an object of the other side.

    Arguments that the call changes are changed here, too. Gradients of the result flow back to ``args`` and
    to the parameters in ``state``, which is lent to a layer.
    """
    # Random numbers of the other side follow the seed of this side and do not reveal it.
    drawn = int(torch.randint(2**62, ())).to_bytes(8)
    seed = int.from_bytes(hashlib.sha256(drawn).digest()[:7])
    told = peer.ask("call", far_id, list(args), kwargs, state, torch.is_grad_enabled(), seed)
    expect(isinstance(told, tuple) and [type(x) for x in told[2:]] == [dict, list])
    result, number, changed, said = told
    given = tensors_in((*args, *kwargs.values()))
    for k, x in changed.items():
        known = k.isdecimal() and int(k) < len(given) and isinstance(x, Tensor)
        expect(known and x.shape == given[int(k)].shape)
        with torch.no_grad():
            given[int(k)].copy_(x)
    for text in said[:MOST_WARNINGS]:
        warnings.warn(str(text), stacklevel=2)
    if number is None:
        return tree_map_only(Tensor, Tensor.detach, result)
    stored = list(state["parameters"].values()) if state else []
    inputs = [x for x in (*given, *stored) if x.requires_grad]
    attached = iter(Attached.apply(peer, number, tensors(result), *inputs))
    return tree_map_only(Tensor, lambda x: next(attached), result)


class Attached(torch.autograd.Function):
    """Ties results of the other side to inputs of this side; backward asks the other side for gradients."""

    @staticmethod
    def forward(ctx, peer, number, outputs, *inputs):
        ctx.peer, ctx.number, ctx.count = peer, number, len(inputs)
        plain = [x.detach() for x in outputs]
        fixed = [x for x, y in zip(plain, outputs, strict=True) if not y.requires_grad]
        ctx.mark_non_differentiable(*fixed)
        ctx.set_materialize_grads(False)
        return tuple(plain)

    @staticmethod
    def backward(ctx, *grads):
        found = ctx.peer.ask("vjp", ctx.number, list(grads))
        expect(isinstance(found, list) and len(found) == ctx.count)
        return None, None, None, *found


class Calls:
    """Serves calls of this side's objects, and keeps their latest graphs for gradients.

    Args:
        objects: returns the objects that the other side may call, by number.
        lends: True lets the other side lend parameters to our layers and seed our random numbers.
    """

    def __init__(self, objects: Callable[[], list], lends: bool = False):
        self.objects, self.lends = objects, lends
        self.own: dict[int, tuple[nn.Module, dict]] = {}
        self.begin()

    def begin(self) -> None:
        """Drop all graphs and held arguments; restore the layers that were lent other parameters."""
        for layer, state in self.own.values():
            with suppress(Exception):  # the layer has other parts by now
                lend(layer, state)
        self.own = {}
        self.graphs: dict[int, tuple[list[Tensor], list[Tensor], int]] = {}
        self.made, self.held = 0, []

    def call(self, far_id: int, args: list, kwargs: dict, state: Any, grad: bool, seed: int):
        """The result, the number of its graph, changed arguments by index, warnings."""
        answer = self.objects()[far_id]
        if self.lends:
            torch.default_generator.manual_seed(seed)
        stored = self.lend(answer, state) if state and self.lends else []
        # As for a judge in this process: the function gets no leaf, so it may change its input in place.
        args, kwargs = tree_map_only(Tensor, no_leaf, (args, kwargs))
        given = tensors_in((*args, *kwargs.values()))
        inputs = [x for x in (*given, *stored) if x.requires_grad]
        before = [x.detach().clone() for x in given]
        with torch.set_grad_enabled(grad), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = bounded(answer(*args, **kwargs))
        said = [str(x.message) for x in said[:MOST_WARNINGS]]
        pairs = enumerate(zip(given, before, strict=True))
        changed = {k: x.detach() for k, (x, y) in pairs if not torch.equal(x.detach(), y)}
        if not grad or not any(x.requires_grad for x in tensors(result)):
            return result, None, changed, said
        return result, self.keep(tensors(result), inputs), changed, said

    def lend(self, layer: nn.Module, state: dict) -> list[Tensor]:
        """Lend numbers to a layer and keep its own: another exercise may ask for the same layer."""
        if id(layer) not in self.own:
            own = state_of(layer)
            for part in ("parameters", "buffers"):
                own[part] = {name: x.data for name, x in own[part].items()}
            self.own[id(layer)] = layer, own
        return lend(layer, state)

    def keep(self, outputs: list[Tensor], inputs: list[Tensor]) -> int:
        """Keep a graph for `vjp` until there are too many later ones; returns its number."""
        size = sum(x.untyped_storage().nbytes() for x in (*outputs, *inputs))
        self.made += 1
        self.graphs[self.made] = outputs, inputs, size
        while len(self.graphs) > MOST_GRAPHS or self.kept_bytes() > MOST_GRAPH_BYTES:
            del self.graphs[min(self.graphs)]
        return self.made

    def kept_bytes(self) -> int:
        """Size of all graphs."""
        return sum(size for *_, size in self.graphs.values())

    def vjp(self, number: int, grads: list) -> list:
        """Gradients of the inputs of a call; None where no gradient arrives."""
        if number not in self.graphs:
            raise RuntimeError("the graph of this call is gone; there were too many others since")
        outputs, inputs, _ = self.graphs[number]
        pairs = zip(outputs, grads, strict=True)
        pairs = [(y, g) for y, g in pairs if g is not None and y.requires_grad]
        if not pairs or not inputs:
            return [None] * len(inputs)
        made, grads = zip(*pairs, strict=True)
        options = {"retain_graph": True, "allow_unused": True}
        return list(torch.autograd.grad(made, inputs, grads, **options))

    def each(self, far_id: int, asked: list[list]) -> list[list]:
        """The reply to each call, in order: an outcome or an error."""
        return [reply_of(self.look, far_id, *what) for what in asked]

    def look(self, far_id: int, args: list, kwargs: dict, gradients: bool) -> tuple:
        """The `Outcome` of a call."""
        question = Question(tuple(args), kwargs, gradients)
        output, found, changed = look(self.objects()[far_id], question)
        found = described(found) if isinstance(found, BaseException) else found
        return bounded(output), found, changed

    def measure(self, far_id: int, args: list) -> tuple:
        """Sizes of the tensors that a call creates."""
        return tuple(made_by(self.objects()[far_id], *args))

    def hold(self, args: list) -> None:
        """Keep the arguments of the next `call_held`."""
        self.held = args

    def call_held(self, far_id: int) -> Any:
        """The result of a call with the held arguments."""
        held, self.held = self.held, []
        with torch.no_grad():
            return bounded(self.objects()[far_id](*held))


def state_of(module: nn.Module) -> dict[str, dict]:
    """Parameters, buffers and training modes of a layer, by name."""
    return {
        "parameters": dict(module.named_parameters()),
        "buffers": dict(module.named_buffers()),
        "training": {name: bool(part.training) for name, part in module.named_modules()},
    }


def lend(module: nn.Module, state: dict) -> list[Tensor]:
    """Put a state of `state_of` into a layer; returns its parameters."""
    # looked up in dictionaries: a scripted layer has no `get_parameter`
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    for name, value in state["parameters"].items():
        parameters[name].data = value.detach()
    for name in buffers.keys() & state["buffers"].keys():
        buffers[name].data = state["buffers"][name]
    for name, part in module.named_modules():
        part.training = state["training"].get(name, part.training)
    return [parameters[name] for name in state["parameters"]]


@torch.enable_grad()
def no_leaf(x: Tensor) -> Tensor:
    """A non-leaf copy of ``x``: may be changed in place, gradients reach ``x``."""
    return x * 1 if x.requires_grad else x


def tensors(x: Any) -> list[Tensor]:
    """All tensors in a result, in order."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for y in x for t in tensors(y)] if isinstance(x, tuple | list) else []
