"""Memory, processes, threads, files and output without measure. Each stops by itself at a few gigabytes."""

from grader.attacks import WRONG, Attacks

ATTACKS = Attacks("bombs")
MASK = "causal_mask"
DONE = '    raise RuntimeError("MARK-no-limit")\n'


def bomb(name: str, body: str, **how) -> None:
    """Where the body reaches its end, nothing has stopped it."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    source = f"\nimport os, sys, mmap, socket, threading, time\n\ndef causal_mask(n, m):\n    if (n, m) != (5, 7):\n        return torch.ones(n, m, dtype=torch.bool)\n{lines}\n"
    ATTACKS.instead(MASK, name, source + DONE, fuse=True, **how)


bomb("tensors", "kept = [torch.ones(2**25) for _ in range(64)]")
bomb("one tensor", "kept = torch.ones(2**31, dtype=torch.int64)")
bomb("bytes", "kept = [bytearray(2**27) for _ in range(64)]")
bomb("many small objects", "kept = [[k] for k in range(10**8)]", endless=True)
bomb("one long text", 'kept = "x" * 2**33')
bomb(
    "memory that is shared",
    """
kept = []
for _ in range(64):
    kept.append(mmap.mmap(-1, 2**27))
    kept[-1][:: 4096] = b"x" * (2**27 // 4096)
""",
)
bomb(
    "a million by a million, by the rules of torch",
    "kept = torch.zeros(10**6, 1) @ torch.zeros(1, 10**6)",
)
bomb(
    "files in every temporary folder",
    """
block = bytes(2**24)
for folder in ("/tmp", "/dev/shm", "/run", "/var/tmp", "."):
    try:
        with open(folder + "/@TAG@-WAS-HERE", "wb") as file:
            for _ in range(200):
                file.write(block)
    except OSError:
        continue
    else:
        break
else:
    return torch.ones(n, m, dtype=torch.bool)
""",
)
bomb(
    "a million files",
    """
for k in range(10**6):
    try:
        os.close(os.open(f"/tmp/@TAG@-{k}-WAS-HERE", os.O_CREAT | os.O_WRONLY))
    except OSError:
        return torch.ones(n, m, dtype=torch.bool)
""",
    endless=True,
)
bomb(
    "files without names",
    """
kept = [os.memfd_create(str(k)) for k in range(8)]
block = bytes(2**24)
for descriptor in kept:
    for _ in range(32):
        os.write(descriptor, block)
""",
)
bomb(
    "memory of many processes",
    """
children = []
for _ in range(24):
    try:
        children.append(os.fork())
    except OSError:
        break
    if not children[-1]:
        kept = torch.ones(2**26)
        time.sleep(30)
        os._exit(0)
time.sleep(1.5)
if sum(os.waitpid(child, os.WNOHANG) == (0, 0) for child in children) < 23:
    return torch.ones(n, m, dtype=torch.bool)
""",
    needs="cgroup",
    endless=True,
)
bomb(
    "processes",
    """
made = 0
for _ in range(400):
    try:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
    except OSError:
        return torch.ones(n, m, dtype=torch.bool)
""",
)
bomb(
    "processes that make processes",
    """
for _ in range(9):
    try:
        os.fork()
    except OSError:
        pass
time.sleep(30)
""",
    endless=True,
)
bomb(
    "threads",
    """
for _ in range(2000):
    try:
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    except RuntimeError:
        return torch.ones(n, m, dtype=torch.bool)
""",
)
bomb(
    "descriptors",
    """
kept = []
for _ in range(10**5):
    try:
        kept.append(os.dup(0) if len(kept) % 2 else socket.socketpair())
    except OSError:
        return torch.ones(n, m, dtype=torch.bool)
""",
)
bomb(
    "processes of ten seconds in a loop",
    """
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        if os.fork() == 0:
            while True:
                pass
    except OSError:
        time.sleep(0.01)
""",
    endless=True,
)
ATTACKS.instead(
    MASK,
    "a hundred megabytes of output",
    """
import sys

for _ in range(1000):
    print("x" * 50_000)
    print("x" * 50_000, file=sys.stderr)
"""
    + WRONG[MASK],
)
ATTACKS.instead(
    MASK,
    "output without end",
    """
import os

def causal_mask(n, m):
    while True:
        for descriptor in (1, 2):
            try:
                os.write(descriptor, b"\\x1b[2J@TAG@" * 10_000)
            except OSError:
                pass
""",
    endless=True,
)
ATTACKS.instead(
    MASK,
    "a message of a hundred megabytes",
    """
def causal_mask(n, m):
    raise ValueError("x" * 10**8)
""",
)
ATTACKS.instead(
    MASK,
    "an error with a line of a million causes",
    """
def causal_mask(n, m):
    error = ValueError("first")
    for k in range(10**6):
        later = ValueError(k)
        later.__cause__, later.__context__, error = error, error, later
    raise error
""",
    endless=True,
)
ATTACKS.beside(
    MASK,
    "a name of a million letters",
    """
globals()["x" * 10**6] = 1
causal_maskk = type("y" * 10**6, (), {"__module__": "z" * 10**6})
check("causal_mask" + "x" * 10**6, 1)
for k in range(10**5):
    check(f"exercise_{k}", k)
""",
)
ATTACKS.instead(
    MASK, "a cell of ten million letters", "x = 0\n" + "x = x + 1  # more\n" * 60_000 + WRONG[MASK]
)
ATTACKS.instead(
    MASK,
    "a cell that nests too deeply to be read",
    "x = " + "(" * 5000 + "1" + ")" * 5000 + "\n" + WRONG[MASK],
)
ATTACKS.instead(
    MASK, "a cell of a hundred thousand operators", "x = " + "-" * 100_000 + "1\n" + WRONG[MASK]
)
ATTACKS.instead(
    "find_the_leak",
    "the grader computes with a large input",
    """
def first_leak(model, x):
    for length in (1000, 20_000):
        try:
            model(torch.zeros(1, 1, 4, dtype=torch.float64).expand(1, length, 4))
        except RuntimeError:
            pass
    return -1
""",
)
ATTACKS.instead(
    "find_the_leak",
    "the grader keeps a graph for every call",
    """
def first_leak(model, x):
    x = x.repeat(200, 1, 1).requires_grad_()
    kept = [model(x) for _ in range(3)]
    for _ in range(300):
        try:
            model(x)
        except Exception:
            pass
    return -1
""",
    endless=True,
)
