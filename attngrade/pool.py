"""The workers: threads of this process, each with a judge process, or workers of dask."""

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

# Seconds that a scheduler may take to answer, and that a run may go on without any worker.
ANSWERING, PATIENCE = 10, 120
Work = tuple[Order, Settings, object]  # the last is a label, returned with the result


class Crew(NamedTuple):
    """Distributes orders over workers and collects the results.

    Args:
        executor: runs ``grade``.
        workers: returns the number of orders that can be graded at once, now.
        grade: grades an order.
    """

    executor: Executor
    workers: Callable[[], int]
    grade: Callable[[Order, Settings], Result]

    def results(self, work: Iterable[Work]) -> Iterator[tuple[object, Result]]:
        """The results, each as soon as it is ready. At most one order for each worker is taken in advance.

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
    except Exception as error:  # the grader's or the machine's fault: no student's 0
        why = f"Grading it failed, with {type(error).__name__}: {str(error)[:300]}."
        files = tuple(Graded(file.name, file.digest, (), (why,)) for file in order.files)
        return Result(order.student, order.digest, files, complete=False)


@contextmanager
def local(workers: int) -> Iterator[Crew]:
    """A pool of threads. Leaving early does not wait for them."""
    executor = ThreadPoolExecutor(workers)
    try:
        yield Crew(executor, lambda: workers, grader.grade)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def cluster(address: str) -> Iterator[Crew]:
    """The workers of a dask scheduler at this address.

    Raises:
        Stopped: no scheduler answers.
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
    """The result of one student, graded by a worker of dask."""
    if fingerprint() != settings.course:
        raise Stopped(
            f"A worker has another version of the course, or other packages: {fingerprint()}, where "
            f"{settings.course} was expected. Install the same everywhere"
        )
    multiprocessing.current_process().daemon = (
        False  # dask makes it a daemon, which may start no process
    )
    return grader.grade(order, settings)
