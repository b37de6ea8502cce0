"""Two processes that call each other's functions: arguments, results and gradients travel, code does not.

Both sides run this file. The grader's side drives a judge with stand-ins for the answer. The side of
the submission has stand-ins, too, where an exercise hands it a function.
"""

import builtins
from collections.abc import Callable
from typing import Any

from torch import nn

from attngrade.sandbox.takes import arguments_of
from attngrade.sandbox.values import MOST_TEXT, Memory, Packer, named, without_addresses
from attngrade.sandbox.wire import MOST_BYTES, Lost, Pipe, expect

MOST_REQUESTS, MOST_OBJECTS = 50_000, 2_000  # of the other side, in one exercise


class Peer:
    """One side of a conversation.

    Args:
        pipe: the way to the other side.
        owner: the letter of this side, ``"g"`` for the grader and ``"w"`` for the worker.
        serve: ``{"call": function}``: what the other side may ask for, by name.
        stand_in: makes a stand-in of the description of a function, class or object over there.
        limited: ``with limited(bytes, of_arguments)`` bounds the memory of the other side.
    """

    def __init__(self, pipe: Pipe, owner: str, serve: dict, stand_in: Callable, limited=None):
        self.pipe, self.owner, self.serve, self.stand_in = pipe, owner, serve, stand_in
        self.limited = limited
        self.begin()

    def begin(self) -> None:
        """Forget the objects of before; count anew what the other side sends."""
        self.objects: list[Any] = []
        self.stand_ins: dict[int, Any] = {}
        self.memory: Memory | None = None
        self.requests = 0
        if self.owner == "g":
            self.pipe.left = MOST_BYTES

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
        return opened(self.listen())

    def listen(self) -> list:
        """Serve the other side until it sends something else than a question."""
        while True:
            message = self._receive()
            if message[0] != "ask":
                return message
            self._serve(*message[1:])

    def _serve(self, what: str, args: list) -> None:
        self.requests += 1
        may = what in self.serve and (self.owner == "w" or self.requests <= MOST_REQUESTS)
        expect(may, "it asked for what it may not have")
        self._send(reply_of(self.serve[what], *args))

    def _packer(self) -> Packer:
        memory = Memory(self.owner) if self.memory is None else self.memory
        return Packer(memory, self.export, self.resolve)

    def _send(self, body: list) -> None:
        packer = self._packer()
        tree = packer.pack(body)
        self.pipe.send(tree, packer.memory.known)

    def _receive(self) -> list:
        tree, arrived = self.pipe.receive()
        packer = self._packer()
        packer.memory.update(arrived)
        return checked(packer.unpack(tree))

    def export(self, x: Any) -> dict:
        """The description of an object that stays here."""
        if isinstance(x, Far):
            return {"object": {"yours": x.far_id}}
        number = next((k for k, known in enumerate(self.objects) if known is x), len(self.objects))
        if number == len(self.objects):
            self.objects.append(x)
        kinds = {"class": type, "module": nn.Module, "function": object if callable(x) else ()}
        kind = next((kind for kind, t in kinds.items() if isinstance(x, t)), "object")
        described = {"mine": number, "kind": kind, "type": type(x).__name__[:60]}
        if self.owner == "w" and kind in ("function", "class"):
            described["takes"] = arguments_of(x)
        return {"object": described}

    def resolve(self, x: dict) -> Any:
        """Our own object, or the stand-in of one over there."""
        if "yours" in x:
            return self.objects[x["yours"]]
        number = x["mine"]
        possible = type(number) is int and 0 <= number < MOST_OBJECTS
        expect(possible, "it described an object that cannot be")
        if number not in self.stand_ins:
            self.stand_ins[number] = self.stand_in(self, x)
        return self.stand_ins[number]


class Far:
    """Stands for an object of the other side; its attributes are asked for."""

    def __init__(self, peer: Peer, far_id: int):
        self.peer, self.far_id = peer, far_id

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.peer.ask("get", self.far_id, name)

    def __repr__(self) -> str:
        return f"a {type(self).__name__}"


def checked(message: Any) -> list:
    """The message, if it is one; else `Lost`."""
    match message:
        case ["ask", str(), list()] | ["reply", _] | ["raised", str(), str(), bool()]:
            return message
    raise Lost("what it sent is no message")


def reply_of(function: Callable, *args: Any) -> list:
    """The message that says what a call gave, or what it raised."""
    try:
        return ["reply", function(*args)]
    except Lost:
        raise
    except BaseException as error:
        return ["raised", *described(error)]


def opened(message: Any) -> Any:
    """What a message of `reply_of` says; raises what was raised."""
    kind, *rest = checked(message)
    if kind == "raised":
        raise raised(*rest)
    expect(kind == "reply")
    return rest[0]


def described(error: BaseException) -> list:
    """The nearest kind that Python knows, what it says, and whether it was raised bare."""
    kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    try:
        return [kind, str(error)[:MOST_TEXT], not error.args]
    except Exception:  # an error that cannot say what it is
        return [kind, type(error).__name__[:MOST_TEXT], False]


def raised(kind: str, message: str, bare: bool) -> Exception:
    """The error of the other side, made here: a subclass of its kind that says what it said."""
    base, message = getattr(builtins, kind, None), without_addresses(message)
    known = isinstance(base, type) and issubclass(base, Exception | SystemExit)
    if not known or issubclass(base, ExceptionGroup):
        base = RuntimeError
    # made without __init__: some kinds want arguments of their own
    error = base.__new__(type(named(kind), (base,), {"__str__": lambda self: message}))
    error.args = () if bare else (message,)
    return error
