"""The sandbox of a student: what is seen from it, how much it may use, and that nothing of it stays.

Everything is tried as root and as an ordinary user, with and without cgroups, and once without bubblewrap.
"""

import errno
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyseccomp
import pytest
from support.sandbox_helpers import ENVIRONMENT, MEBIBYTE, ROOT, lent, run_as, walls_stand
from support.sandbox_host import LIMITS

from attngrade import NotGraded
from attngrade.sandbox import bwrap
from attngrade.sandbox.bwrap import refuse_private
from attngrade.sandbox.limits import Limits, sweep
from attngrade.sandbox.peer import Peer
from attngrade.sandbox.sandbox import Sandbox
from attngrade.sandbox.seccomp import DENIED
from attngrade.sandbox.wire import Lost

SETTINGS = {
    "root-cgroup": (False, True, "walls"),
    "root": (False, False, "walls"),
    "ordinary-cgroup": (True, True, "walls"),
    "ordinary": (True, False, "walls"),
    "bare": (True, False, "no walls"),
}


class Host:
    """A process that holds a sandbox, as somebody; see `support.sandbox_host`."""

    def __init__(self, ordinary: bool, cgroup: bool, walls: str, enter: tuple[Path, ...] = ()):
        command = [*run_as(ordinary, cgroup, enter), sys.executable, "-m", "support.sandbox_host"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*command, walls], cwd=ROOT, env=ENVIRONMENT, **pipes)
        self.ordinary = ordinary or os.geteuid() != 0
        self.about: dict = {}
        self.walls = walls == "walls"
        if self.walls:
            self.tell("def tell(): return 7")
            walls_stand(self.state("bubblewrap"))

    def tell(self, source: str, *args, **how):
        """What ``tell`` returned in the sandbox; in the second place why it did not."""
        self.send(source, *args, **how)
        self.about = json.loads(self.process.stdout.readline())
        return self.about.get("told"), self.about.get("lost") or self.about.get("raised")

    def send(self, source: str, *args, **how) -> None:
        """Have a cell run; its answer is read by nobody."""
        self.process.stdin.write(json.dumps({"source": source, "args": args} | how) + "\n")
        self.process.stdin.flush()

    def state(self, name: str) -> str:
        """Whether a protection is in force."""
        return next(state for what, state in self.about["protections"] if name in what)

    def close(self) -> None:
        """End it."""
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module", params=SETTINGS)
def host(request):
    ordinary, cgroup, walls = SETTINGS[request.param]
    if ordinary and cgroup and os.geteuid() == 0:
        with lent() as folders:
            host = Host(ordinary, cgroup, walls, folders)
            yield host
            host.close()
        return
    host = Host(ordinary, cgroup, walls)
    yield host
    host.close()


def ended(processes: set[psutil.Process]) -> bool:
    """Whether these processes end in time."""
    return not psutil.wait_procs(processes, 60)[1]


# What is seen

LOOK = """
import os, socket, sys
from pathlib import Path

def tries(action, *args):
    try:
        action(*args)
        return "done"
    except Exception as error:
        return type(error).__name__

def tell(root, teacher, port, abstract):
    pids = [int(x) for x in os.listdir("/proc") if x.isdigit()]
    stream = lambda: socket.create_connection(("127.0.0.1", port), 2)
    unix = lambda: socket.socket(socket.AF_UNIX).connect(abstract)
    places = "/", "/etc", "/dev", "/usr", "/course", root, sys.prefix, os.path.dirname(os.__file__)
    status = Path("/proc/self/status").read_text().split("\\n")
    return {
        "environment": sorted(os.environ),
        "told to others": tries(Path("/proc/1/environ").read_text) == "done" and "MARK" in Path("/proc/1/environ").read_text(),
        "processes": len(pids),
        "ids": [os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()],
        "interfaces": [name for _, name in socket.if_nameindex()],
        "reached": [tries(stream), tries(unix), tries(Path(teacher).read_text)],
        "host": socket.gethostname(),
        "places": [os.path.exists(root + x) for x in ("/chapters", "/attngrade", "/.git")],
        "answers": [tries(__import__, "attncourse.grading.exercises"), tries(__import__, "attncourse.spec")],
        "writes": {p: tries(Path(p, "x").write_text, "x") for p in places},
        "privileges": [x for x in status if x.startswith(("NoNewPrivs", "CapEff", "CapPrm"))],
        "ended first": Path("/proc/self/oom_score_adj").read_text(),
        "open": [os.readlink(f"/proc/self/fd/{x}")[:7] for x in range(3)] + [tries(os.fstat, x) for x in range(5, 99)],
    }
"""
GIVEN = {"HOME", "PATH", "LANG", "PWD", "SHLVL", "_", "LC_CTYPE", "TORCHINDUCTOR_CACHE_DIR"}
SET = "OMP_", "MALLOC_", "MPL", "PYTHONHASHSEED", "TRITON_"


def test_what_a_submission_sees(host, tmp_path):
    secret = tmp_path / "grades.csv"
    secret.write_text("anna,3")
    abstract = f"\0attncourse-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(abstract)
        unix.listen()
        port = server.getsockname()[1]
        seen, why = host.tell(LOOK, str(ROOT), str(secret), port, abstract)
    assert seen, why
    assert {x for x in seen["environment"] if not x.startswith(SET)} <= GIVEN
    assert seen["privileges"] == [f"Cap{x}:\t{0:016}" for x in ("Prm", "Eff")] + ["NoNewPrivs:\t1"]
    assert seen["ended first"] == "1000\n", "where memory is short, not the judge"
    assert seen["open"] == ["/dev/nu"] * 3 + ["OSError"] * 94
    assert 0 not in seen["ids"]
    if host.walls:
        assert set(seen["ids"]) == {65534}
        assert seen["told to others"] is False
        assert seen["answers"] == ["ModuleNotFoundError"] * 2
        assert (seen["processes"], seen["host"]) == (1 + (not host.ordinary), "course")
        assert set(seen["interfaces"]) <= {"lo"}
        assert "done" not in seen["reached"]
        assert "done" not in seen["writes"].values()
        assert seen["places"] == [False] * 3


def test_what_protects_is_said(host):
    host.tell("def tell(): return 7")
    assert host.about["official"] == host.walls
    assert host.state("bubblewrap") == ("in force" if host.walls else "switched off")
    assert host.state("limits of the kernel") == "in force"
    assert len(host.about["protections"]) == 4


def test_a_file_of_one_student_is_not_there_for_the_next(host):
    source = """
import os
def tell(folders):
    found = [sorted(os.listdir(folder)) for folder in folders]
    for folder in folders:
        open(f"{folder}/left", "w").close()
    return found
"""
    if host.walls:
        folders = "/tmp", "/dev/shm"
        before, _ = host.tell(source, folders, fresh=True)
        assert host.tell(source, folders)[0] == [sorted([*x, "left"]) for x in before]
        assert host.tell(source, folders, fresh=True)[0] == before, "the next"


# How much it may use


def test_memory_is_limited(host):
    source = """
import torch
def tell():
    kept = []
    try:
        for _ in range(16):
            kept.append(torch.ones(2**25))  # 128 MiB
    except Exception as error:
        return len(kept), str(error)
"""
    (count, said), _ = host.tell(source)
    assert 1 <= count < 14
    assert "memory" in said


def test_memory_of_many_processes_is_limited_together(host):
    source = """
import os, time, torch
def tell():
    children = []
    for _ in range(6):
        source, sink = os.pipe()
        child = os.fork()
        if not child:
            x = torch.ones(2**28)  # 1 GiB
            os.write(sink, b"x")
            time.sleep(100)
            os._exit(0)
        os.close(sink)
        os.read(source, 1)  # it has them, or it is dead
        children.append(child)
    return sum(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children)
"""
    if host.state("a cgroup") != "in force":
        pytest.skip(host.state("a cgroup"))
    living, why = host.tell(source, seconds=180)
    assert living in range(1, 4) or why == "it ended", "6 GiB in one sandbox"
    assert host.tell("def tell(): return 7") == (7, None)


FORKS = """
import os, time
def tell(most):
    children = 0
    try:
        for _ in range(most):
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
            children += 1
    except OSError as error:
        return children, type(error).__name__
    return children, "no limit"
"""


def test_processes_are_limited_and_end_with_the_sandbox(host):
    counted = host.state("a cgroup") == "in force" or (host.ordinary and host.walls)
    (children, said), _ = host.tell(FORKS, 100 if counted else 3, fresh=True)
    if counted:
        assert (children <= LIMITS.processes + 8, said) == (True, "BlockingIOError")
    running = set(psutil.Process(host.about["worker"]).children(recursive=True))
    assert len(running) == children
    assert host.tell("def tell(): return 7", fresh=True) == (7, None)
    assert not host.walls or ended(running)


def test_files_are_limited(host):
    source = """
from pathlib import Path
def tell(folder):
    written = [0, 0]
    try:
        with Path(folder, "one").open("wb") as file:
            for _ in range(10):
                written[0] += file.write(bytes(2**20))
                file.flush()
    except OSError:
        Path(folder, "one").unlink()
    try:
        for k in range(20):
            written[1] += Path(folder, str(k)).write_bytes(bytes(2**19))
    except OSError:
        for path in Path(folder).glob("[0-9]*"):
            path.unlink()
    return written
"""
    if host.walls:
        for folder in ("/tmp", "/dev/shm"):
            written, why = host.tell(source, folder)
            assert written, why
            assert all(0 < x <= LIMITS.files for x in written), folder


def test_processor_time_is_limited():
    with Sandbox(Limits(cpu=3), bool(shutil.which("bwrap"))) as box:
        peer = Peer(box.pipe, "g", {}, lambda peer, what: what)
        box.pipe.deadline = time.monotonic() + 600
        with pytest.raises(Lost, match="it ended"):
            peer.ask("run", "while True: pass", "cell 1")


# A call whose memory is limited

NEEDS = """
import os, subprocess, torch
children = CHILDREN and [os.fork() or os.read(0, 1) or __import__("time").sleep(100)]
hoard = torch.ones(HOARD * 2**18)

def tell(mebibytes):
    x = torch.ones(mebibytes * 2**18)
    running = [p for p in os.listdir("/proc") if p.isdigit() and open(f"/proc/{p}/statm").read(1) != "0"]
    return [x.numel(), len(running)]
"""


def needs(children: int = 0, hoard: int = 0) -> str:
    """A cell that keeps so many mebibytes, and so many other processes."""
    return NEEDS.replace("CHILDREN", str(children)).replace("HOARD", str(hoard))


def test_the_memory_of_a_call_is_limited_and_then_no_more(host):
    told, _ = host.tell(needs(), 32, more=64 * MEBIBYTE)
    assert told[1][0] == 32 * 2**18
    told, why = host.tell(needs(), 128, more=64 * MEBIBYTE)
    assert "memory" in why, "twice as much"
    told, why = host.tell(needs(), 512)
    assert told[0] == 512 * 2**18, why


def test_what_a_notebook_holds_before_is_told(host):
    for hoard in (0, 200):
        (grown, _), _ = host.tell(needs(hoard=hoard), 1, more=64 * MEBIBYTE, fresh=not hoard)
        assert hoard - 1 < grown / MEBIBYTE < hoard + 60


def test_other_processes_are_no_memory_of_a_call(host):
    (_, (_, running)), _ = host.tell(needs(children=1), 1, more=64 * MEBIBYTE)
    assert not host.walls or running == 1 + (not host.ordinary), "the child was killed"
    source = """
import os, tempfile
def tell():
    said = []
    for action in os.fork, lambda: tempfile.TemporaryFile().write(bytes(10**6)):
        try:
            said.append(action() == 0 and os._exit(0))
        except OSError as error:
            said.append(type(error).__name__)
    return said
"""
    (_, said), _ = host.tell(source, more=64 * MEBIBYTE)
    assert said in (["BlockingIOError", x] for x in ("OSError", "FileNotFoundError"))


LIFT = """
import ctypes, resource, subprocess

def tell(program):
    said, infinite = [], resource.RLIM_INFINITY
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_NPROC):
        _, hard = resource.getrlimit(limit)
        for action in (
            lambda: resource.setrlimit(limit, (hard, hard)),
            lambda: resource.prlimit(0, limit, (hard, hard)),
            lambda: resource.prlimit(1, limit, (1, 1)),
        ):
            try:
                said.append(action())
            except (OSError, ValueError) as error:
                said.append(type(error).__name__)
    return said
"""


def test_a_limit_cannot_be_lifted_from_inside(host):
    (_, said), _ = host.tell(LIFT, "", more=64 * MEBIBYTE)
    assert said == ["ValueError", "PermissionError", "PermissionError"] * 3, "so setrlimit says it"
    told, why = host.tell(needs(), 1)
    assert told, why


def test_a_library_that_is_made_writable_is_no_memory(host):
    """It is no new address; the cgroup counts what is written."""
    source = """
import ctypes, numpy
from pathlib import Path

protect = ctypes.CDLL(None).mprotect
protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int

def tell():
    written = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, *_ = line.split()
        start, end = (int(x, 16) for x in addresses.split("-"))
        if permissions == "r-xp" and end - start > 2**24 and protect(start, end - start, 7) == 0:
            pages = (ctypes.c_ubyte * (end - start)).from_address(start)
            numpy.frombuffer(pages, dtype=numpy.uint8)[::4096] += 0  # written as it was
            written += end - start
    return written
"""
    if host.state("a cgroup") != "in force":
        pytest.skip(host.state("a cgroup"))
    told, why = host.tell(source, more=16 * MEBIBYTE)
    assert why == "it ended" or told[1] <= 48 * MEBIBYTE


# System calls

DENY = """
import ctypes, socket

libc = ctypes.CDLL(None, use_errno=True)

def made(*arguments):
    try:
        socket.socket(*arguments).close()
        return True
    except PermissionError:
        return False

def tell(numbers):
    libc.prctl(22, 0, 0, 0, 0)  # filters cannot be taken back
    families = [made(x) for x in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_VSOCK, 38)]
    errors = {ctypes.get_errno() for number in numbers if libc.syscall(number, 0, 0, 0, 0, 0) < 0}
    clone = libc.syscall(CLONE, 0x10000000 | 17, 0, 0, 0, 0), ctypes.get_errno()
    clone3 = libc.syscall(435, 0, 0), ctypes.get_errno()
    return [families, len(errors), *errors, *clone, *clone3]
"""


def test_system_calls_are_filtered(host):
    resolve = pyseccomp.resolve_syscall
    numbers = [resolve(pyseccomp.Arch.NATIVE, name) for name in DENIED.split()]
    source = DENY.replace("CLONE", str(resolve(pyseccomp.Arch.NATIVE, "clone")))
    assert host.state("a filter") == "in force"
    (families, *errors), _ = host.tell(source, [x for x in numbers if x >= 0])
    assert families == [True] * 3 + [False] * 2, "multiprocessing and asyncio need some"
    assert errors == [1, errno.EPERM, -1, errno.EPERM, -1, errno.ENOSYS]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its machine code")
def test_calls_of_32_bits_are_no_way_around(host):
    """A number means something else there, so none is let through."""
    source = """
import ctypes, mmap

def tell():
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex("b814000000 cd80 c3"))  # getpid: mov eax, 20; int 0x80; ret
    start = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(start)()
"""
    said, why = host.tell(source)
    assert said == -errno.EPERM or why == "it ended", "or the kernel knows none"


def test_a_way_to_the_first_process_is_no_way_to_the_next_student(host):
    source = """
import os, resource
def tell():
    said = []
    for pid in (1, os.getppid(), 0):
        try:
            said.append(resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, 1)))
        except OSError as error:
            said.append(type(error).__name__)
    return said
"""
    said, _ = host.tell(source)
    assert set(said) <= {"PermissionError", "ProcessLookupError"}
    assert host.tell("def tell(): return 7", fresh=True) == (7, None)


# When it fails, and what is left


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a bubblewrap in front that says something and starts nothing."""

    def put(says: str, status: int = 1) -> None:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return put


@pytest.mark.parametrize("says", ["bwrap: Cannot allocate memory", "Killed", "Permission denied"])
def test_a_sandbox_that_does_not_start_is_no_open_machine(fake, says):
    fake(says)
    with pytest.raises(NotGraded, match=says), Sandbox(Limits()):
        pass


def test_what_may_never_run_here_is_left_out_and_told(fake, monkeypatch):
    fake("bwrap: setting up uid map: Permission denied")
    monkeypatch.setattr(sys, "executable", "/bin/false")  # instead of a worker without walls
    box = Sandbox(Limits())
    with pytest.raises(NotGraded), box:
        pass
    assert not box.official
    assert "uid map: Permission denied" in box.why_not


def test_a_worker_that_ends_before_it_is_ready_is_not_the_fault_of_a_student():
    with pytest.raises(NotGraded, match="."), Sandbox(Limits(memory=MEBIBYTE)):
        pass


def test_nothing_runs_on_when_the_owner_is_killed(host):
    assert host.tell("def tell(): return 7") == (7, None)
    worker = psutil.Process(host.about["worker"])
    fork = "import os, time\nos.fork() or time.sleep(1000)" if host.walls else ""
    host.send(f"{fork}\nwhile True: pass")
    until = time.monotonic() + 60
    while host.walls and not worker.children() and time.monotonic() < until:
        time.sleep(0.05)
    running = set(psutil.Process(host.about["pid"]).children(recursive=True))
    assert len(running) == (3 + (not host.ordinary) if host.walls else 1)
    os.kill(host.about["pid"], signal.SIGKILL)
    host.process.wait()
    assert ended(running)
    for folder in map(Path, host.about["cgroups"]):
        assert folder.exists()
        sweep(folder.parent)
        assert not folder.exists()


def test_what_must_stay_private_may_not_lie_where_submissions_see_it(tmp_path, monkeypatch):
    """The folder of an environment may hold them, as only what Python needs of it is shown."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "lib").mkdir()
    refuse_private(tmp_path / "submissions", tmp_path / "results", tmp_path / "secret")
    (tmp_path / "link").symlink_to(tmp_path / "lib")
    for place in (tmp_path / "lib", tmp_path / "link" / "results", Path("/usr/share/class")):
        with pytest.raises(ValueError, match="Every submission could read"):
            refuse_private(tmp_path / "submissions", place)


def test_a_course_that_was_installed_is_hidden(tmp_path, monkeypatch):
    """Where pip has put the packages, their folders are covered by empty ones."""
    if not shutil.which("bwrap"):
        walls_stand("not installed")
    for package in ("attncourse", "attngrade"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "spec.py").write_text("")
    monkeypatch.setattr("site.getsitepackages", lambda prefixes: [str(tmp_path)])
    seen = bwrap.visible()
    monkeypatch.setattr("attngrade.sandbox.bwrap.visible", lambda: [*seen, tmp_path])
    source, sink = os.pipe()
    walls = bwrap.command(MEBIBYTE, os.geteuid() == 0, sink)
    run = subprocess.run(
        [*walls, "find", str(tmp_path)], capture_output=True, text=True, pass_fds=[sink]
    )
    os.close(source)
    os.close(sink)
    packages = [f"{tmp_path}/{x}" for x in ("attncourse", "attngrade")]
    assert sorted(run.stdout.split()) == [str(tmp_path), *packages]
