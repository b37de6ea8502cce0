"""Ways out: sockets, names, and programs. Each ends at a trap of the runner, or says MARK."""

from grader.attacks import Attacks

ATTACKS = Attacks("network", fuse=True, before="""
import os, socket, subprocess, sys, time

def tried(action, *args, **how):
    try:
        return action(*args, **how)
    except BaseException:
        return None
""")  # fmt: skip
ATTACKS.read(r"""
#: TCP, UDP and sockets of the machine itself, in files and without
for host in {"127.0.0.1", "localhost", "::1", "0.0.0.0", tried(socket.gethostname)} - {None}:
    tried(lambda: socket.create_connection((host, int("@PORT@")), timeout=0.2).sendall(b"MARK-tcp"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    tried(sock.sendto, b"MARK-udp", ("127.0.0.1", int("@PORT@")))
    tried(sock.sendto, b"MARK-udp", ("255.255.255.255", int("@PORT@")))
for address in ("@SOCKET@", "\0@TAG@", "/run/docker.sock", "/var/run/dbus/system_bus_socket", "/run/systemd/private"):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(0.2)
        tried(sock.connect, address)
        if tried(sock.getpeername) is not None:
            raise SystemExit("MARK-unix")
#: names, other machines, and libraries that fetch
import urllib.request
socket.setdefaulttimeout(0.2)
if tried(socket.getaddrinfo, "example.org", 80):
    raise SystemExit("MARK-dns")
for host in ("192.0.2.1", "8.8.8.8", "169.254.169.254", "10.0.0.1"):
    if tried(socket.create_connection, (host, 80), 0.2):
        raise SystemExit("MARK-outside")
for address in ("http://127.0.0.1:@PORT@/MARK", "file:///etc/shadow", "ftp://127.0.0.1:@PORT@/"):
    if tried(lambda: urllib.request.urlopen(address, timeout=0.3).read()):
        raise SystemExit("MARK-fetched")
tried(lambda: torch.hub.load_state_dict_from_url("http://127.0.0.1:@PORT@/x.pth", progress=False))
#: programs that connect, and an installation of the course
for command in ("exec 3<>/dev/tcp/127.0.0.1/@PORT@ && echo MARK-bash >&3", "curl -m 1 -s 127.0.0.1:@PORT@",
                sys.executable + " -m pip install -q attncourse --index-url http://127.0.0.1:@PORT@/"):
    tried(lambda: subprocess.run(["bash", "-c", command], capture_output=True, timeout=2))
#: raw packets and families of sockets that no notebook needs
for family, kind, number in ((2, 3, 1), (17, 3, 3), (40, 1, 0), (10, 3, 58), (38, 5, 0), (29, 3, 1), (21, 5, 0)):
    sock = tried(socket.socket, family, kind, number)
    if sock is not None and family in (38, 40, 29, 21):
        raise SystemExit(f"MARK-family {family}")
#: the answer from a program that may do what we may not
code = "import os; print(os.environ.get('COURSE_' + 'SECRET')); from attncourse.masks import causal; print('MARK-', causal)"
found = tried(lambda: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=5))
if found is not None and "MARK-" in found.stdout:
    raise SystemExit("MARK-python " + found.stdout[:100])
#: a server is left behind
if tried(os.fork) == 0:
    server = socket.socket(socket.AF_UNIX)
    tried(server.bind, "\0@TAG@-server")
    tried(server.listen)
    time.sleep(600)
    os._exit(0)
""")
