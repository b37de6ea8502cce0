"""How much a student's code may use: of each process by the kernel, of all together by a cgroup."""

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MIB = 2**20
IN_FORCE = "in force"
SHARED = 1024  # processes, where others may have the same user: then a cgroup has to count ours
SYSTEMD = ["systemd-run", "--scope", "--quiet", "--collect"]
MEMORY = "memory.max", "memory.current"  # and what version 1 calls them:
MEMORY_1 = "memory.limit_in_bytes", "memory.usage_in_bytes"


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
        return {
            "AS": self.memory,
            "DATA": self.memory,
            "CPU": self.cpu,
            "NPROC": self.processes if is_alone else SHARED,
            "FSIZE": self.files,
            "NOFILE": 128,
            "MSGQUEUE": 0,
            "CORE": 0,
        }


class Group:
    """A cgroup for one sandbox: a scope of systemd, else a folder of our own, else none.

    ``enter`` is the start of a command that runs in it. ``state`` is "in force", or why it is not; it is
    known when `find` has looked at a process in it.
    """

    def __init__(self, limits: Limits):
        self.memory, self.processes = limits.memory + 1024 * MIB, limits.processes + 8
        self.folders: list[Path] = []
        self.folder, self.state, self.enter = None, "", []
        if scopes():
            bounds = f"MemoryMax={self.memory}", "MemorySwapMax=0", f"TasksMax={self.processes}"
            self.enter = [*scopes(), *(f"--property={x}" for x in bounds), "--"]
        else:
            self._make()

    def _make(self) -> None:
        name = f"attncourse-{os.getpid()}"
        try:
            for controller, file, most in (
                ("memory", None, self.memory),
                ("pids", "pids.max", self.processes),
            ):
                folder = folder_of("self", controller) / name
                sweep(folder.parent)
                folder.mkdir(exist_ok=True)
                self.folders.append(folder)
                (folder / (file or names(folder)[0])).write_text(str(most))
        except OSError as error:
            self.close()
            self.state = f"it cannot be made here: {error.strerror}"
        entering = "; ".join(f"echo $$ > '{x}/cgroup.procs'" for x in self.folders)
        self.enter = ["/bin/sh", "-c", f'{entering}; exec "$@"', "sh"] if entering else []

    def find(self, pid: int) -> None:
        """Look where a process has come to, and whether its memory is bounded there."""
        if not self.enter:
            return
        self.state = "its limits do not hold here"
        with suppress(OSError, ValueError):
            self.folder = folder_of(str(pid), "memory")
            if int((self.folder / names(self.folder)[0]).read_text()) <= self.memory:
                self.state = IN_FORCE

    def allow(self, more: int | None) -> None:
        """From now on so many bytes more than are used now; None for as many as at first."""
        if self.state == IN_FORCE:
            limit, used = names(self.folder)
            most = self.memory if more is None else int((self.folder / used).read_text()) + more
            with suppress(OSError):  # a scope that is not lent to this user
                (self.folder / limit).write_text(str(min(most, self.memory)))

    def close(self) -> None:
        """Remove what we have made; its processes have ended."""
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()
        self.folders = []


@cache
def scopes() -> list[str]:
    """The command that starts another in a scope of systemd, if that works here."""
    if not (shutil.which(SYSTEMD[0]) and Path("/run/systemd/system").is_dir()):
        return []
    command = SYSTEMD if os.geteuid() == 0 else [*SYSTEMD, "--user"]
    run = subprocess.run([*command, "--", "true"], capture_output=True, timeout=60)
    return command if run.returncode == 0 else []


def names(folder: Path) -> tuple[str, str]:
    """Of the files with the limit of the memory and with what is used."""
    return MEMORY if (folder / MEMORY[0]).exists() else MEMORY_1


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
