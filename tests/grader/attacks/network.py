"""Ways out: sockets, names, and programs."""

from grader.attacks import Attacks

ATTACKS = Attacks("network", needs="bubblewrap")
MASK = "causal_mask"


def out(name: str, body: str, **how) -> None:
    """Every way ends at a trap of the runner, or says MARK."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    source = f"""
import os, socket, subprocess, sys, time

def tried(action, *args, **how):
    try:
        return action(*args, **how)
    except BaseException:
        return None

def causal_mask(n, m):
{lines}
    return torch.ones(n, m, dtype=torch.bool)
"""
    ATTACKS.instead(MASK, name, source, **how)


out(
    "TCP to the machine itself",
    """
hosts = {"127.0.0.1", "localhost", "::1", "0.0.0.0", tried(socket.gethostname)} - {None}
for host in hosts:
    tried(lambda: socket.create_connection((host, int("@PORT@")), timeout=0.3).sendall(b"MARK-tcp"))
""",
)
out(
    "UDP to the machine itself",
    """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    tried(sock.sendto, b"MARK-udp", ("127.0.0.1", int("@PORT@")))
    tried(sock.sendto, b"MARK-udp", ("255.255.255.255", int("@PORT@")))
""",
)
out(
    "sockets in files and without",
    """
for address in ("@SOCKET@", "\\0@TAG@", "/run/docker.sock", "/var/run/dbus/system_bus_socket"):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(0.3)
        if tried(sock.connect, address) is None and tried(sock.sendall, b"MARK-unix") is None:
            tried(sock.getpeername) is not None and sys.exit("MARK-unix")
""",
)
out(
    "names and other machines",
    """
socket.setdefaulttimeout(0.2)
if tried(socket.getaddrinfo, "example.org", 80):
    raise RuntimeError("MARK-dns")
for host in ("192.0.2.1", "8.8.8.8", "169.254.169.254", "10.0.0.1"):
    if tried(socket.create_connection, (host, 80), 0.2):
        raise RuntimeError("MARK-outside")
""",
)
out(
    "a library that fetches",
    """
import urllib.request, http.client

for address in ("http://127.0.0.1:@PORT@/MARK", "file:///etc/shadow", "ftp://127.0.0.1:@PORT@/"):
    if tried(lambda: urllib.request.urlopen(address, timeout=0.3).read()):
        raise RuntimeError("MARK-fetched")
tried(lambda: torch.hub.load_state_dict_from_url("http://127.0.0.1:@PORT@/x.pth", progress=False))
""",
)
out(
    "programs that connect",
    """
for command in ("exec 3<>/dev/tcp/127.0.0.1/@PORT@ && echo MARK-bash >&3", "curl -m 1 -s 127.0.0.1:@PORT@",
                "python3 -c 'import socket; socket.create_connection((\\"127.0.0.1\\", @PORT@))'"):
    tried(lambda: subprocess.run(["bash", "-c", command], capture_output=True, timeout=1))
""",
)
out(
    "a server is left behind",
    """
with socket.socket() as sock:
    tried(sock.bind, ("0.0.0.0", 0))
    tried(sock.listen)
if tried(os.fork) == 0:
    server = socket.socket(socket.AF_UNIX)
    tried(server.bind, "\\0@TAG@-server")
    tried(server.listen)
    time.sleep(60)
    os._exit(0)
""",
    fuse=True,
)
out(
    "raw packets and other families",
    """
for family, kind, number in ((2, 3, 1), (17, 3, 3), (16, 3, 0), (40, 1, 0), (10, 3, 58), (38, 5, 0)):
    with tried(socket.socket, family, kind, number) or open("/dev/null") as sock:
        if family == 40 and hasattr(sock, "connect") and tried(lambda: sock.connect((2, 22)) or 1):
            raise RuntimeError("MARK-vsock")
""",
)
out(
    "another Python that knows no limits",
    """
code = "import torch, os; print(os.environ.get('COURSE_' + 'SECRET')); import attncourse.masks as a; print('MARK-', a.causal)"
for program in (sys.executable, "python3", "/usr/bin/python3"):
    found = tried(lambda: subprocess.run([program, "-c", code], capture_output=True, text=True, timeout=2))
    if found is not None and "MARK-" in found.stdout:
        raise RuntimeError("MARK-python " + found.stdout[:100])
""",
    endless=True,
)
out(
    "the answer from a program that may do what we may not",
    """
code = f"import torch; print(torch.ones({n}, {m}).tril().int().tolist()); from attncourse import causal"
found = tried(lambda: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=2))
if found is not None and found.returncode == 0:
    return torch.tensor(eval(found.stdout)).bool()
""",
    endless=True,
)
