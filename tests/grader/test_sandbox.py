"""The sandbox of a student: what is seen from it, how much it may use, and that nothing of it stays.

Tried as root and as an ordinary user, with cgroups and without, and once without bubblewrap. What else a submission
could do to the machine is in ``tests/grader/attacks``.
"""

import errno
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pyseccomp
import pytest
from support.grader.sandbox import MEBIBYTE, lent, run_as, walls_stand
from support.grader.sandbox_host import LIMITS, Host

from attngrade import NotGraded
from attngrade.sandbox import bwrap
from attngrade.sandbox.limits import Limits, sweep
from attngrade.sandbox.sandbox import Sandbox
from attngrade.sandbox.seccomp import DENIED

SETTINGS = {
    "root-cgroup": (False, True, "walls"),
    "ordinary-cgroup": (True, True, "walls"),
    "ordinary": (True, False, "walls"),
    "bare": (True, False, "no walls"),
}


@pytest.fixture(scope="module", params=SETTINGS)
def host(request):
    ordinary, cgroup, walls = SETTINGS[request.param]
    with lent() as folders:
        host = Host(run_as(ordinary, cgroup, folders * (ordinary and cgroup)), walls)
        yield host
        host.close()


def ended(processes: set[psutil.Process]) -> bool:
    """Whether these processes end in time."""
    return not psutil.wait_procs(processes, 60)[1]


# What is seen

LOOK = """
import os, resource, socket
from pathlib import Path

def tries(action, *args):
    try:
        action(*args)
        return "done"
    except Exception as error:
        return type(error).__name__

def tell():
    status = Path("/proc/self/status").read_text().split("\\n")
    return {
        "environment": sorted(os.environ),
        "processes": sum(x.isdigit() for x in os.listdir("/proc")),
        "ids": [os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()],
        "host": socket.gethostname(),
        "answers": [tries(__import__, "attncourse.grading.exercises"), tries(__import__, "attncourse.spec")],
        "privileges": [x for x in status if x.startswith(("NoNewPrivs", "CapEff", "CapPrm"))],
        "ended first": Path("/proc/self/oom_score_adj").read_text(),
        "open": [os.readlink(f"/proc/self/fd/{x}")[:7] for x in range(3)] + [tries(os.fstat, x) for x in range(5, 99)],
        "limits": {x[7:]: resource.getrlimit(getattr(resource, x))[1] for x in dir(resource) if x[:7] == "RLIMIT_"},
    }
"""
GIVEN = {"HOME", "PATH", "LANG", "PWD", "SHLVL", "_", "LC_CTYPE", "TORCHINDUCTOR_CACHE_DIR"}
SET = "OMP_", "MALLOC_", "MPL", "PYTHONHASHSEED", "TRITON_"


def test_what_a_submission_sees(host):
    seen, why = host.tell(LOOK)
    assert seen, why
    assert {x for x in seen["environment"] if not x.startswith(SET)} <= GIVEN
    assert seen["privileges"] == [f"Cap{x}:\t{0:016}" for x in ("Prm", "Eff")] + ["NoNewPrivs:\t1"]
    assert seen["ended first"] == "1000\n", "where memory is short, not the judge"
    assert seen["open"] == ["/dev/nu"] * 3 + ["OSError"] * 94
    assert 0 not in seen["ids"]
    assert seen["limits"].items() >= LIMITS.of_a_process(host.walls and host.ordinary).items()
    if host.walls:
        assert set(seen["ids"]) == {65534}
        assert seen["answers"] == ["ModuleNotFoundError"] * 2
        assert (seen["processes"], seen["host"]) == (1 + (not host.ordinary), "course")
    assert host.about["official"] == host.walls
    assert host.state("bubblewrap") == ("in force" if host.walls else "switched off")
    assert host.state("limits of the kernel") == "in force"
    assert len(host.about["protections"]) == 4


LEAVES = """
import os, time
def tell(most, folders):
    children, written, found = 0, [], [sorted(os.listdir(folder)) for folder in folders]
    for folder in folders:
        written.append(0)
        try:
            for k in range(20):
                with open(f"{folder}/{k}", "wb") as file:
                    written[-1] += file.write(bytes(2**19))
        except OSError:
            pass
    try:
        for _ in range(most):
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
            children += 1
    except OSError as error:
        return found, written, children
    return found, written, children
"""


def test_what_a_student_leaves_is_bounded_and_not_there_for_the_next(host):
    if not host.walls:
        return
    most = LIMITS.processes + 8
    counted = host.state("a cgroup") == "in force" or host.ordinary
    folders = "/tmp", "/dev/shm"
    (before, written, children), _ = host.tell(LEAVES, 100 if counted else 3, folders)
    assert all(0 < x <= LIMITS.files for x in written), written
    assert 0 < children <= most
    running = set(psutil.Process(host.about["worker"]).children(recursive=True))
    assert len(running) == children
    (found, *_), _ = host.tell(LEAVES, 0, folders, fresh=True)
    assert found == before
    assert ended(running)


# A call whose memory is limited

NEEDS = """
import torch
def tell(mebibytes):
    return torch.ones(mebibytes * 2**18).numel()
"""
LIFT = """
import os, resource, tempfile
from functools import partial

def tell():
    actions = [os.fork, lambda: tempfile.TemporaryFile().write(bytes(10**6))]
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_NPROC):
        _, hard = resource.getrlimit(limit)
        actions += [
            partial(resource.setrlimit, limit, (hard, hard)),
            partial(resource.prlimit, 0, limit, (hard, hard)),
            partial(resource.prlimit, 1, limit, (1, 1)),
        ]
    said = []
    for action in actions:
        try:
            said.append(action() == 0 and os._exit(0))
        except (OSError, ValueError) as error:
            said.append(type(error).__name__)
    return said
"""


def test_a_call_is_limited_and_cannot_lift_it_and_then_it_is_not(host):
    (_, made), _ = host.tell(NEEDS, 32, more=64 * MEBIBYTE)
    assert made == 32 * 2**18
    _, why = host.tell(NEEDS, 128, more=64 * MEBIBYTE)
    assert "memory" in why, "twice as much"
    (_, said), _ = host.tell(LIFT, more=64 * MEBIBYTE)
    assert (said[0], said[1]) in (("BlockingIOError", x) for x in ("OSError", "FileNotFoundError"))
    assert said[2:] == ["ValueError", "PermissionError", "PermissionError"] * 3, "setrlimit says so"
    assert host.tell(NEEDS, 512) == (512 * 2**18, None)


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

def tell(clone, *numbers):
    libc.prctl(22, 0, 0, 0, 0)  # filters cannot be taken back
    families = [made(x) for x in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_VSOCK, 38)]
    errors = {ctypes.get_errno() for number in numbers if libc.syscall(number, 0, 0, 0, 0, 0) < 0}
    made_user = libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0), ctypes.get_errno()
    clone3 = libc.syscall(435, 0, 0), ctypes.get_errno()
    return [families, len(errors), *errors, *made_user, *clone3]
"""


def test_system_calls_are_filtered(host):
    resolved = partial(pyseccomp.resolve_syscall, pyseccomp.Arch.NATIVE)
    numbers = [x for x in map(resolved, ("clone", *DENIED.split())) if x >= 0]
    assert host.state("a filter") == "in force"
    (families, *errors), _ = host.tell(DENY, *numbers)
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


# When it fails, and what is left


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a bubblewrap in front that says something and starts nothing."""

    def put(says: str) -> None:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return put


def test_a_sandbox_that_does_not_start_is_no_open_machine(fake, monkeypatch):
    with pytest.raises(NotGraded, match="."), Sandbox(Limits(MEBIBYTE, cpu=60)):
        pass  # its worker ends before it is ready
    for says in ("bwrap: Cannot allocate memory", "Killed", "Permission denied"):
        fake(says)
        with pytest.raises(NotGraded, match=says), Sandbox(Limits(2**32, cpu=60)):
            pass
    fake("bwrap: setting up uid map: Permission denied")
    monkeypatch.setattr(sys, "executable", "/bin/false")  # instead of a worker without walls
    box = Sandbox(Limits(2**32, cpu=60))
    with pytest.raises(NotGraded), box:
        pass
    assert "uid map: Permission denied" in box.why_not, "what may never run here is told"
    assert not box.official


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
        sweep(folder.parent)
        assert not folder.exists()


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
    find = [*walls, "find", tmp_path]
    run = subprocess.run(find, capture_output=True, text=True, pass_fds=[sink])
    os.close(source)
    os.close(sink)
    packages = [f"{tmp_path}/{x}" for x in ("attncourse", "attngrade")]
    assert sorted(run.stdout.split()) == [str(tmp_path), *packages]
