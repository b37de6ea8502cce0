"""The command line of bubblewrap: what a submission sees of the machine."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def walls(course: Path, files: int, is_root: bool) -> list[str]:
    """The command line of bubblewrap: Python to read, a small /tmp to write, and nothing else."""
    command = [
        shutil.which("bwrap"),
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
    ]
    command += ["--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "course"]
    if not is_root:
        command += ["--unshare-user"]
    command += ["--perms", "1777", "--size", str(files), "--tmpfs", "/tmp"]
    for folder in readable():
        for parent in reversed(folder.parents[:-1]):
            command += ["--perms", "0755", "--dir", str(parent)]
        if folder.is_symlink():
            command += ["--symlink", os.readlink(folder), str(folder)]
        else:
            command += ["--ro-bind", str(folder), str(folder)]
    site = Path(sysconfig.get_path("purelib"))
    for package in (site / "attncourse", site / "attngrade"):
        if package.is_dir():
            command += ["--tmpfs", str(package), "--remount-ro", str(package)]
    command += ["--proc", "/proc", "--dev", "/dev"]
    command += ["--perms", "1777", "--size", str(files), "--tmpfs", "/dev/shm"]
    return [*command, "--ro-bind", str(course), "/course", "--chdir", "/tmp", "--"]


def readable() -> list[Path]:
    """What Python and its libraries are made of; parents before children."""
    system = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"]
    python = [sys.base_prefix, sys.prefix]
    found = {Path(x) for x in [*system, *python] if os.path.lexists(x)}
    inside = {x for x in found if any(p in found and not p.is_symlink() for p in x.parents)}
    return sorted(found - inside)
