"""The command line of bubblewrap: the files and devices that a submission can see."""

import os
import shutil
import site
import sys
from pathlib import Path

from attngrade.sandbox.confine import NOBODY
from attngrade.sandbox.course import binds

SYSTEM = "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache"
PARTS = "bin", "lib", "lib64", "pyvenv.cfg"  # of a Python environment
NAMESPACES = "ipc", "pid", "net", "uts"


def command(files: int, is_root: bool, info: int) -> list[str]:
    """The start of a command in bubblewrap: Python and a few files of the course to read, /tmp to write.

    Args:
        files: size of /tmp in bytes.
        is_root: True if this process runs as root.
        info: descriptor on which bubblewrap reports the process that it has started.
    """
    options = [f"--unshare-{x}" for x in NAMESPACES]
    if not is_root:
        options += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--as-pid-1"]
    options += [
        "--die-with-parent",
        "--new-session",
        "--hostname",
        "course",
        "--unsetenv",
        "XDG_RUNTIME_DIR",
    ]
    options += ["--info-fd", str(info), "--perms", "1777", "--size", str(files), "--tmpfs", "/tmp"]
    for path in visible():
        for parent in reversed(path.parents[:-1]):
            options += ["--perms", "0755", "--dir", str(parent)]
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        else:
            options += ["--ro-bind", str(path), str(path)]
    for folder in site.getsitepackages([sys.prefix, sys.base_prefix, "/usr", "/usr/local"]):
        for package in Path(folder, "attncourse"), Path(folder, "attngrade"):
            if package.is_dir():
                options += ["--tmpfs", str(package), "--remount-ro", str(package)]
    options += ["--proc", "/proc", "--dev", "/dev"]
    options += ["--perms", "1777", "--size", str(files), "--tmpfs", "/dev/shm"]
    options += ["--dir", "/course", *binds(), "--remount-ro", "/dev", "--remount-ro", "/"]
    return [shutil.which("bwrap"), *options, "--chdir", "/tmp", "--"]


def visible() -> list[Path]:
    """The paths of Python and its libraries; parents before children."""
    python = [Path(prefix, part) for prefix in (sys.base_prefix, sys.prefix) for part in PARTS]
    found = {x for x in [*map(Path, SYSTEM), *python] if os.path.lexists(x)}
    inside = {x for x in found if any(p in found and not p.is_symlink() for p in x.parents)}
    return sorted(found - inside)


def refuse_private(*paths: Path) -> None:
    """Make sure that submissions cannot see these paths.

    Raises:
        ValueError: a path lies in a folder that every sandbox shows.
    """
    for path in paths:
        for shown in visible():
            if path.resolve().is_relative_to(shown.resolve()):
                raise ValueError(
                    f"Every submission could read {path}: it lies in {shown}, which Python needs. "
                    "Choose a folder outside of your virtual environment and of the system."
                )
