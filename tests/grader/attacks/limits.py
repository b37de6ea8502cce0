"""What is to last: limits, priorities and files that the next student, or the grader, would find."""

from grader.attacks import Attacks

ATTACKS = Attacks("limits", "import ctypes, os, resource, subprocess, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n", fuse=True)  # fmt: skip
EVERYBODY = """
def everybody():
    return [1, 2, os.getppid(), int("@PARENT@"), *(int(x) for x in os.listdir("/proc") if x.isdigit())]

def tried(action, *args):
    try:
        return action(*args)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
"""
ATTACKS.before += EVERYBODY
for kind in ("FSIZE", "AS", "NOFILE", "NPROC", "CPU", "STACK", "DATA"):
    # One line of this kind, in one notebook, once gave all later students no points.
    ATTACKS.add(
        f"RLIMIT_{kind} of everybody is lowered to 1",
        f"for pid in everybody():\n    tried(resource.prlimit, pid, resource.RLIMIT_{kind}, (1, 1))\n",
        ends="",
    )
ATTACKS.read(r"""
#: limits are lowered by a program in namespaces of its own
for shot in ("unshare -Ur prlimit --pid 1 --as=1:1", "prlimit --pid 1 --fsize=1:1", "prlimit --pid @PARENT@ --fsize=1:1",
             "choom -p @PARENT@ -n 1000"):
    tried(lambda: subprocess.run(shot.split(), capture_output=True, timeout=2))
#: limits are raised, by every call that does so
for name in ("AS", "CPU", "NPROC", "FSIZE", "NOFILE"):
    which = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(which)[1]
    for change in (lambda: resource.setrlimit(which, (-1, -1)), lambda: resource.prlimit(0, which, (-1, -1))):
        tried(change)
    if hard != -1 and resource.getrlimit(which)[1] != hard:
        raise SystemExit("MARK-limit-raised " + name)
#: everybody is slowed down
for pid in everybody():
    tried(os.setpriority, os.PRIO_PROCESS, pid, 19)
    tried(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))
    tried(os.sched_setaffinity, pid, {0})
    tried(lambda: open(f"/proc/{pid}/oom_score_adj", "w").write("1000"))
    libc.syscall(251, 1, pid, 3 << 13)
#: rights are taken from temporary folders, and files are left in all of them
for place in ("/tmp", "/dev/shm", "/var/tmp", "/", "/etc", "/run", "/course", "/usr", os.getcwd(), sys.prefix):
    for name in ("@TAG@-WAS-HERE", "ld.so.preload"):
        tried(lambda: open(f"{place}/{name}", "w").write("/tmp/x.so"))
    tried(os.chmod, place, 0)
    tried(os.chown, place, 0, 0)
tried(os.umask, 0)
tried(os.chdir, "/proc/self/fd")
#: messages in the kernel
libc.semget(0x51, 1, 0o1666), libc.msgget(0x52, 0o1666), libc.shmget(0x53, 4096, 0o1666)
libc.syscall(248, b"user", b"@TAG@", b"MARK", 4, -3)
libc.syscall(240, b"/@TAG@", os.O_CREAT | os.O_RDWR, 0o666, None)
#: what only somebody who was here before could have left
libc.shmget.restype = ctypes.c_int
if libc.shmget(0x53, 4096, 0) >= 0 and libc.semget(0x54, 1, 0) >= 0:
    raise SystemExit("MARK-memory-of-another")
for place in ("/", "/etc"):
    if os.access(place, os.W_OK) and tried(lambda: open(place + "/x", "w").write("x")):
        raise SystemExit("MARK-root-is-writable")
low = [k for k in ("AS", "FSIZE", "NOFILE") if resource.getrlimit(getattr(resource, "RLIMIT_" + k))[0] == 1]
if low:
    raise SystemExit("MARK-limits-of-another")
""")
