"""Two processes that call each other's functions: arguments, results and gradients travel, code does not.

Both sides run this file. On the grader's side a judge calls proxies of the answer. The submission's side has
proxies, too, where an exercise hands over a function.
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
        pipe: connection to the other side.
        owner: letter of this side, ``"g"`` for the grader and ``"w"`` for the worker.
        serve: ``{"call": function}``: the functions that the other side may ask for, by name.
        stand_in: makes a proxy from the description of a function, class or object.
        limited: ``with limited(bytes, of_arguments)`` limits the memory of the other side.
    """

    def __init__(self, pipe: Pipe, owner: str, serve: dict, stand_in: Callable, limited=None):
        self.pipe, self.owner, self.serve, self.stand_in = pipe, owner, serve, stand_in
        self.limited = limited
        self.begin()

    def begin(self) -> None:
        """Drop all known objects; restart the counts of the other side's messages."""
        self.objects: list[Any] = []
        self.stand_ins: dict[int, Any] = {}
        self.memory: Memory | None = None
        self.requests = 0
        if self.owner == "g":
            self.pipe.left = MOST_BYTES

    def remember(self) -> None:
        """Keep the identity of memory over many messages.

        From now on, changes to a tensor that both sides know reach the other side with the next message.
        """
        self.memory = Memory(self.owner)

    def ask(self, what: str, *args: Any) -> Any:
        """The other side's reply to a question; its own questions are served meanwhile.

        Raises:
            Exception: the error raised by the other side, as the nearest built-in class.
            Lost: the other side is gone or breaks the protocol.
        """
        self._send(["ask", what, list(args)])
        return opened(self.listen())

    def listen(self) -> list:
        """Serve the other side's questions until another message comes; returns that message."""
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
        """This side's own object, or a proxy of the other side's."""
        if "yours" in x:
            return self.objects[x["yours"]]
        number = x["mine"]
        possible = type(number) is int and 0 <= number < MOST_OBJECTS
        expect(possible, "it described an object that cannot be")
        if number not in self.stand_ins:
            self.stand_ins[number] = self.stand_in(self, x)
        return self.stand_ins[number]


class Far:
    """Proxy of an object; attributes are fetched from the other side."""

    def __init__(self, peer: Peer, far_id: int):
        self.peer, self.far_id = peer, far_id

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.peer.ask("get", self.far_id, name)

    def __repr__(self) -> str:
        return f"a {type(self).__name__}"


def checked(message: Any) -> list:
    """The message, if it is well formed; else raises `Lost`."""
    match message:
        case ["ask", str(), list()] | ["reply", _] | ["raised", str(), str(), bool()]:
            return message
    raise Lost("what it sent is no message")


def reply_of(function: Callable, *args: Any) -> list:
    """A message with the result of a call, or with the error that it raised."""
    try:
        return ["reply", function(*args)]
    except Lost:
        raise
    except BaseException as error:
        return ["raised", *described(error)]


def opened(message: Any) -> Any:
    """The result in a message of `reply_of`; raises the error in it."""
    kind, *rest = checked(message)
    if kind == "raised":
        raise raised(*rest)
    expect(kind == "reply")
    return rest[0]


def described(error: BaseException) -> list:
    """The nearest built-in class of an error, its message, and whether it was raised without arguments."""
    kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    try:
        return [kind, str(error)[:MOST_TEXT], not error.args]
    except Exception:  # its __str__ raises
        return [kind, type(error).__name__[:MOST_TEXT], False]


def raised(kind: str, message: str, bare: bool) -> Exception:
    """Rebuild the remote exception: a local subclass of the same built-in, with its message."""
    base, message = getattr(builtins, kind, None), without_addresses(message)
    known = isinstance(base, type) and issubclass(base, Exception | SystemExit)
    if not known or issubclass(base, ExceptionGroup):
        base = RuntimeError
    # made without __init__, as some classes require other arguments
    error = base.__new__(type(named(kind), (base,), {"__str__": lambda self: message}))
    error.args = () if bare else (message,)
    return error
