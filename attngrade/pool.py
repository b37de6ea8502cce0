"""Who grades: threads here, of which each waits for a process of its own, or workers of dask."""

import logging
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from itertools import islice
from typing import NamedTuple

from attngrade import Graded, Order, Result, grader
from attngrade.settings import NoSandbox, Settings, Stopped, fingerprint

# Seconds that a scheduler may take to answer, and that a run may be without any worker.
ANSWERING, PATIENCE = 10, 120
Work = tuple[Order, Settings, object]  # the last is handed back with the result


class Crew(NamedTuple):
    """Hands out orders and takes results in.

    Args:
        executor: where they are graded.
        workers: says how many are graded at once, now.
        grade: what is called with an order and settings.
    """

    executor: Executor
    workers: Callable[[], int]
    grade: Callable[[Order, Settings], Result]

    def results(self, work: Iterable[Work]) -> Iterator[tuple[object, Result]]:
        """The results, as they are ready. No more orders are at hand than there are workers.

        Raises:
            Stopped: there are no workers, or they have another version of the course.
        """
        work, going = iter(work), {}
        while True:
            for order, settings, label in islice(work, max(0, (self.workers() or 1) - len(going))):
                going[self.executor.submit(self.grade, order, settings)] = order, label
            if not going:
                return
            done = wait(going, PATIENCE, FIRST_COMPLETED).done
            if not done and not self.workers():
                raise Stopped("There is no worker. Start one, and give the same command again")
            for future in done:
                order, label = going.pop(future)
                yield label, _result(future, order)


def _result(future: Future, order: Order) -> Result:
    try:
        return future.result()
    except (NoSandbox, Stopped):
        raise
    except CancelledError:
        raise Stopped("The scheduler of dask is gone. Give the same command again") from None
    except Exception as error:  # of ours, or of the machine on which it ran: nobody's 0
        why = f"Grading it failed, with {type(error).__name__}: {str(error)[:300]}."
        files = tuple(Graded(file.name, file.digest, (), (why,)) for file in order.files)
        return Result(order.student, order.digest, files, complete=False)


@contextmanager
def local(workers: int) -> Iterator[Crew]:
    """So many threads. Who leaves early does not wait for them."""
    executor = ThreadPoolExecutor(workers)
    try:
        yield Crew(executor, lambda: workers, grader.grade)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def cluster(address: str) -> Iterator[Crew]:
    """The workers of dask whose scheduler is at this address.

    Raises:
        Stopped: nobody answers there.
    """
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    try:
        client = Client(address, timeout=ANSWERING)
    except (OSError, ValueError) as error:
        raise Stopped(f"No scheduler of dask answers at {address} ({error})") from None

    def workers() -> int:
        with suppress(OSError):
            return sum(client.nthreads().values())
        return 0

    with client, silence_logging_cmgr(logging.CRITICAL):
        yield Crew(client.get_executor(pure=False), workers, grade_far)


def grade_far(order: Order, settings: Settings) -> Result:
    """What a worker of dask does."""
    if fingerprint() != settings.course:
        raise Stopped(
            f"A worker has another version of the course, or other packages: {fingerprint()}, where "
            f"{settings.course} was expected. Install the same everywhere"
        )
    multiprocessing.current_process().daemon = False  # dask makes it one, which may start nobody
    return grader.grade(order, settings)
