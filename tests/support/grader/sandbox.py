"""What the tests of the sandbox share: as whom they run, and where it stands."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEBIBYTE = 2**20
ROOT = Path(__file__).parents[3]
ORDINARY = 54321  # a user id that nobody has here
CGROUPS = Path("/sys/fs/cgroup")
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "COURSE_SECRET": "MARK-environment",  # no submission may read it
}


def run_as(ordinary: bool = False, cgroup: bool = True, enter: tuple[Path, ...] = ()) -> list[str]:
    """The start of a command that runs as root or as an ordinary user, with or without cgroups in sight.

    Where the tests are run by an ordinary user, it is that one in any case.

    Args:
        ordinary: drop to the user id `ORDINARY`; who may read Python and this repository, where they lie.
        cgroup: False hides all cgroups, so that none can be made.
        enter: folders of cgroups to enter first, made by `lent`.
    """
    command = []
    if enter:
        entering = "; ".join(f"echo $$ > '{folder}/cgroup.procs'" for folder in enter)
        command += ["sh", "-c", f'{entering}; exec "$@"', "sh"]
    drops = ordinary and os.geteuid() == 0
    if not drops and cgroup:
        return command
    command += ["bwrap", "--dev-bind", "/", "/"]
    if not cgroup:
        command += ["--tmpfs", str(CGROUPS), "--remount-ro", str(CGROUPS)]
    if drops:
        home = Path.home()  # closed to others, so what is needed of it is shown
        command += ["--perms", "0755", "--tmpfs", str(home)]
        for path in sorted({Path(x) for x in (sys.base_prefix, sys.prefix, ROOT)}):
            if path.is_relative_to(home):
                for parent in reversed(path.relative_to(home).parents[:-1]):
                    command += ["--perms", "0755", "--dir", str(home / parent)]
                command += ["--ro-bind", str(path), str(path)]
        ids = f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"
        return [*command, "--", "setpriv", *ids]
    return [*command, "--"]


@contextmanager
def lent() -> Iterator[tuple[Path, ...]]:
    """Cgroups of version 1 that an ordinary user may divide, as systemd lends them; none where none can be made."""
    found = []
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in {"memory", "pids"} & set(controllers.split(",")):
                own = CGROUPS / controller / path.lstrip("/")
                folder = (own if own.is_dir() else CGROUPS / controller) / f"lent-{os.getpid()}"
                folder.mkdir()
                found.append(folder)
                for place in (folder, folder / "cgroup.procs"):
                    os.chown(place, ORDINARY, ORDINARY)
    except OSError:
        pass
    try:
        yield tuple(found)
    finally:
        for folder in found:
            for inside in folder.glob("*/"):  # of a judge that was killed
                inside.rmdir()
            folder.rmdir()


def walls_stand(state: str) -> None:
    """Skip the test where bubblewrap is not in force; on CI that is a failure."""
    if state != "in force":
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"bubblewrap: {state}")
