"""One worker for one student, behind as many protections as this machine offers."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from attngrade import NotGraded
from attngrade.sandbox import bwrap
from attngrade.sandbox.confine import NOBODY
from attngrade.sandbox.course import PLACE, roots
from attngrade.sandbox.limits import IN_FORCE, MIB, READY_SECONDS, Group, Limits
from attngrade.sandbox.wire import Lost, Pipe

OVERHEAD = 32 * MIB  # of a limited call: page tables, and pages that are copied on a write
MOST_ROUNDS = 100  # of killing processes that start others
START = (
    "import sys; sys.path[:0] = sys.argv[4:]; "
    "from attngrade.sandbox import confine; confine.main(*sys.argv[1:4])"
)
PROTECTIONS = (
    "bubblewrap: no network, no other files, no other processes",
    "limits of the kernel: memory, time, processes, files",
    "a cgroup: memory and processes of a student counted together",
    "a filter of system calls: no keys, no new namespaces, no lifting of limits",
)
ENVIRONMENT = {
    "HOME": "/tmp",
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # sets print in the same order in every run
    "TRITON_INTERPRET": "1",  # there is no GPU, and torch imports Triton before a notebook can set this
    # Freed memory goes back to the kernel and threads reserve none, so the count is the usage.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(4 * MIB),
    "MALLOC_TRIM_THRESHOLD_": str(4 * MIB),
    "MPLCONFIGDIR": "/tmp",
    "MPLBACKEND": "agg",
}


class Sandbox:
    """A worker for one student. A context manager; entering it waits until the worker is ready.

    Args:
        limits: the limits of the student's code.
        bubblewrap: False leaves bubblewrap out, as does a machine on which it may not run.

    Attributes:
        pipe: connection to the worker.
        official: True if a submission can see and reach nothing of the machine.
        filtered: True if the worker's system calls are filtered.
        protections: pairs of a protection and "in force", or why not.

    Raises:
        NotGraded: on entering, if the worker does not start; no cell has run yet.
    """

    def __init__(self, limits: Limits, bubblewrap: bool = True):
        self.limits, self.is_root = limits, os.geteuid() == 0
        self.process: subprocess.Popen | None = None
        self.why_not = "" if bubblewrap else "switched off"
        if bubblewrap and not shutil.which("bwrap"):
            self.why_not = "not installed; on Debian and Ubuntu: apt install bubblewrap"

    @property
    def official(self) -> bool:
        return not self.why_not

    @property
    def protections(self) -> tuple[tuple[str, str], ...]:
        filtered = IN_FORCE if self.filtered else "libseccomp is missing, or the kernel takes none"
        states = self.why_not or IN_FORCE, IN_FORCE, self.group.state, filtered
        return tuple(zip(PROTECTIONS, states, strict=True))

    def __enter__(self):
        try:
            self._start()
        except NotGraded as error:
            # only what this user may never do is worth a start without bubblewrap
            if not str(error).startswith("bwrap: ") or "ermi" not in str(error):
                raise
            self.why_not = f"it may not run here: {error}"
            self._start()
        return self

    def __exit__(self, *error):
        self.close()

    def close(self) -> None:
        """End the worker and all processes that it has started."""
        if self.process is None:
            return
        with suppress(psutil.Error, AttributeError):
            for process in [] if self.official else self.worker.children(recursive=True):
                process.kill()
            self.first.kill()  # the first of its namespace: all others end with it
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.pipe.sock.close()
        self.group.close()
        self.process = None

    @contextmanager
    def limited(self, more: int) -> Iterator[int]:
        """Limit the worker to ``more`` bytes of memory, without new processes or files.

        Yields: the bytes of writable address space beyond those of the fresh worker.

        Without a filter of system calls the worker could lift its limit. So the limit is then permanent, and the
        sandbox is closed afterwards.

        Raises:
            Lost: the worker cannot be limited.
        """
        try:
            try:
                self._bound(more)
                grown = self._writable() - self.at_first
            except (psutil.Error, OSError) as error:
                raise Lost(f"its memory could not be limited ({type(error).__name__})") from None
            yield grown
        finally:
            self._unbound()

    def _bound(self, more: int) -> None:
        memory = self.worker.memory_info()
        self._set(NPROC=0, FSIZE=0, AS=memory.vms + more, DATA=memory.data + more)
        for _ in range(MOST_ROUNDS):  # the memory of other processes would not be counted
            others = {*self.first.children(recursive=True)} - {self.worker}
            running = [x for x in others if killed(x)]
            if not running:
                return self.group.allow(more + OVERHEAD)
        raise Lost("it does not stop to start processes")

    def _unbound(self) -> None:
        if not self.filtered:
            return self.close()
        self.group.allow(None)
        with suppress(psutil.Error, OSError):
            self._set(**{name: self.kernel[name] for name in ("NPROC", "FSIZE", "AS", "DATA")})
        return None

    def _set(self, **soft: int) -> None:
        """Set limits of the worker, as its own user, whom the kernel allows this, unlike some roots."""
        most = {x: min(soft[x], self.kernel[x]) for x in soft}
        hard = self.kernel if self.filtered else most
        bounds = [f"--{x.lower()}={most[x]}:{hard[x]}" for x in soft]
        nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if self.is_root else {}
        command = ["prlimit", f"--pid={self.worker.pid}", *bounds]
        there = self.worker.is_running()
        if not there or subprocess.call(command, stderr=subprocess.DEVNULL, **nobody):
            raise OSError("it is gone")

    def _writable(self) -> int:
        """Bytes of address space that the worker can write to, shared memory included."""
        total = 0
        for line in Path(f"/proc/{self.worker.pid}/maps").read_text().splitlines():
            addresses, permissions, *_ = line.split(maxsplit=2)
            if "w" in permissions:
                start, end = addresses.split("-")
                total += int(end, 16) - int(start, 16)
        return total

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        told, tells = os.pipe()
        self.pipe, self.group = Pipe(ours, self.limits.message), Group(self.limits)
        self.pipe.deadline = time.monotonic() + READY_SECONDS
        with tempfile.TemporaryFile() as said, theirs:
            try:
                self.process = subprocess.Popen(
                    self._command(theirs.fileno(), tells),
                    env=ENVIRONMENT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    pass_fds=[theirs.fileno(), *[tells][: self.official]],
                    cwd="/" if self.official else "/tmp",
                )
                os.close(tells)
                theirs.close()
                self._meet(told)
            except (Lost, OSError, ValueError, psutil.Error) as error:
                self.close()
                said.seek(0)
                lines = said.read().decode(errors="replace").strip().splitlines()
                raise NotGraded(lines[-1] if lines else f"The sandbox ended: {error}.") from None
            finally:
                os.close(told)

    def _meet(self, told: int) -> None:
        """Find the worker's process, and wait until it is ready."""
        pid = self.process.pid
        if self.official:
            with open(told, closefd=False) as info:
                pid = json.load(info)["child-pid"]
        self.first = psutil.Process(pid)
        ready, _ = self.pipe.receive()
        # As root, the first process is bubblewrap's own: the kernel ends it with its parent, as root without
        # rights may end it, and the worker, which runs as nobody, ends with it.
        self.worker = self.first.children()[0] if self.official and self.is_root else self.first
        self.filtered = ready["filter"]
        self.group.find(self.worker.pid)
        self.at_first = self._writable()

    def _command(self, descriptor: int, tells: int) -> list[str]:
        walls = bwrap.command(self.limits.files, self.is_root, tells) if self.official else []
        folders = [PLACE] if self.official else roots()
        # in a user namespace the kernel counts the processes of the sandbox alone
        self.kernel = self.limits.of_a_process(self.official and not self.is_root)
        arguments = str(descriptor), str(self.limits.message), json.dumps(self.kernel), *folders
        return [*self.group.enter, *walls, sys.executable, "-s", "-P", "-c", START, *arguments]


def killed(process: psutil.Process) -> bool:
    """Kill the process; True if it was alive (not a zombie)."""
    with suppress(psutil.NoSuchProcess):
        process.kill()
        return process.status() != psutil.STATUS_ZOMBIE
    return False
