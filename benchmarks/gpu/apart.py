"""Generators that run in processes of their own, so that one that hangs or crashes costs only itself."""

import multiprocessing
import time
from multiprocessing.connection import wait

SILENCE = 150  # seconds; compiling is the longest that a healthy process says nothing


class OutOfTime(TimeoutError):
    """The budget is spent; what is not done yet is for another run."""


def apart(*jobs: tuple, silence: float = SILENCE, until: float | None = None):
    """Yield what the jobs yield, as it comes; all jobs run at the same time.

    A GPU kernel cannot be interrupted, and an illegal access spoils everything that its process does
    afterwards. So the process is given up instead.

    Args:
        jobs: (generator function, *arguments), of modules that a new process can import.
        silence: with no result from any job for so many seconds, all are ended.
        until: a reading of ``time.monotonic`` at which all are ended; ``None`` means never.

    Raises: RuntimeError, after the others have finished, if a job raised or died; TimeoutError at a silence;
        OutOfTime.
    """
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    children, problems = {}, []
    try:
        for job in jobs:
            inbox, outbox = context.Pipe(duplex=False)
            children[inbox] = context.Process(target=send, args=(outbox, *job))
            children[inbox].start()
            outbox.close()
        talking = list(children)
        while talking:
            left = silence if until is None else min(silence, until - time.monotonic())
            ready = wait(talking, max(left, 0))
            if not ready:
                if left < silence:
                    raise OutOfTime("the time is up")
                raise TimeoutError(f"nothing was heard for {silence} seconds")
            for inbox in ready:
                kind, result = receive(inbox)
                if kind == "result":
                    yield result
                    continue
                talking.remove(inbox)
                if kind == "problem":
                    problems.append(result)
    finally:
        for child in children.values():
            child.kill()
            child.join(10)
    if problems:
        raise RuntimeError("; ".join(problems))


def send(outbox, function, *arguments) -> None:
    """What a child process does."""
    try:
        for result in function(*arguments):
            outbox.send(("result", result))
        outbox.send(("end", None))
    except Exception as error:
        outbox.send(("problem", in_short(error)))


def receive(inbox) -> tuple:
    try:
        return inbox.recv()
    except EOFError:
        return "problem", "the process died"


def in_short(error: Exception) -> str:
    """Kind and first line: what Triton and CUDA say can fill pages."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"


def stripes(items: list, count: int) -> list[list]:
    """The items dealt out like cards; no hand is empty."""
    return [items[k::count] for k in range(min(count, len(items)))]
