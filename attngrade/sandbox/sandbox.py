"""Starts the zygote behind as many walls as this machine can build, and says which of them stand."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attncourse.grading import allocations, answer, blocked, isolation
from attngrade.sandbox.limits import Cgroup
from attngrade.sandbox.bwrap import walls
from attngrade.sandbox.wire import Lost, Pipe

HERE = Path(__file__).parent
FAR_FILES = (
    "__init__.py",
    "calling.py",
    "peer.py",
    "syscalls.py",
    "wire.py",
    "worker.py",
    "zygote.py",
)
READY_SECONDS = 120
IN_FORCE = "in force"
MIB = 2**20
OVERHEAD = 32 * MIB  # of a limited call: pages that are copied on a write, and tables of pages
START = "import sys; sys.path.insert(0, {course!r}); from attngrade.sandbox import zygote; zygote.main({control}, {uid}, {scratch})"
ENVIRONMENT = {
    "HOME": "/tmp",
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # sets print in the same order in every run
    "TRITON_INTERPRET": "1",  # there is no card; torch imports Triton before a notebook can say so
    # Freed memory goes back to the kernel, and threads reserve none: what is counted is what is used.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(4 * MIB),
    "MALLOC_TRIM_THRESHOLD_": str(4 * MIB),
    "MPLCONFIGDIR": "/tmp",
}


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    Args:
        memory: bytes of address space of each of its processes; also of all together, by cgroup.
        cpu: seconds of processor time of each process.
        processes: processes and threads at a time.
        files: bytes in its folders, and in one file.
        message: bytes of one message to the grader.
    """

    memory: int = 4096 * MIB
    cpu: int = 900
    processes: int = 32
    files: int = 64 * MIB
    message: int = 256 * MIB

    def of_the_kernel(self) -> dict[str, int]:
        """As the kernel calls them."""
        return {
            "AS": self.memory,
            "CPU": self.cpu,
            "NPROC": self.processes,
            "FSIZE": self.files,
            "NOFILE": 128,
            "MSGQUEUE": 0,  # it would outlive the submission
            "CORE": 0,
        }


class Sandbox:
    """A zygote, and one worker at a time. A context manager.

    Args:
        limits: of every submission.
        bubblewrap: False leaves it out.
        course: the folder that workers import the packages from; by default copies without answers.

    ``protections`` pairs what protects with "in force", or with the reason why it is not.
    """

    def __init__(
        self, limits: Limits | None = None, bubblewrap: bool = True, course: Path | None = None
    ):
        self.limits = limits or Limits()
        sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=f"attncourse-{os.getpid()}-"))
        self.folder.chmod(0o711)
        self.cgroup = Cgroup(self.limits.memory + 1024 * MIB, self.limits.processes + 8)
        self.is_root = os.geteuid() == 0
        self.course = course or build_course(self.folder / "course")
        self.process: subprocess.Popen | None = None
        why_not = self._try(bubblewrap)
        self.wrapped = not why_not
        if why_not:
            self._start(wrapped=False)
        self.protections = (
            ("bubblewrap: no network, no other files, no other processes", why_not or IN_FORCE),
            ("limits of the kernel: memory, time, processes, files", IN_FORCE),
            (
                "a user id of its own for every submission",
                IN_FORCE if self.is_root else "needs the grader to run as root",
            ),
            ("a cgroup: memory and processes of a submission counted together", self.cgroup.state),
            (
                "a filter of system calls: no keys, no sockets of other kinds",
                IN_FORCE if self.filtered else "not on this processor, or not with this kernel",
            ),
        )

    @property
    def official(self) -> bool:
        """True when nothing of the machine can be seen or reached from a submission."""
        return self.wrapped

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self) -> None:
        """End the zygote and all that it has started."""
        if self.process:
            self.control.close()
            self.process.kill()
            self.process.wait()
        self.process = None
        self.cgroup.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self) -> Pipe:
        """Start a worker; the way to it."""
        ours, theirs = socket.socketpair()
        limits = self.limits.of_the_kernel()
        order = {"do": "start", "limits": limits, "most_bytes": self.limits.message}
        try:
            self._order(order, theirs)
        except Lost:  # the zygote is gone: once more, with another
            self._restart()
            self._order(order, theirs)
        theirs.close()
        return Pipe(ours, self.limits.message)

    def end(self, pipe: Pipe) -> int:
        """End the worker and everything it has started; its exit status, negative for a signal."""
        try:
            return self._order({"do": "end"})["status"]
        except Lost:
            self._restart()
            return 0
        finally:
            self.cgroup.allow(None)
            pipe.sock.close()  # only now: before, the worker would wake up and take its leave

    def limit(self, more: int) -> int:
        """Give the worker only ``more`` bytes of memory from now on.

        The kernel bounds what can be addressed, so that too much is an error that a call can raise. The
        cgroup bounds what is used: a library that is made writable is no new address.

        Returns: the bytes that it has taken since its start and can write to.

        Raises:
            Lost: the limit could not be set.
        """
        grown = self._order({"do": "limit", "more": more})["grown"]
        if grown is None:
            raise Lost("its memory could not be limited")
        self.cgroup.allow(more + OVERHEAD)
        return grown

    def _order(self, order: dict, descriptor: socket.socket | None = None) -> dict:
        message = json.dumps(order).encode()
        try:
            if descriptor is None:
                self.control.send(message)
            else:
                socket.send_fds(self.control, [message], [descriptor.fileno()])
            reply = self.control.recv(4096)
        except OSError:
            reply = b""
        if not reply:
            raise Lost("the zygote is gone")
        return json.loads(reply)

    def _try(self, bubblewrap: bool) -> str:
        """Start behind bubblewrap; why that cannot be, or nothing."""
        if not bubblewrap:
            return "switched off"
        if not shutil.which("bwrap"):
            return "not installed; on Debian and Ubuntu: apt install bubblewrap"
        try:
            self._start(wrapped=True)
        except Lost as error:
            return f"it cannot start here: {error}"
        return ""

    def _restart(self) -> None:
        self.control.close()
        self.process.kill()
        self.process.wait()
        self._start(self.wrapped)

    def _start(self, wrapped: bool) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # ids that no account has; another range for every grader, as the kernel counts by id
        uid = 2**24 + 64 * os.getpid() * 64 if self.is_root else 0
        scratch = ["/tmp", "/dev/shm"] if wrapped else [str(self.folder / "scratch")]
        (self.folder / "scratch").mkdir(exist_ok=True)
        (self.folder / "scratch").chmod(0o1777)  # the workers are other users
        course = "/course" if wrapped else str(self.course)
        code = START.format(course=course, control=theirs.fileno(), uid=uid, scratch=scratch)
        command = [sys.executable, "-s", "-P", "-c", code]
        if wrapped:
            command = [*walls(self.course, self.limits.files, self.is_root), *command]
        environment = (
            ENVIRONMENT
            if wrapped
            else ENVIRONMENT | {"HOME": scratch[0], "MPLCONFIGDIR": scratch[0]}
        )
        said = self.folder / "said"
        with said.open("wb") as log:
            self.process = subprocess.Popen(
                self.cgroup.enter(command),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[theirs.fileno()],
                cwd="/" if wrapped else scratch[0],
            )
        theirs.close()
        self.control.settimeout(READY_SECONDS)
        try:
            ready = self.control.recv(4096)
        except OSError:
            ready = b""
        if not ready:
            self.control.close()
            self.process.kill()
            self.process.wait()
            lines = said.read_text(errors="replace").strip().splitlines()
            raise Lost(lines[-1] if lines else "no reason was given")
        self.filtered = json.loads(ready)["filter"]


def sweep() -> None:
    """Remove the folders of graders that were killed."""
    for folder in Path(tempfile.gettempdir()).glob("attncourse-*-*"):
        _, pid, _ = folder.name.split("-", 2)
        with suppress(OSError):
            dead = pid.isdigit() and not Path(f"/proc/{pid}").exists()
            if dead and folder.stat().st_uid == os.geteuid():
                shutil.rmtree(folder, ignore_errors=True)


def build_course(folder: Path) -> Path:
    """All that a submission sees of the packages: a `check` that only listens, and the far side."""
    grading, far = folder / "attncourse" / "grading", folder / "attngrade" / "far"
    for package in (grading, far):
        package.mkdir(parents=True)
        (package.parent / "__init__.py").write_text('"""Not here: answers are your own."""\n')
    shutil.copy(HERE / "stub.py", grading / "__init__.py")
    for module in (allocations, answer, blocked, isolation):
        shutil.copy(module.__file__, grading)
    for name in FAR_FILES:
        shutil.copy(HERE / name, far / name)
    return folder
