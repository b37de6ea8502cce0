"""How much a student's code may use: of each process by the kernel, of all together by a cgroup."""

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MIB = 2**20
IN_FORCE = "in force"
SHARED = 256  # processes, where others may have the same user; a cgroup counts ours alone
# the limit of the memory and what is used, as version 2 calls them, and as version 1 does
MEMORY = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")


@dataclass(frozen=True)
class Limits:
    """What the code of one student may use.

    Args:
        memory: bytes of address space of each process; of all together a GiB more, which libraries share.
        cpu: seconds of processor time of each process.
        processes: processes and threads at a time.
        files: bytes in each of its folders, and in one file.
        message: bytes of one message to the judge.
    """

    memory: int = 4096 * MIB
    cpu: int = 900
    processes: int = 32
    files: int = 64 * MIB
    message: int = 256 * MIB

    def of_a_process(self, is_alone: bool) -> dict[str, int]:
        """As the kernel names them; ``is_alone`` where it counts the processes of the sandbox alone."""
        processes = self.processes if is_alone else SHARED
        limits = {"AS": self.memory, "DATA": self.memory, "CPU": self.cpu, "NPROC": processes}
        return limits | {"FSIZE": self.files, "NOFILE": 128, "MSGQUEUE": 0, "CORE": 0}


class Group:
    """A cgroup for one sandbox: a scope of systemd, else folders of our own, else none.

    ``enter`` is the start of a command that runs in it. ``state`` is "in force", or why it is not; it is
    known when `find` has looked at a process in it.
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
        """Look where a process has come to, and whether its memory is bounded there."""
        if self.enter:
            self.state = "its limits do not hold here"
            with suppress(OSError, ValueError):
                self.limit, self.used = memory_of(folder_of(str(pid), "memory"))
                if int(self.limit.read_text()) <= self.memory:
                    self.state = IN_FORCE

    def allow(self, more: int | None) -> None:
        """From now on so many bytes more than are used now; None for as many as at first."""
        if self.state == IN_FORCE:
            most = self.memory if more is None else int(self.used.read_text()) + more
            with suppress(OSError):  # a scope that is not lent to this user
                self.limit.write_text(str(min(most, self.memory)))

    def close(self) -> None:
        """Remove what we have made; its processes have ended."""
        while self.folders:
            with suppress(OSError):
                self.folders.pop().rmdir()


@cache
def scopes() -> list[str]:
    """The command that starts another in a scope of systemd, if that works here."""
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
    """Of a cgroup the file with the limit of its memory, and that with what is used."""
    return [folder / name for name in MEMORY[not (folder / MEMORY[0][0]).exists()]]


def sweep(parent: Path) -> None:
    """Remove the cgroups of judges that were killed."""
    for folder in parent.glob("attncourse-*"):
        if not Path("/proc", folder.name.partition("-")[2]).exists():
            with suppress(OSError):
                folder.rmdir()


def folder_of(pid: str, controller: str) -> Path:
    """The cgroup of a process: of one controller, or of all in version 2.

    Raises:
        OSError: there is none.
    """
    unified = (ROOT / "cgroup.controllers").exists()
    for line in Path("/proc", pid, "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if ("" if unified else controller) in controllers.split(","):
            base = ROOT if unified else ROOT / controller
            folder = base / path.lstrip("/")
            return folder if folder.is_dir() else base
    raise OSError(2, f"no {controller} controller")
