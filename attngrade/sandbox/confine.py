"""The first thing that a worker does: it gives up what it does not need, before any cell has run."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
NOBODY = 65534
M_MMAP_THRESHOLD = -3  # from this size on, memory goes back to the system when it is freed
LIBC = ctypes.CDLL(None)


def main(descriptor: str, message: str, limits: str) -> None:
    """Start the worker behind all that can be put around it from inside.

    Args:
        descriptor: of the socket to the judge.
        message: the most bytes of one message.
        limits: JSON of what `attngrade.sandbox.limits.Limits.of_a_process` returns.
    """
    parent = os.getppid()
    from attngrade.sandbox import seccomp, worker  # torch with it; trusted, and slow

    sys.argv[1:] = []
    confine(json.loads(limits), parent)
    filtered = seccomp.deny()
    os.dup2(1, 2)  # what it prints goes nowhere
    worker.main(int(descriptor), int(message), filtered)


def confine(limits: dict[str, int], parent: int) -> None:
    """Give up what a worker does not need."""
    # Left alone, the C library soon keeps large tensors that are freed, for the next ones; small ones that are
    # placed between keep it from using them again, and a right answer would seem to take a lot of memory.
    LIBC.mallopt(M_MMAP_THRESHOLD, 256 * 1024)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory is short, not the judge
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        for path in (sys.prefix, sys.base_prefix):
            if not os.access(path, os.R_OK | os.X_OK):
                raise SystemExit(f"Without bubblewrap students are nobody, who cannot read {path}.")
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # a change of the user took it: /proc/self was closed
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # and this
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:  # it has ended before that line
        os._exit(0)
