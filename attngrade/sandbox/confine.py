"""The start of a worker: rights and resources that it does not need are dropped before any cell runs."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
NOBODY = 65534
M_MMAP_THRESHOLD = -3  # blocks of at least this size go back to the system when freed
LIBC = ctypes.CDLL(None)


def main(descriptor: str, message: str, limits: str) -> None:
    """Start the worker, confined from inside.

    Args:
        descriptor: descriptor of the socket to the judge.
        message: limit of one message in bytes.
        limits: the limits of `attngrade.sandbox.limits.Limits.of_a_process` as JSON.
    """
    parent = os.getppid()
    from attngrade.sandbox import seccomp, worker  # imports torch: trusted, and slow

    sys.argv[1:] = []
    confine(json.loads(limits), parent)
    filtered = seccomp.deny()
    os.dup2(1, 2)  # stderr goes where stdout goes: nowhere
    worker.main(int(descriptor), int(message), filtered)


def confine(limits: dict[str, int], parent: int) -> None:
    """Drop the rights and resources that a worker does not need."""
    # By default the C library soon keeps large freed blocks for later ones. Small blocks between them prevent
    # the reuse, and a right answer would seem to take a lot of memory.
    LIBC.mallopt(M_MMAP_THRESHOLD, 256 * 1024)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out, the kernel ends the worker, not the judge
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        for path in (sys.prefix, sys.base_prefix):
            if not os.access(path, os.R_OK | os.X_OK):
                raise SystemExit(f"Without bubblewrap students are nobody, who cannot read {path}.")
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # changing the user cleared it, which closes /proc/self
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # cleared, too
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the line above
        os._exit(0)
