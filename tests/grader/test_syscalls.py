"""What the kernel keeps after a process, and calls that pass every wall: nothing is left of a submission."""

import ctypes
import errno
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from support.sandbox_helpers import inside, walled

from attngrade.far.syscalls import MACHINES

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module", params=["walls", "no walls"])
def box(request):
    with walled(request.param) as box:
        yield box


# What System V and POSIX keep after the process that made it; anybody may read it.
KEPT = """
import ctypes, os
from pathlib import Path

def tell(make):
    if make:
        libc = ctypes.CDLL(None)
        assert min(libc.shmget(0, 2**20, 0o1666), libc.msgget(0, 0o1666), libc.semget(0, 1, 0o1666)) >= 0
        queue = libc.mq_open(b"/left", os.O_CREAT | os.O_RDWR, 0o666, None)
        assert queue < 0, "it needs a limit of its own"
    kinds = "shm", "msg", "sem"
    return [len(Path("/proc/sysvipc", kind).read_text().splitlines()) - 1 for kind in kinds]
"""


def test_memory_and_messages_for_the_next_submission_are_removed(box):
    libc = ctypes.CDLL(None)
    ours = libc.shmget(0, 1, 0o1600)
    try:
        before = inside(box, KEPT, False)
        assert box.wrapped <= (before == [0, 0, 0]), "what belongs to others is not seen"
        assert inside(box, KEPT, True) == [n + 1 for n in before]
        if box.wrapped or IS_ROOT:
            assert inside(box, KEPT, False) == before
    finally:
        assert libc.shmctl(ours, 0, None) == 0, "what belongs to others stays"


KEYS = """
import ctypes

def tell(make):
    libc, name = ctypes.CDLL(None), (b"user", b"attncourse")
    if make and libc.syscall(248, *name, b"told", 4, -3) >= 0:
        return "it was added to the keyring of the session"
    return libc.syscall(250, 10, -3, *name, 0) >= 0  # keyctl, to search it
"""


def test_system_calls_are_filtered(box):
    source = """
import ctypes, socket

def made(*arguments):
    try:
        socket.socket(*arguments).close()
        return True
    except PermissionError:
        return False

def tell(denied):
    libc = ctypes.CDLL(None, use_errno=True)
    families = socket.AF_UNIX, socket.AF_INET, socket.AF_INET6
    assert all(made(family) for family in families), "multiprocessing and asyncio need them"
    libc.prctl(22, 0, 0, 0, 0)  # filters cannot be taken back
    errors = [ctypes.get_errno() for number in denied if libc.syscall(number, 0, 0, 0, 0, 0) < 0]
    return [made(socket.AF_VSOCK), made(38), errors]
"""
    state = dict(box.protections)["a filter of system calls: no keys, no sockets of other kinds"]
    assert state == "in force" or platform.machine() not in MACHINES
    if box.filtered:
        denied = [
            *MACHINES[platform.machine()][2].values(),
            2**30 + 39,
        ]  # getpid by its other number
        assert inside(box, source, denied) == [False, False, [errno.EPERM] * len(denied)]


X86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64")


@X86_64
def test_calls_of_32_bits_are_no_way_around(box):
    """A number means something else there, so none is let through."""
    source = """
import ctypes, mmap

def tell():
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex("b814000000 cd80 c3"))  # getpid: mov eax, 20; int 0x80; ret
    start = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(start)()
"""
    said = inside(box, source)
    assert said == -errno.EPERM or "ended the worker" in str(said), "or the kernel knows none"


@X86_64
def test_keys_of_the_teacher_and_of_others_are_out_of_reach():
    code = f"""
import ctypes, sys
sys.path.append("tests")
from support.sandbox_helpers import inside
from attngrade.far.sandbox import Sandbox

libc, source = ctypes.CDLL(None), {KEYS!r}
libc.syscall(250, 1, None)  # a keyring as a login makes it
libc.syscall(248, b"user", b"attncourse", b"secret", 6, -3)
with Sandbox() as box:
    print([inside(box, source, make) for make in (False, True, False)])
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout == "[False, False, False]\n", run.stderr
