"""Against other processes: the grader above, its neighbours, and what is to live on."""

from grader.attacks import Attacks

ATTACKS = Attacks("processes", needs="bubblewrap")
MASK = "causal_mask"
EVERY = """
import ctypes, os, signal, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

def every_pid():
    try:
        found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        found = range(1, 2000)
    return [pid for pid in found if pid != os.getpid()]

def tried(action, *args):
    try:
        return action(*args)
    except BaseException:
        return None
"""


def against(name: str, body: str, **how) -> None:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    source = (
        f"{EVERY}\ndef causal_mask(n, m):\n{lines}\n    return torch.ones(n, m, dtype=torch.bool)\n"
    )
    ATTACKS.instead(MASK, name, source, fuse=True, **how)


against(
    "the parent is killed",
    """
tried(os.kill, os.getppid(), signal.SIGKILL)
tried(os.killpg, os.getpgid(os.getppid()), signal.SIGKILL)
""",
)
against(
    "the parent is stopped",
    """
tried(os.kill, os.getppid(), signal.SIGSTOP)
tried(os.kill, 1, signal.SIGSTOP)
""",
)
against(
    "everybody is killed",
    """
tried(os.kill, 1, signal.SIGKILL)
for pid in every_pid():
    tried(os.kill, pid, signal.SIGKILL)
tried(os.kill, 0, signal.SIGTERM)
tried(os.kill, -1, signal.SIGKILL)
""",
)
against(
    "everybody is stopped",
    """
for pid in every_pid():
    tried(os.kill, pid, signal.SIGSTOP)
    tried(os.kill, pid, signal.SIGTSTP)
""",
)
against(
    "the grader is killed by its number",
    """
for pid in (int("@PARENT@"), int("@PARENT@") + 1, int("@PARENT@") - 1):
    tried(os.kill, pid, signal.SIGKILL)
    tried(os.kill, pid, signal.SIGSTOP)
""",
)
against(
    "others are traced",
    """
for pid in (os.getppid(), 1, *every_pid()):
    if libc.ptrace(16, pid, 0, 0) == 0:
        raise RuntimeError("MARK-traced")
    if libc.ptrace(0x4206, pid, 0, 0) == 0:
        raise RuntimeError("MARK-traced")
""",
)
against(
    "the memory of others is opened",
    """
for pid in (os.getppid(), 1, *every_pid()):
    for name in ("mem", "environ", "maps", "auxv"):
        try:
            with open(f"/proc/{pid}/{name}", "r+b" if name == "mem" else "rb") as file:
                if name == "mem" or b"MARK-" in file.read(10**6):
                    raise RuntimeError(f"MARK-{name}")
        except OSError:
            pass
    data = ctypes.create_string_buffer(8)
    pair = (ctypes.c_void_p * 2)(ctypes.addressof(data), 8)
    there = (ctypes.c_void_p * 2)(0x400000, 8)
    if libc.process_vm_readv(pid, pair, 1, there, 1, 0) == 8:
        raise RuntimeError("MARK-memory-read")
""",
)
against(
    "the descriptors of others are taken",
    """
for pid in (os.getppid(), 1, *every_pid()):
    for name in tried(os.listdir, f"/proc/{pid}/fd") or range(12):
        try:
            found = os.open(f"/proc/{pid}/fd/{name}", os.O_RDWR)
            if not os.readlink(f"/proc/self/fd/{found}").startswith("/dev/null"):
                raise RuntimeError("MARK-descriptor")
        except OSError:
            pass
    handle = libc.syscall(434, pid, 0)
    for number in range(12) if handle >= 0 else ():
        if libc.syscall(438, handle, number, 0) >= 0:
            raise RuntimeError("MARK-descriptor-taken")
""",
)
against(
    "a child is left behind",
    """
if os.fork() == 0:
    libc.prctl(15, b"@TAG@", 0, 0, 0)
    os.setsid()
    if os.fork() == 0:
        libc.prctl(15, b"@TAG@", 0, 0, 0)
        tried(os.closerange, 0, 64)
        while True:
            time.sleep(0.1)
    os._exit(0)
""",
)
against(
    "a child is left behind that is deaf and busy",
    """
for _ in range(3):
    if os.fork() == 0:
        libc.prctl(15, b"@TAG@", 0, 0, 0)
        libc.prctl(1, 0, 0, 0, 0)
        os.setsid()
        for number in range(1, 65):
            tried(signal.signal, number, signal.SIG_IGN)
        while True:
            if os.fork():
                os._exit(0)
            time.sleep(0.005)
""",
)
against(
    "a child that speaks for its parent, later",
    """
if os.fork() == 0:
    libc.prctl(15, b"@TAG@", 0, 0, 0)
    time.sleep(0.3)
    for descriptor in range(64):
        tried(os.write, descriptor, b"MARK-late" * 100)
    time.sleep(60)
    os._exit(0)
os._exit(0)
""",
)
against(
    "a program is left behind",
    """
for arguments in (["sleep", "@NAP@"], ["sh", "-c", "(setsid sleep @NAP@ &)"], ["nohup", "sleep", "@NAP@"]):
    tried(lambda: subprocess.Popen(arguments, start_new_session=True))
""",
)
against(
    "rights are raised",
    """
gained = []
for name in ("setuid", "setgid", "setreuid", "setresuid"):
    gained.append(tried(getattr(os, name), *([0] * {"setreuid": 2, "setresuid": 3}.get(name, 1))))
tried(os.setgroups, [0])
if "@BOXED@" == "" and os.getuid() == 0:
    raise RuntimeError("MARK-root")
import resource
for name in ("AS", "CPU", "NPROC", "FSIZE", "NOFILE"):
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (-1, -1))
        raise RuntimeError("MARK-limit-raised " + name)
    except (OSError, ValueError):
        pass
""",
)
against(
    "programs that run as root",
    """
for command in ("su -c id", "sudo -n id", "mount", "umount -l /proc", "passwd -d root", "newgrp root", "pkexec id", "chsh -s /bin/sh"):
    found = tried(lambda: subprocess.run(command.split(), capture_output=True, text=True, timeout=1, stdin=-3))
    if found is not None and found.returncode == 0 and "uid=0(root)" in found.stdout:
        raise RuntimeError("MARK-root by " + command)
""",
)
against(
    "a sandbox in the sandbox",
    """
shots = (
    "unshare -rm sh -c 'mount -t tmpfs x /tmp && echo deep'",
    "bwrap --bind / / --dev /dev --proc /proc sh -c 'echo deep'",
    "setpriv --reuid 0 --clear-groups sh -c 'echo deep'",
    "nsenter -t 1 -a sh -c 'echo deep'",
    "chroot /proc/1/root sh -c 'echo deep'",
)
for shot in shots:
    found = tried(lambda: subprocess.run(["sh", "-c", shot], capture_output=True, text=True, timeout=1))
    if found is not None and "deep" in found.stdout and ("nsenter" in shot or "chroot" in shot):
        raise RuntimeError("MARK-deep " + shot)
""",
)
against(
    "other namespaces are entered",
    """
for name in ("mnt", "net", "pid", "user", "uts", "ipc", "cgroup"):
    for pid in (1, os.getppid(), int("@PARENT@")):
        try:
            here = os.readlink(f"/proc/self/ns/{name}")
            handle = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
            if os.readlink(f"/proc/{pid}/ns/{name}") != here and libc.setns(handle, 0) == 0:
                raise RuntimeError("MARK-setns " + name)
        except OSError:
            pass
tried(lambda: libc.unshare(0x10000000 | 0x00020000))
for source, target in ((b"/proc/1/root", b"/mnt"), (b"/", b"/mnt"), (b"/dev/vda", b"/mnt")):
    libc.mount(source, target, b"ext4" if b"vda" in source else None, 4096, None)
tried(os.chroot, "/proc/1/root")
if tried(os.listdir, "@SUBMISSIONS@"):
    raise RuntimeError("MARK-outside")
""",
)
against(
    "groups and devices of the kernel",
    """
for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/kernel/debug"):
    for folder, _, names in list(os.walk(path))[:200]:
        for name in ("cgroup.kill", "cgroup.freeze", "memory.max", "cgroup.procs", "pids.max"):
            if name in names and os.access(f"{folder}/{name}", os.W_OK):
                try:
                    os.close(os.open(f"{folder}/{name}", os.O_WRONLY))
                    raise RuntimeError("MARK-cgroup")
                except OSError:
                    pass
for path in ("/dev/mem", "/dev/kmem", "/dev/vda", "/dev/sda", "/dev/kvm", "/proc/kcore", "/proc/sysrq-trigger",
             "/dev/tty", "/dev/console", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"):
    try:
        os.close(os.open(path, os.O_WRONLY))
        raise RuntimeError("MARK-device " + path)
    except OSError:
        pass
tried(lambda: os.mknod("/tmp/@TAG@-WAS-HERE", 0o60666, os.makedev(254, 0)))
""",
)
against(
    "everybody else is slowed down",
    """
tried(os.nice, -20)
tried(os.sched_setaffinity, os.getppid(), {0})
for pid in every_pid():
    tried(os.setpriority, 0, pid, 19)
    tried(lambda: os.sched_setscheduler(pid, 5, os.sched_param(0)))
    import resource
    try:
        if pid != os.getpid():
            resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))
            raise RuntimeError("MARK-limits-of-others")
    except (OSError, ValueError):
        pass
""",
)
against(
    "messages through the kernel",
    """
handle = libc.semget(0x51, 1, 0o1666)
if libc.msgget(0x52, 0o1666) >= 0 and "@BOXED@" == "":
    pass
tried(lambda: libc.shmctl(libc.shmget(0x53, 4096, 0o1666), 0, None))
for number in range(1, 65):
    tried(lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGKILL))
""",
)
