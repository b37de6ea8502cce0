"""Calls in processes of their own, so many at once: what one does to memory, time or torch touches no other."""

import multiprocessing
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

MORE = 2**30  # bytes beyond what the parent uses
FORK = multiprocessing.get_context("fork")


class TooLong(BaseException):
    """Raised in a call that takes too long; no judge catches it."""


class Lost(Exception):
    """A call that gave no result: it was killed, or took too long."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TooLong` after so many seconds of the processor: a busy machine costs none."""

    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def apart(call: Callable, jobs: Iterable, seconds: float, at_once: int = 1) -> Iterator[tuple]:
    """(job, ``call(job)``) in the order in which they end; an exception or `Lost` stands where no result is."""
    waiting, running = list(jobs)[::-1], {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop()
                ours, theirs = FORK.Pipe(duplex=False)
                child = FORK.Process(target=_serve, args=(call, job, theirs), daemon=True)
                with warnings.catch_warnings():  # of threads here; a child uses none of them
                    warnings.simplefilter("ignore", DeprecationWarning)
                    child.start()
                theirs.close()
                running[ours] = job, child, time.monotonic() + seconds
            for pipe in wait(running, timeout=1):
                job, child, _ = running.pop(pipe)
                yield job, _received(pipe, child)
            for pipe in [x for x, (*_, end) in running.items() if time.monotonic() > end]:
                job, child, _ = running.pop(pipe)
                child.kill()
                child.join()
                yield job, Lost(f"{job} took more than {seconds:.0f} seconds")
    finally:
        for _, child, _ in running.values():
            child.kill()


def _received(pipe: Any, child: Any) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        child.join()
        return Lost(f"the process ended with {child.exitcode}")
    finally:
        pipe.close()
        child.join()


def _serve(call: Callable, job: Any, pipe: Any) -> None:
    most = _used() + MORE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        result = call(job)
    except BaseException as error:
        result = Lost(f"{type(error).__name__}: {error}")
    pipe.send(result)
    pipe.close()


def _used() -> int:
    """Bytes of address space of this process."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * resource.getpagesize() if status.exists() else 0
