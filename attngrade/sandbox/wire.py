"""Messages on a socket: numbers and text, never code, limited in size.

A message is the length of its header (8 bytes), the header, and memory. The header is JSON: a tree of
`attngrade.sandbox.values`, and the names and sizes in bytes of the memory that the tree refers to.
"""

import json
import math
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MOST_HEADER = 2**22  # bytes of JSON, which is small on the wire and large when parsed
MOST_MEMORIES = 20_000  # in one message
MOST_BYTES = 2**30  # of all messages of an exercise


class Lost(BaseException):
    """The other side is gone, too slow, or breaks the protocol.

    Not an `Exception`: a judge takes those for errors of the answer.
    """


def expect(holds: bool, what: str = "what it sent is no message") -> None:
    """Raise `Lost` unless the condition holds."""
    if not holds:
        raise Lost(what)


class Pipe:
    """Sends and receives messages.

    Args:
        sock: a connected socket.
        most_bytes: limit of the memory in one message.
        most_header: limit of its header, in bytes.

    ``deadline`` is a time of `time.monotonic`; ``left`` is the number of bytes that may still come.
    """

    def __init__(self, sock: socket.socket, most_bytes: int, most_header: int = MOST_HEADER):
        self.sock, self.most_bytes, self.most_header = sock, most_bytes, most_header
        self.deadline = self.left = math.inf

    def send(self, body: Any, memory: dict[str, Tensor] | None = None) -> None:
        """Send a message: a tree, and tensors of bytes by name; `Lost` if the other side does not read it."""
        memory = memory or {}
        sizes = [[name, x.numel()] for name, x in memory.items()]
        header = json.dumps([body, sizes]).encode()
        self._in_time(self.sock.sendall, struct.pack("<Q", len(header)) + header)
        for x in memory.values():
            self._in_time(self.sock.sendall, memoryview(x.numpy()))

    def receive(self) -> tuple[Any, dict[str, Tensor]]:
        """The next message: its tree and its memory; `Lost` if it is late, too long or malformed."""
        (length,) = struct.unpack("<Q", self._read(bytearray(8)))
        self._count(length, self.most_header)
        header = self._read(bytearray(length))
        try:
            body, sizes = json.loads(header)
            names = [str(name) for name, _ in sizes]
            sizes = [size for _, size in sizes]
        except Exception as error:  # malformed in any way, too deep nesting included
            raise Lost(f"what it sent is no message ({type(error).__name__})") from None
        expect(all(type(size) is int and size >= 0 for size in sizes))
        expect(len(sizes) <= MOST_MEMORIES and len(set(names)) == len(names))
        self._count(sum(sizes), self.most_bytes)
        memory = [torch.empty(size, dtype=torch.uint8) for size in sizes]
        for x in memory:
            self._read(x.numpy())
        return body, dict(zip(names, memory, strict=True))

    def _count(self, size: int, most: int) -> None:
        most = min(most, self.left)
        expect(size <= most, f"it sent {size:,} bytes; {most:,} are allowed")
        self.left -= size

    def _read(self, place: Any) -> Any:
        view, at = memoryview(place), 0
        while at < len(view):
            read = self._in_time(self.sock.recv_into, view[at:])
            expect(read > 0, "it ended")
            at += read
        return place

    def _in_time(self, action: Callable, what: Any) -> Any:
        left = self.deadline - time.monotonic()
        expect(left > 0, "it took too long")
        try:
            self.sock.settimeout(None if left == math.inf else left)
            return action(what)
        except TimeoutError:
            raise Lost("it took too long") from None
        except OSError:
            raise Lost("it ended") from None
