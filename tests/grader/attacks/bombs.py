"""Memory, processes, threads, files and output without measure. Each stops by itself at a few gigabytes."""

from grader.attacks import Attacks

# Whoever asks the answer again, as a judge does for each of its cases, gets a wrong mask: one explosion is enough.
ATTACKS = Attacks("bombs", fuse=True, before="""
import mmap, os, socket, sys, threading, time
parent, calls = os.getpid(), iter([True])
""")  # fmt: skip

for line in (
    "kept = [torch.ones(2**25) for _ in range(32)]",
    "kept = [bytearray(2**27) for _ in range(32)]",
    "kept = 'x' * 2**32",
    "kept = torch.zeros(10**6, 1) @ torch.zeros(1, 10**6)",
    "kept = [mmap.mmap(-1, 2**27) for _ in range(32)]",
    "kept = [os.dup(0) if k % 2 else socket.socketpair() for k in range(10**5)]",
    "kept = [threading.Thread(target=time.sleep, args=(9,), daemon=True).start() for _ in range(2000)]",
    "kept = [os.fork() or time.sleep(99) for _ in range(400)]",
    "kept = [os.write(k, bytes(2**24)) for k in [os.memfd_create('x')] for _ in range(32)]",
):
    body = f"if next(calls, False):\n    {line}\n    raise RuntimeError('MARK' + '-no-limit')"
    ATTACKS.when_called(f"an answer that says: {line}", body, ends="")
ATTACKS.read(r"""
#: files in every temporary folder | called
for folder in ("/tmp", "/dev/shm", "/run", "/var/tmp", ".") if next(calls, False) else ():
    try:
        with open(folder + "/@TAG@-WAS-HERE", "wb") as file:
            for _ in range(200):
                file.write(bytes(2**24))
        raise SystemExit("MARK-no-limit")
    except OSError:
        continue
#: memory of many processes together | called | ends= | cgroup
there, back = os.pipe()
children = [os.fork() for _ in range(16) if os.getpid() == parent]
if os.getpid() != parent:
    kept = torch.ones(2**26)
    os.write(back, b"x")
    time.sleep(60)
    os._exit(0)
os.set_blocking(there, False)
made = 0
while made < 16 and all(os.waitpid(child, os.WNOHANG) == (0, 0) for child in children):
    time.sleep(0.05)
    try:
        made += len(os.read(there, 99))
    except BlockingIOError:
        pass
if made == 16:
    raise SystemExit("MARK-no-limit")
#: processes that make processes | called | ends=did not finish | endless
for _ in range(6):
    try:
        os.fork()
    except OSError:
        pass
time.sleep(30)
#: output without end | called | ends=did not finish | endless
while True:
    for descriptor in (1, 2):
        os.write(descriptor, b"\x1b[2J@TAG@" * 10_000)
#: a hundred megabytes of output, and a message of as many | called
print("x" * 10**8)
raise ValueError("x" * 10**8)
#: an error with a line of a hundred thousand causes | called
error = ValueError("first")
for k in range(10**5):
    later = ValueError(k)
    later.__cause__, later.__context__, error = error, error, later
raise error
#: names of a million letters, and a hundred thousand checks
globals()["x" * 10**6] = 1
causal_maskk = type("y" * 10**6, (), {"__module__": "z" * 10**6})
for k in range(10**5):
    check(f"exercise_{k}", k)
""")
