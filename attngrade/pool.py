"""Workers of dask, on this machine or elsewhere: submissions go out, results come back as they are ready.

A worker is trusted; it holds one grader, whose sandbox runs the submissions.
"""

import itertools
import logging
import math
import os
import queue
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import dask.config
from distributed import Client, Future, KilledWorker, LocalCluster, Security
from distributed.utils import silence_logging_cmgr

from attngrade.settings import (
    NoSandbox,
    Order,
    Settings,
    Stopped,
    given_up,
    grade,
    release,
)
from attngrade.journal import Result

# A worker has the next orders at hand while the results of the last travel.
AHEAD = 2
# So many seconds of work, and so many files at most, go out together.
SECONDS_TOGETHER, MOST_TOGETHER = 0.5, 16
# So many seconds a scheduler may take to answer, and a run may be without any worker.
ANSWERING, PATIENCE = 10, 120
QUIET = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.large-graph-warning-threshold": "1GB",
}


@contextmanager
def local(workers: int) -> Iterator[Client]:
    """A cluster of so many processes on this machine; nothing of it is left afterwards.

    Raises:
        Stopped: they cannot be started.
    """
    where = {"prefix": f"attncourse-{os.getpid()}-", "ignore_cleanup_errors": True}
    with tempfile.TemporaryDirectory(**where) as folder, dask.config.set(QUIET):
        try:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                local_directory=folder,
                memory_limit=0,
                preload=__name__,
                silence_logs=logging.CRITICAL,
                env={"TMPDIR": folder, "OMP_NUM_THREADS": "1"},
                **_keys(),
            )
        except RuntimeError as error:
            raise Stopped(f"The workers cannot be started: {error}") from None
        with cluster, Client(cluster) as client:
            yield client
            client.run(release)


def _keys() -> dict:
    """Keys for this run. Without them, whatever reaches 127.0.0.1 could give orders to our workers:
    another user of this machine, or a submission that runs without a sandbox."""
    with suppress(ImportError):  # it needs the package cryptography
        return {"security": Security.temporary(), "protocol": "tls://"}
    return {}


def dask_setup(worker) -> None:
    """Dask calls this in a worker of `local`: Ctrl-C is for who gave the command, who then ends us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def remote(address: str) -> Iterator[Client]:
    """A cluster that somebody else has started.

    Raises:
        Stopped: nobody answers there.
    """
    try:
        client = Client(address, timeout=ANSWERING)
    except (OSError, ValueError) as error:
        raise Stopped(f"No scheduler of dask answers at {address} ({error}).") from None
    with client, dask.config.set(QUIET), silence_logging_cmgr(logging.CRITICAL):
        before = client.run_on_scheduler(_allow_failures, 0)
        try:
            yield client
        finally:
            with suppress(Exception):
                client.run_on_scheduler(_allow_failures, before)
                client.run(release)


def _allow_failures(number: int, dask_scheduler=None) -> int:
    """After so many deaths of workers the scheduler gives up what they had in hand."""
    before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, number
    return before


class Crew:
    """Hands out orders and takes results in.

    Args:
        client: of the cluster.
        settings: how to grade.
    """

    def __init__(self, client: Client, settings: Settings):
        self.client, self.settings = client, settings
        self.waiting: dict[str, tuple[Future, list[Order]]] = {}
        self.ready: queue.SimpleQueue = queue.SimpleQueue()
        self.workers, self.asked = 0, -math.inf
        self.start, self.files = math.inf, 0

    def results(self, orders: Iterable[Order]) -> Iterator[Result]:
        """The result of every order, as they are ready.

        What a dead worker had in hand is tried once more, one at a time, so that it is known who is
        to blame when another one dies.

        Raises:
            NoSandbox: the settings demand a sandbox, and a worker has none.
            Stopped: there are no workers, or they have another version of the course.
        """
        orders, suspects = iter(orders), []
        groups = iter(lambda: list(itertools.islice(orders, self._size())), [])
        for group, found, _ in self._spread(groups, lambda: AHEAD * max(1, self._workers())):
            suspects += group if found is None else []
            yield from found or []
            self.start = min(self.start, time.monotonic())
            self.files += len(group)
        for (order,), found, why in self._spread(([x] for x in suspects), lambda: 1):
            yield found[0] if found else given_up(order, why)

    def _size(self) -> int:
        """How many quick files go together: an order by itself costs the scheduler some milliseconds."""
        pace = self.files / max(1e-3, time.monotonic() - self.start) / max(1, self._workers())
        return max(1, min(MOST_TOGETHER, int(pace * SECONDS_TOGETHER)))

    def _spread(self, groups: Iterator[list[Order]], room: Callable[[], int]):
        """Each group, its results or None, and why there are none."""
        while True:
            for group in itertools.islice(groups, max(0, room() - len(self.waiting))):
                future = self.client.submit(grade, group, self.settings, pure=False)
                self.waiting[future.key] = future, group
                future.add_done_callback(self.ready.put)
            if not self.waiting:
                return
            future, group = self.waiting.pop(self._next().key)
            yield group, *_outcome(future)

    def _next(self) -> Future:
        deserted = 0
        while deserted < PATIENCE:
            with suppress(queue.Empty):
                return self.ready.get(timeout=1)
            deserted = 0 if self._workers() else deserted + 1
        raise Stopped("There is no worker. Start one, and give the same command again to go on.")

    def _workers(self) -> int:
        if time.monotonic() - self.asked > 1:
            self.workers, self.asked = 0, time.monotonic()
            with suppress(OSError):  # a scheduler that does not answer may be back in a moment
                self.workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        return self.workers


def _outcome(future: Future) -> tuple[list[Result] | None, str]:
    if future.status == "finished":
        return future.result(), ""
    if future.status != "error":
        raise Stopped("The scheduler of dask is gone. Give the same command again to go on.")
    error = future.exception()
    if isinstance(error, NoSandbox | Stopped):
        raise error
    if isinstance(error, KilledWorker):
        return None, "The grader itself ended twice on this notebook; look at it by hand."
    return None, f"Grading it failed twice, with {type(error).__name__}; look at it by hand."
