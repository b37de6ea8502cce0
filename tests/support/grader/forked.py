"""A worker that is a fork of this process: no walls, and so it is there at once."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attngrade import Cell, session
from attngrade.sandbox import worker
from attngrade.sandbox.wire import Pipe
from attngrade.settings import Settings

MESSAGE = 2**28  # bytes


class ForkedBox:
    """Takes the place of `Sandbox`."""

    official, protections, filtered = True, (), True

    def __init__(self, *settings: Any):
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            try:
                ours.close()
                worker.main(theirs.detach(), MESSAGE, True)
            finally:
                os._exit(0)
        theirs.close()
        self.pipe = Pipe(ours, MESSAGE)
        self.pipe.receive()

    def __enter__(self):
        return self

    @contextmanager
    def limited(self, more: int) -> Iterator[int]:
        """No limit: the judge believes what is said."""
        yield 0

    def close(self) -> None:
        """End it."""
        self.pipe.sock.close()
        os.waitpid(self.pid, 0)


@contextmanager
def forked_session(*sources: str, box: Any = ForkedBox, seconds: float = 60) -> Iterator[Any]:
    """A session over these cells."""
    before, session.Sandbox = session.Sandbox, box
    try:
        with session.Session(Settings(b"secret", seconds, 4096)) as made:
            made.open(Cell(k, source) for k, source in enumerate(sources, start=1))
            yield made
    finally:
        session.Sandbox = before
