"""Calls across processes: gradients flow back, changed arguments are changed, warnings are heard again."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.allocations import Allocations, made_by
from attncourse.grading.answer import RemoteAnswer
from attngrade.sandbox.peer import Far, Peer, opened, reply_of
from attngrade.sandbox.wire import Lost


class StandIn(Far, RemoteAnswer):
    """Stands for a function: calling it calls the other side, gradients included."""

    def __call__(self, *args, **kwargs):
        return call(self.peer, self.far_id, args, kwargs)

    def results(self, calls: list[tuple[list, dict]]) -> list[Callable]:
        """Many calls in one message. For each a function that gives its result, or raises what it raised."""
        asked = [order(args, kwargs) for args, kwargs in calls]
        replies = self.peer.ask("each", self.far_id, asked)
        return [
            lambda reply=reply, given=given: taken(self.peer, opened(reply), *given)
            for reply, given in zip(replies, calls, strict=True)
        ]

    def allocations(self, *args) -> Allocations:
        """What its call makes on its way, as the other side says."""
        return Allocations(*self.peer.ask("measure", self.far_id, list(args)))

    def within(self, most_bytes: int, *args):
        """Its result, if it takes no more memory than this beyond its arguments.

        Raises:
            Exception: it takes more.
        """
        self.peer.ask("hold", list(args))
        held = sum(x.nbytes for x in args if isinstance(x, Tensor))
        with self.peer.limited(most_bytes, held):
            return self.peer.ask("call_held", self.far_id)


def call(peer: Peer, far_id: int, args: tuple, kwargs: dict, state: Any = None) -> Any:
    """Call an object of the other side.

    Arguments that it changes are changed here, and gradients of the result flow back to ``args`` and
    to the parameters of ``state``, which is lent to a layer.
    """
    return taken(peer, peer.ask("call", far_id, *order(args, kwargs, state)), args, kwargs, state)


def order(args: Iterable, kwargs: dict, state: Any = None) -> list:
    """What the other side must know of a call."""
    seed = torch.randint(2**62, ())  # whatever is random over there follows what was seeded here
    return [list(args), kwargs, state, torch.is_grad_enabled(), int(seed)]


def taken(peer: Peer, told: list, args: Iterable, kwargs: dict, state: Any = None) -> Any:
    """The result of a call, of what `Calls.call` told of it."""
    result, changed, number, modes, said = told
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    stored = list(state["parameters"].values()) if state else []
    for text in said[:3]:
        warnings.warn(text, stacklevel=2)
    with torch.no_grad():
        for k, x in changed.items():
            given[k].copy_(x)
    if state:
        state["training"] = modes
    if number is None:
        return detached(result)
    inputs = [x for x in (*given, *stored) if x.requires_grad]
    outputs = tensors(result)
    attached = iter(Attached.apply(peer, number, outputs, *inputs))
    return exchanged(result, lambda x: next(attached))


class Attached(torch.autograd.Function):
    """Results of the other side, tied to the inputs here; the gradient is asked for over there."""

    @staticmethod
    def forward(ctx, peer, number, outputs, *inputs):
        ctx.peer, ctx.number, ctx.count = peer, number, len(inputs)
        plain = [x.detach() for x in outputs]
        ctx.mark_non_differentiable(
            *(x for x, y in zip(plain, outputs, strict=True) if not y.requires_grad)
        )
        ctx.set_materialize_grads(False)
        return tuple(plain)

    @staticmethod
    def backward(ctx, *grads):
        found = ctx.peer.ask("vjp", ctx.number, list(grads))
        if not isinstance(found, list) or len(found) != ctx.count:
            raise Lost("it sent another number of gradients than there are inputs")
        return None, None, None, *found


class Calls:
    """Serves calls of our own objects, and keeps their graphs for the gradients."""

    def __init__(self, objects: Callable[[], list]):
        self.objects, self.graphs, self.held = objects, [], []

    def call(self, far_id: int, args: list, kwargs: dict, state: Any, grad: bool, seed: int):
        """The result, changed arguments, the number of the graph, the modes of a layer, warnings."""
        torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a stack, three times
        answer = self.objects()[far_id]
        stored = lend(answer, state) if state else []
        leaves = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.requires_grad]
        # as for a judge in this process: the function gets no leaf, so it may change its input in place
        fresh = {id(x): x * 1 for x in leaves}
        args = [fresh.get(id(x), x) for x in args]
        kwargs = {name: fresh.get(id(x), x) for name, x in kwargs.items()}
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        before = [x.detach().clone() for x in given]
        with torch.set_grad_enabled(grad), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = answer(*args, **kwargs)
        said = [str(x.message) for x in said[:3]]
        changed = {
            k: x.detach() for k, x in enumerate(given) if not torch.equal(x.detach(), before[k])
        }
        modes = modes_of(answer) if state else None
        outputs = tensors(result)
        if not grad or not any(x.requires_grad for x in outputs):
            return detached(result), changed, None, modes, said
        inputs = [*fresh.values(), *(p for p in stored if p.requires_grad)]
        self.graphs.append((outputs, inputs))
        return result, changed, len(self.graphs) - 1, modes, said

    def each(self, far_id: int, asked: list[list]) -> list[list]:
        """What calls gave, one after the other, or what they raised."""
        return [reply_of(self.call, far_id, *what) for what in asked]

    def measure(self, far_id: int, args: list) -> tuple:
        """What a call makes on its way."""
        return tuple(made_by(self.objects()[far_id], *args))

    def hold(self, args: list) -> None:
        """Keep the arguments of the next `call_held`."""
        self.held = args

    def call_held(self, far_id: int) -> Any:
        """The result for the arguments that are held."""
        with torch.no_grad():
            return self.objects()[far_id](*self.held)

    def vjp(self, number: int, grads: list) -> list:
        """Gradients of the inputs of a call; None where none arrives."""
        outputs, inputs = self.graphs[number]
        pairs = [
            (y, g) for y, g in zip(outputs, grads, strict=True) if g is not None and y.requires_grad
        ]
        if not pairs or not inputs:
            return [None] * len(inputs)
        with torch.enable_grad():
            made, grads = zip(*pairs, strict=True)
            options = {"retain_graph": True, "allow_unused": True}
            return list(torch.autograd.grad(made, inputs, grads, **options))


def lend(module: nn.Module, state: dict) -> list[Tensor]:
    """Put parameters, buffers and modes into a module; returns its parameters."""
    parameters = dict(module.named_parameters())
    for name, value in state["parameters"].items():
        parameters[name].data = value.detach()
    buffers = dict(module.named_buffers())
    for name, value in state["buffers"].items():
        if buffers.get(name) is not None:
            buffers[name].data = value
    parts = dict(module.named_modules())
    for name, training in state["training"].items():
        parts[name].training = training
    return [parameters[name] for name in state["parameters"]]


def modes_of(module: nn.Module) -> dict[str, bool]:
    """Is it training, for every part of a layer?"""
    return {name: bool(part.training) for name, part in module.named_modules()}


def tensors(x: Any) -> list[Tensor]:
    """All tensors of a result, in order."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for y in x for t in tensors(y)] if isinstance(x, tuple | list) else []


def exchanged(x: Any, change: Callable) -> Any:
    """The same structure with every tensor exchanged."""
    if isinstance(x, Tensor):
        return change(x)
    if isinstance(x, dict):
        return {k: exchanged(y, change) for k, y in x.items()}
    if isinstance(x, tuple | list):
        return type(x)(exchanged(y, change) for y in x) if type(x) in (tuple, list) else x
    return x


def detached(x: Any) -> Any:
    """The result without its graph."""
    return exchanged(x, lambda t: t.detach())
