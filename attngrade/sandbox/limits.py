"""One limit for the memory, and one for the number of processes, of all that a submission starts."""

import os
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PATIENCE = 5  # seconds
MEMORY = "memory.max", "memory.current"  # and what version 1 calls them:
MEMORY_1 = "memory.limit_in_bytes", "memory.usage_in_bytes"


class Cgroup:
    """A cgroup of version 2, or one for each controller of version 1, below that of this process.

    Args:
        memory: bytes that all its processes may use together.
        processes: how many processes and threads there may be.

    ``state`` says "in force", or why not.
    """

    def __init__(self, memory: int, processes: int):
        self.folders: list[Path] = []
        self.memory = memory
        name = f"attncourse-{os.getpid()}-{id(self)}"
        unified = (ROOT / "cgroup.controllers").exists()
        self.limit, self.used = MEMORY if unified else MEMORY_1
        settings = [("memory", self.limit, memory), ("pids", "pids.max", processes)]
        try:
            for controller, file, most in settings:
                folder = own_folder("" if unified else controller) / name
                sweep(folder.parent)
                if folder not in self.folders:
                    folder.mkdir()
                    self.folders.append(folder)
                (folder / file).write_text(str(most))
            self.state = "in force"
        except OSError as error:
            self.close()
            self.state = f"it cannot be made here: {error.strerror}"

    def allow(self, more: int | None) -> None:
        """From now on so many bytes more than are used now; None for as many as at first."""
        for folder in self.folders[:1]:
            most = self.memory if more is None else int((folder / self.used).read_text()) + more
            (folder / self.limit).write_text(str(min(most, self.memory)))

    def enter(self, command: list[str]) -> list[str]:
        """The command that runs in this cgroup."""
        if not self.folders:
            return command
        entering = "; ".join(f"echo $$ > '{folder}/cgroup.procs'" for folder in self.folders)
        return ["/bin/sh", "-c", f'{entering}; exec "$@"', "sh", *command]

    def close(self) -> None:
        """Remove it; its processes were killed and may still be on their way."""
        until = time.monotonic() + PATIENCE
        while self.folders and time.monotonic() < until:
            for folder in list(self.folders):
                with suppress(OSError):
                    folder.rmdir()
                    self.folders.remove(folder)
            time.sleep(0.01 * bool(self.folders))
        self.folders = []


def sweep(parent: Path) -> None:
    """Remove the cgroups of graders that were killed."""
    for folder in parent.glob("attncourse-*-*"):
        _, pid, _ = folder.name.split("-", 2)
        if not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                folder.rmdir()


def own_folder(controller: str) -> Path:
    """The cgroup in which this process is, of one controller, or of all in version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            folder = ROOT / controller / path.lstrip("/")
            return folder if folder.is_dir() else ROOT / controller
    raise OSError(2, f"no {controller} controller")
