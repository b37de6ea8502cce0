"""Two processes that call each other's functions: arguments, results and gradients travel, code does not.

Both sides run this file. The grader's side drives a judge with stand-ins for the answer. The side of
the submission has stand-ins, too, where an exercise hands it a function.
"""

import builtins
import warnings
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.far.measure import made_by
from attncourse.grading.far.wire import Lost, Memory, Packer, Pipe

MOST_REQUESTS = 50_000
FUNCTIONS = FunctionType, MethodType, BuiltinFunctionType, partial
MESSAGES = [str, str, list], [str, str, str, bool]  # a question; an error; and ["reply", anything]


class Peer:
    """One side of a conversation.

    Args:
        pipe: the way to the other side.
        owner: the letter of this side, ``"g"`` for the grader and ``"w"`` for the worker.
        serve: ``{"call": function}``: what the other side may ask for, by name.
        stand_in: makes a stand-in of the description of a function, class or object over there.
        limited: ``with limited(bytes, of_arguments)`` bounds the memory of the other side.
    """

    def __init__(
        self,
        pipe: Pipe,
        owner: str,
        serve: dict[str, Callable],
        stand_in: Callable,
        limited: Callable | None = None,
    ):
        self.pipe, self.owner, self.serve, self.stand_in = pipe, owner, serve, stand_in
        self.limited = limited
        self.begin()

    def begin(self) -> None:
        """Forget the objects of before."""
        self.objects: list[Any] = []
        self.stand_ins: dict[int, Any] = {}
        self.memory: Memory | None = None
        self.requests = 0

    def remember(self) -> None:
        """From now on memory keeps its identity over many messages.

        What one side writes into a tensor that both have seen, the other sees after the next message.
        """
        self.memory = Memory(self.owner)

    def ask(self, what: str, *args: Any) -> Any:
        """Have the other side do something, and serve it until it has.

        Raises:
            Exception: what was raised over there, as the nearest kind that Python knows.
            Lost: the other side is gone or talks nonsense.
        """
        self._send(["ask", what, list(args)])
        while True:
            kind, *rest = self._receive()
            if kind == "reply":
                return rest[0]
            if kind == "raised":
                raise raised(*rest)
            self._serve(*rest)

    def listen(self) -> None:
        """Serve until the other side is gone."""
        while True:
            kind, *rest = self._receive()
            if kind == "ask":
                self._serve(*rest)

    def _serve(self, what: str, args: list) -> None:
        self.requests += 1
        if what not in self.serve or self.requests > MOST_REQUESTS:
            raise Lost("it asked for what it may not have")
        try:
            reply = ["reply", self.serve[what](*args)]
        except Lost:
            raise
        except BaseException as error:
            reply = ["raised", *described(error)]
        self._send(reply)

    def _packer(self) -> Packer:
        memory = Memory(self.owner) if self.memory is None else self.memory
        return Packer(memory, self.export, self.resolve)

    def _send(self, body: list) -> None:
        packer = self._packer()
        self.pipe.send(packer.pack(body), packer.memory.known)

    def _receive(self) -> list:
        tree, arrived = self.pipe.receive()
        packer = self._packer()
        packer.memory.update(arrived)
        body = packer.unpack(tree)
        if not isinstance(body, list) or [type(x) for x in body] not in MESSAGES:
            if not (isinstance(body, list) and len(body) == 2 and body[0] == "reply"):
                raise Lost("what it sent is no message")
        return body

    def export(self, x: Any) -> dict:
        """The description of an object that stays here."""
        if isinstance(x, Far):
            return {"object": {"yours": x.far_id}}
        number = next((k for k, known in enumerate(self.objects) if known is x), len(self.objects))
        if number == len(self.objects):
            self.objects.append(x)
        kinds = {"class": type, "module": nn.Module, "function": FUNCTIONS}
        kind = next((kind for kind, t in kinds.items() if isinstance(x, t)), "object")
        name = str(type(x).__name__)
        return {"object": {"mine": number, "kind": kind, "type": name, "calls": callable(x)}}

    def resolve(self, x: dict) -> Any:
        """Our own object, or the stand-in of one over there."""
        if "yours" in x:
            return self.objects[x["yours"]]
        number = x["mine"]
        if type(number) is not int or not 0 <= number < MOST_REQUESTS:
            raise Lost("it described an object that cannot be")
        if number not in self.stand_ins:
            self.stand_ins[number] = self.stand_in(self, x)
        return self.stand_ins[number]


class Far:
    """Stands for an object of the other side."""

    def __init__(self, peer: Peer, far_id: int):
        self.peer, self.far_id = peer, far_id

    def __repr__(self) -> str:
        return f"a {type(self).__name__}"


class StandIn(Far):
    """Stands for a function: calling it calls the other side, gradients included."""

    def __call__(self, *args, **kwargs):
        return call(self.peer, self.far_id, args, kwargs)

    def far_made_by(self, *args):
        """What its call makes on its way, as the other side says."""
        return self.peer.ask("measure", self.far_id, list(args))

    def far_within(self, most_bytes: int, *args):
        """Its result, if it takes no more memory than this beyond its arguments.

        Raises:
            Exception: it takes more.
        """
        self.peer.ask("hold", list(args))
        with self.peer.limited(most_bytes, sum(x.nbytes for x in args)):
            return self.peer.ask("call_held", self.far_id)


def call(peer: Peer, far_id: int, args: tuple, kwargs: dict, state: Any = None) -> Any:
    """Call an object of the other side.

    Arguments that it changes are changed here, and gradients of the result flow back to ``args`` and
    to the parameters of ``state``, which is lent to a layer.
    """
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    stored = list(state["parameters"].values()) if state else []
    seed = int(
        torch.randint(2**62, ())
    )  # whatever is random over there follows what was seeded here
    result, changed, number, modes, said = peer.ask(
        "call", far_id, list(args), kwargs, state, torch.is_grad_enabled(), seed
    )
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
        torch.manual_seed(seed)
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


def described(error: BaseException) -> tuple[str, str, bool]:
    """The nearest kind that Python knows, what it says, and whether it was raised bare."""
    kind = next(
        (c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"), "Exception"
    )
    try:
        return kind, str(error)[:1000], not error.args
    except Exception:  # an error that cannot say what it is
        return kind, type(error).__name__, False


def raised(kind: str, message: str, bare: bool) -> Exception:
    """The error of the other side, made here: a subclass of its kind that says what it said."""
    base = getattr(builtins, kind, Exception)
    if not (isinstance(base, type) and issubclass(base, Exception | SystemExit)):
        base = RuntimeError
    # made without __init__: some kinds want arguments of their own
    error = BaseException.__new__(type(kind, (base,), {"__str__": lambda self: message}))
    error.args = () if bare else (message,)
    return error
