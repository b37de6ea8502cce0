"""Against other processes: the grader above, its neighbours, and what is to live on."""

from grader.attacks import Attacks

ATTACKS = Attacks("processes", fuse=True, before="""
import ctypes, os, resource, signal, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def others():
    return {1, 2, os.getppid(), int("@PARENT@"), *(int(x) for x in os.listdir("/proc") if x.isdigit())} - {os.getpid(), 0}

def tried(action, *args):
    try:
        return action(*args)
    except BaseException:
        return None
""")  # fmt: skip
ATTACKS.read(r"""
#: others are traced, and their memory and descriptors are opened
for pid in others():
    if libc.ptrace(16, pid, 0, 0) == 0 or libc.ptrace(0x4206, pid, 0, 0) == 0:
        raise SystemExit("MARK-traced")
    for name in ("mem", "environ", "auxv"):
        if b"MARK-" in (tried(lambda: open(f"/proc/{pid}/{name}", "rb").read(10**6)) or b"") or tried(os.open, f"/proc/{pid}/mem", os.O_RDWR):
            raise SystemExit("MARK-" + name)
    data = ctypes.create_string_buffer(8)
    pair, there = (ctypes.c_void_p * 2)(ctypes.addressof(data), 8), (ctypes.c_void_p * 2)(0x400000, 8)
    if libc.process_vm_readv(pid, pair, 1, there, 1, 0) == 8:
        raise SystemExit("MARK-memory-read")
    for name in tried(os.listdir, f"/proc/{pid}/fd") or ():
        if (found := tried(os.open, f"/proc/{pid}/fd/{name}", os.O_RDWR)) and "null" not in os.readlink(f"/proc/self/fd/{found}"):
            raise SystemExit("MARK-descriptor")
    handle = libc.syscall(434, pid, 0)
    if any(libc.syscall(438, handle, number, 0) >= 0 for number in range(12) if handle >= 0):
        raise SystemExit("MARK-descriptor-taken")
#: rights are raised, by calls and by programs
for name, n in {"setuid": 1, "setgid": 1, "setreuid": 2, "setresuid": 3}.items():
    tried(getattr(os, name), *[0] * n)
tried(os.setgroups, [0])
if os.getuid() == 0:
    raise SystemExit("MARK-root")
for command in ("su -c id", "sudo -n id", "mount", "newgrp root", "pkexec id", "setpriv --reuid 0 --clear-groups id"):
    found = tried(lambda: subprocess.run(command.split(), capture_output=True, text=True, timeout=1, stdin=-3))
    if found is not None and "uid=0(root)" in found.stdout:
        raise SystemExit("MARK-root by " + command)
#: a sandbox in the sandbox, and other namespaces
for shot in ("unshare -rm sh -c 'mount -t tmpfs x /tmp && echo deep'", "bwrap --bind / / --proc /proc sh -c 'echo deep'",
             "nsenter -t 1 -a sh -c 'echo deep'", "chroot /proc/1/root sh -c 'echo deep'"):
    found = tried(lambda: subprocess.run(["sh", "-c", shot], capture_output=True, text=True, timeout=2))
    if found is not None and "deep" in found.stdout:
        raise SystemExit("MARK-deep " + shot)
for name in ("mnt", "net", "pid", "user", "uts", "ipc", "cgroup"):
    for pid in (1, os.getppid(), int("@PARENT@")):
        handle = tried(os.open, f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        if handle and os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}") and libc.setns(handle, 0) == 0:
            raise SystemExit("MARK-setns " + name)
libc.unshare(0x10000000 | 0x00020000)
for source, target in ((b"/proc/1/root", b"/mnt"), (b"/", b"/tmp"), (b"/dev/vda", b"/tmp")):
    if libc.mount(source, target, b"ext4" if b"vda" in source else None, 4096, None) == 0:
        raise SystemExit("MARK-mounted")
tried(os.chroot, "/proc/1/root")
if tried(os.listdir, "@SUBMISSIONS@"):
    raise SystemExit("MARK-outside")
#: groups and devices of the kernel
for folder, _, names in list(os.walk("/sys/fs/cgroup"))[:500]:
    for name in {"cgroup.kill", "cgroup.freeze", "memory.max", "memory.limit_in_bytes", "cgroup.procs", "pids.max"} & set(names):
        if tried(os.open, f"{folder}/{name}", os.O_WRONLY):
            raise SystemExit("MARK-cgroup " + folder)
for path in ("/dev/mem", "/dev/kmem", "/dev/vda", "/dev/sda", "/dev/kvm", "/proc/kcore", "/proc/sysrq-trigger", "/dev/console",
             "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"):
    if tried(os.open, path, os.O_WRONLY):
        raise SystemExit("MARK-device " + path)
tried(lambda: os.mknod("/tmp/@TAG@-WAS-HERE", 0o60666, os.makedev(254, 0)))
#: the grader is killed and stopped by its number
for pid in (int("@PARENT@"), int("@PARENT@") + 1, int("@PARENT@") - 1):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        tried(os.kill, pid, number)
        tried(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number))
#: children are left behind: one that waits, one that is deaf and busy, and programs
if os.fork() == 0:
    libc.prctl(15, b"@TAG@", 0, 0, 0)
    libc.prctl(1, 0, 0, 0, 0)
    os.setsid()
    for number in range(1, 65):
        tried(signal.signal, number, signal.SIG_IGN)
    while True:
        if os.fork():
            os._exit(0)
        time.sleep(0.01)
for arguments in (["sleep", "@NAP@"], ["sh", "-c", "(setsid sleep @NAP@ &)"], ["nohup", "sleep", "@NAP@"]):
    tried(lambda: subprocess.Popen(arguments, start_new_session=True))
#: a child that speaks for its parent, later | called | ends=did not finish
if os.fork() == 0:
    libc.prctl(15, b"@TAG@", 0, 0, 0)
    time.sleep(0.2)
    for descriptor in range(64):
        tried(os.write, descriptor, b"MARK-late" * 100)
    time.sleep(600)
os._exit(0)
#: everybody is stopped, and then killed | called | ends=did not finish
for number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGKILL):
    os.kill(os.getpid(), number)
    for pid in others():
        tried(os.kill, pid, number)
    tried(os.killpg, os.getpgid(os.getppid()), number)
tried(os.kill, 0, signal.SIGTERM)
tried(os.kill, -1, signal.SIGKILL)
os._exit(0)
""")
