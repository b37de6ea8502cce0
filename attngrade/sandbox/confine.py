"""The process that all workers are forked from: torch is imported once, and no student code runs here.

The grader tells it over a socket of its own to start a worker, to bound its memory, and to end it with
everything that it has started. Where it may, it gives every submission a user id of its own.
"""

import ctypes
import gc
import json
import os
import resource
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from attngrade.sandbox.seccomp import deny

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
PAGE = os.sysconf("SC_PAGE_SIZE")
MADV_COLLAPSE, HUGE = 25, 2**21
LIBC = ctypes.CDLL(None)
M_MMAP_THRESHOLD = (
    -3
)  # mallopt(3): from this size on, memory goes back to the system when it is freed


def prctl(option: int, value: int) -> None:
    """Ask the kernel to treat this process in another way."""
    LIBC.prctl(option, value, 0, 0, 0)


class Zygote:
    """Obeys the grader: one worker at a time.

    Args:
        control: the socket on which the grader speaks, one JSON object a message.
        first_uid: the first of the user ids that workers get; 0 keeps the own one.
        scratch: folders that are emptied after every worker.
    """

    def __init__(self, control: socket.socket, first_uid: int, scratch: list[str]):
        self.control, self.uid, self.scratch = control, first_uid, scratch
        self.worker, self.mounts, self.pid = 0, mount_points(), os.getpid()

    def obey(self) -> Any:
        """Until the grader is gone."""
        while True:
            message, descriptors, _, _ = socket.recv_fds(self.control, 4096, 1)
            if not message:
                return self.do_end() if self.worker else None
            order = json.loads(message)
            name = order.pop("do")
            reply = getattr(self, f"do_{name}")(*descriptors, **order)
            self.control.send(json.dumps(reply).encode())

    def do_start(self, descriptor: int, limits: dict[str, int], most_bytes: int) -> dict:
        """Fork a worker that talks on this descriptor."""
        self.uid += bool(self.uid)
        self.worker = os.fork()
        if self.worker:
            os.close(descriptor)
            return {"pid": self.worker}
        try:
            self.become_worker(descriptor, limits, most_bytes)
        finally:
            os._exit(0)

    def become_worker(self, descriptor: int, limits: dict[str, int], most_bytes: int) -> None:
        """Give up everything, then work."""
        os.dup2(descriptor, 3)
        os.dup2(1, 2)  # the zygote's output already goes nowhere
        os.closerange(4, 256)
        os.setsid()
        prctl(PR_SET_DUMPABLE, 1)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with open("/proc/self/oom_score_adj", "wb", 0) as file:
            file.write(b"1000")
        # Left alone, the C library soon keeps large tensors that are freed, for the next ones; small ones that are
        # placed between keep it from using them again, and a right answer would seem to take a lot of memory.
        LIBC.mallopt(M_MMAP_THRESHOLD, 256 * 1024)
        for name, most in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
        self.become_user()
        deny()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of the user would take it back
        if os.getppid() != self.pid:  # it has ended before that line
            return
        prctl(PR_SET_DUMPABLE, 1)  # the zygote is closed to its workers; they are not to themselves
        from attncourse import grading
        from attngrade.sandbox.wire import Pipe
        from attngrade.sandbox.worker import work

        work(Pipe(socket.socket(fileno=3), most_bytes), getattr(grading, "_answers", {}))

    def do_limit(self, more: int) -> dict:
        """From now on the worker gets only so many bytes more; how many it can write to already.

        Two limits: one for all address space, one for what can be written. Without the second one a
        part of a library that is mapped for reading could be made scratch memory. (A part that is larger
        than all that may be added still can: the kernel asks for the first limit, and then takes the second
        for broken before. The cgroup counts that.)
        """
        read, write = os.pipe()
        helper = os.fork()
        if not helper:
            try:  # the kernel lets only the same user do this
                self.become_user()
                os.write(write, str(bound(self.worker, more)).encode())
            finally:
                os._exit(0)
        os.close(write)
        os.waitpid(helper, 0)
        self.end_others()
        said = os.read(read, 64)
        os.close(read)
        return {"grown": int(said) - writable("self") if said else None}

    def end_others(self) -> None:
        """Kill what the worker has started: its memory would not be counted."""
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError):
                ours = os.getpid() == 1 or (self.uid and path.stat().st_uid == self.uid)
                if ours and int(path.name) not in (os.getpid(), self.worker):
                    kill(int(path.name))

    def become_user(self) -> None:
        """The user of this submission, for good."""
        if self.uid:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def do_end(self) -> dict:
        """Kill the worker and everything that it has started; remove all that outlives them."""
        if os.getpid() == 1:
            kill(-1)
        kill(self.worker)
        reaped = {}
        while True:
            for child in children():
                kill(child)
            try:
                pid, status = os.wait()
            except ChildProcessError:
                break
            reaped[pid] = status
        for folder in self.scratch:
            empty(folder, self.mounts)
        remove_shared(self.uid)
        worker, self.worker = self.worker, 0
        return {"status": os.waitstatus_to_exitcode(reaped.get(worker, 0))}


def bound(pid: int, more: int) -> int:
    """Allow a process so many bytes more, and no child; how many it can write to already."""
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NPROC, (threads, threads))
    pages = Path(f"/proc/{pid}/statm").read_text().split()
    for limit, taken in (resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5]):
        most = int(taken) * PAGE + more
        resource.prlimit(pid, limit, (most, most))
    return writable(pid)


def writable(pid: int | str) -> int:
    """Bytes of address space that a process can write to, shared memory included."""
    total = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, permissions, *_ = line.split(maxsplit=2)
        if "w" in permissions:
            start, end = addresses.split("-")
            total += int(end, 16) - int(start, 16)
    return total


def children() -> list[int]:
    """Living children of this process; orphans of the worker become such, too."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in listed.split()]


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def empty(folder: str, mounts: set[str]) -> None:
    """Delete what is in a folder, but not what is mounted in it; links are not followed.

    Raises:
        OSError: something cannot be deleted. The zygote ends, and the grader starts another.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path in mounts:
                continue
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
            elif any(mount.startswith(f"{entry.path}/") for mount in mounts):
                empty(entry.path, mounts)  # Python itself may live below /tmp
            else:
                shutil.rmtree(entry.path)


def remove_shared(uid: int) -> None:
    """Remove what System V keeps of a user, or of all in a namespace of our own.

    A submission could leave it to the next one, or fill the memory of the cgroup with it.
    """
    for kind, arguments in ("shm", (0, None)), ("msg", (0, None)), ("sem", (0, 0)):
        path = Path(f"/proc/sysvipc/{kind}")
        head, *lines = path.read_text().splitlines() if path.exists() else [""]
        owner = head.split().index("uid")
        for line in lines:
            fields = line.split()
            if os.getpid() == 1 or (uid and int(fields[owner]) == uid):
                getattr(LIBC, f"{kind}ctl")(int(fields[1]), *arguments)  # 0 removes it


def mount_points() -> set[str]:
    """Where something is mounted, as this process sees it."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4].replace(r"\040", " ") for line in lines}


def warm_up() -> None:
    """Import and touch what every worker will need; one thread, and no gradient: forks must be safe."""
    import matplotlib
    import torch

    from attncourse.grading.allocations import made_by
    from attngrade.sandbox import worker

    matplotlib.use("agg")
    import matplotlib.pyplot  # noqa: F401

    torch.set_num_threads(1)
    x = torch.randn(4, 4)
    made_by(lambda x: torch.softmax(x @ x.mT, -1) @ x, x)  # imports much of torch, once
    worker.rehearse()
    gc.collect()
    gc.freeze()  # a collection in a worker would write to every object, and copy every page
    to_huge_pages()


def to_huge_pages() -> None:
    """Gather what was loaded in pages of 2 MiB: a fork then takes a fifth of the time.

    Where the kernel is older than 6.1 nothing happens.
    """
    madvise = LIBC.madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        if permissions == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(x, 16) for x in addresses.split("-"))
            start, end = -(-start // HUGE) * HUGE, end // HUGE * HUGE
            if start < end:
                madvise(start, end - start, MADV_COLLAPSE)


def can_deny() -> bool:
    """Whether system calls can be denied here: a child has tried."""
    child = os.fork()
    if not child:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        os._exit(not deny())
    return os.waitpid(child, 0)[1] == 0


def main(control: int, first_uid: int, scratch: list[str]) -> None:
    """Get ready, then obey."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    warm_up()
    channel = socket.socket(fileno=control)
    channel.send(json.dumps({"filter": can_deny()}).encode())
    Zygote(channel, first_uid, scratch).obey()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
