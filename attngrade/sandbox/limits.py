"""Limits on a student's code: for each process by the kernel, for all together by a cgroup."""

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MIB = 2**20
READY_SECONDS = 120  # for the start of a worker
IN_FORCE = "in force"
SHARED = 256  # processes of a user id that others may share; a cgroup counts ours alone
# files with the memory limit and the usage: version 2 of cgroups, and version 1
MEMORY = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")


@dataclass(frozen=True)
class Limits:
    """The limits of one student's code.

    Args:
        memory: bytes of address space of each process; all together may use a GiB more, for shared libraries.
        cpu: seconds of processor time of each process.
        processes: processes and threads at a time.
        files: bytes of each writable folder, and of one file.
        message: bytes of one message to the judge.
    """

    memory: int
    cpu: int
    processes: int = 32
    files: int = 64 * MIB
    message: int = 256 * MIB

    def of_a_process(self, is_alone: bool) -> dict[str, int]:
        """The limits under the kernel's names; ``is_alone`` where it counts the processes of the sandbox alone."""
        processes = self.processes if is_alone else SHARED
        limits = {"AS": self.memory, "DATA": self.memory, "CPU": self.cpu, "NPROC": processes}
        return limits | {"FSIZE": self.files, "NOFILE": 128, "MSGQUEUE": 0, "CORE": 0}


class Group:
    """A cgroup for one sandbox: a scope of systemd, else folders of our own, else none.

    ``enter`` is the start of a command that runs in the cgroup. ``state`` is "in force", or why not; it is
    set by `find`, which looks at a process inside.
    """

    def __init__(self, limits: Limits):
        self.memory, processes = limits.memory + 1024 * MIB, limits.processes + 8
        self.folders, self.state, self.enter = [], "", scopes()
        if self.enter:
            bounds = f"MemoryMax={self.memory}", "MemorySwapMax=0", f"TasksMax={processes}"
            self.enter = [*self.enter, *(f"--property={x}" for x in bounds), "--"]
            return
        try:
            self._make("memory", self.memory)
            self._make("pids", processes)
            entering = "; ".join(f"echo $$ > '{x}/cgroup.procs'" for x in self.folders)
            self.enter = ["/bin/sh", "-c", f'{entering}; exec "$@"', "sh"]
        except OSError as error:
            self.close()
            self.state = f"it cannot be made here: {error.strerror}"

    def _make(self, controller: str, most: int) -> None:
        folder = folder_of("self", controller) / f"attncourse-{os.getpid()}"
        sweep(folder.parent)
        folder.mkdir(exist_ok=True)
        self.folders.append(folder)
        file = memory_of(folder)[0] if controller == "memory" else folder / "pids.max"
        file.write_text(str(most))

    def find(self, pid: int) -> None:
        """Find the cgroup of a process, and whether its memory is limited there."""
        if self.enter:
            self.state = "its limits do not hold here"
            with suppress(OSError, ValueError):
                self.limit, self.used = memory_of(folder_of(str(pid), "memory"))
                if int(self.limit.read_text()) <= self.memory:
                    self.state = IN_FORCE

    def allow(self, more: int | None) -> None:
        """Set the limit to current usage + ``more`` bytes; None restores the initial limit."""
        if self.state == IN_FORCE:
            most = self.memory if more is None else int(self.used.read_text()) + more
            with suppress(OSError):  # a scope that this user may not change
                self.limit.write_text(str(min(most, self.memory)))

    def close(self) -> None:
        """Remove our cgroups; their processes have ended."""
        while self.folders:
            with suppress(OSError):
                self.folders.pop().rmdir()


@cache
def scopes() -> list[str]:
    """The start of a command in a scope of systemd; empty where that does not work."""
    if not Path("/run/systemd/system").is_dir():
        return []
    command = ["systemd-run", "--scope", "--quiet", "--collect"]
    if user := os.geteuid():
        command = ["/usr/bin/env", f"XDG_RUNTIME_DIR=/run/user/{user}", *command, "--user"]
    with suppress(OSError, subprocess.TimeoutExpired):
        if not subprocess.run([*command, "--", "true"], capture_output=True, timeout=30).returncode:
            return command
    return []


def memory_of(folder: Path) -> list[Path]:
    """The files with the memory limit and the memory usage of a cgroup."""
    return [folder / name for name in MEMORY[not (folder / MEMORY[0][0]).exists()]]


def sweep(parent: Path) -> None:
    """Remove the cgroups of judges that were killed."""
    for folder in parent.glob("attncourse-*"):
        if not Path("/proc", folder.name.partition("-")[2]).exists():
            with suppress(OSError):
                folder.rmdir()


def folder_of(pid: str, controller: str) -> Path:
    """The cgroup of a process: of one controller in version 1, of all in version 2.

    Raises:
        OSError: the process has no such cgroup.
    """
    unified = (ROOT / "cgroup.controllers").exists()
    for line in Path("/proc", pid, "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if ("" if unified else controller) in controllers.split(","):
            base = ROOT if unified else ROOT / controller
            folder = base / path.lstrip("/")
            return folder if folder.is_dir() else base
    raise OSError(2, f"no {controller} controller")
