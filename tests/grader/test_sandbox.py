"""The walls around a submission: what it sees, how much it may use, and that nothing of it stays."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from support.hostile_env import descendants, ended
from support.sandbox_helpers import LIMITS, inside, walled

from attngrade.far.sandbox import ENVIRONMENT

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module", params=["walls", "no walls"])
def box(request):
    with walled(request.param) as box:
        yield box


LOOK = """
import os, socket, sys
from pathlib import Path

def tries(action, *args):
    try:
        action(*args)
        return "done"
    except Exception as error:
        return type(error).__name__

def environment(pid):
    return Path(f"/proc/{pid}/environ").read_bytes().decode()

def tell(root, teacher, port, abstract):
    pids = [int(x) for x in os.listdir("/proc") if x.isdigit()]
    stream = lambda: socket.create_connection(("127.0.0.1", port), 2)
    unix = lambda: socket.socket(socket.AF_UNIX).connect(abstract)
    return {
        "environment": dict(os.environ),
        "readable": [e for p in pids for e in [tries(environment, p)] if p not in (os.getpid(),)],
        "processes": len(pids),
        "ids": [os.getuid(), os.geteuid(), os.getgid(), len(os.getgroups())],
        "interfaces": [name for _, name in socket.if_nameindex()],
        "stream": tries(stream),
        "unix": tries(unix),
        "host": socket.gethostname(),
        "course": sorted(os.listdir(root)) if os.path.isdir(root) else [],
        "teacher": tries(Path(teacher).read_text),
        "answers": tries(__import__, "attncourse.grading.exercises"),
        "spec": tries(__import__, "attncourse.spec"),
        "writes": {p: tries(Path(p, "x").write_text, "x") for p in ("/usr", "/", "/etc", root, sys.prefix, os.path.dirname(os.__file__))},
        "killed": tries(os.kill, os.getppid(), 9),
        "traced": tries(open, f"/proc/{os.getppid()}/mem", "rb"),
        "privileges": "NoNewPrivs:\\t1" in Path("/proc/self/status").read_text(),
        "ended first": Path("/proc/self/oom_score_adj").read_text(),
        "open": sorted(int(x) for x in os.listdir("/proc/self/fd")),
    }
"""


def test_what_a_submission_can_see(box, tmp_path):
    secret = tmp_path / "grades.csv"
    secret.write_text("anna,3")
    abstract = f"\0attncourse-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(abstract)
        unix.listen()
        port = server.getsockname()[1]
        seen = inside(box, LOOK, str(ROOT), str(secret), port, abstract)
    assert isinstance(seen, dict), seen
    allowed = {*ENVIRONMENT, "PWD", "SHLVL", "_", "LC_CTYPE", "TORCHINDUCTOR_CACHE_DIR"}
    assert set(seen["environment"]) <= allowed
    assert set(seen["open"]) <= {0, 1, 2, 3, 4}
    assert seen["privileges"], "a setuid program could give it some"
    assert seen["ended first"] == "1000\n", "where memory is short, not the grader"
    if IS_ROOT:
        assert 0 not in seen["ids"][:3]
        assert seen["ids"][3] == 0
        assert seen["killed"] == seen["traced"] == "PermissionError"
        assert "done" not in seen["writes"].values()
        assert "done" not in seen["readable"]
    if box.wrapped:
        assert seen["answers"] == seen["spec"] == "ModuleNotFoundError"
        assert seen["processes"] <= 3
        assert set(seen["interfaces"]) <= {"lo"}
        assert "done" not in (seen["stream"], seen["unix"], seen["teacher"])
        assert "done" not in seen["writes"].values()
        assert seen["host"] == "course"
        assert set(seen["course"]) <= {".venv"}


def test_what_protects_is_said(box):
    said = dict(box.protections)
    assert len(said) == 5
    assert box.official == box.wrapped
    walls = next(state for name, state in said.items() if "bubblewrap" in name)
    assert walls == ("in force" if box.wrapped else "switched off")
    own = next(state for name, state in said.items() if "user id" in name)
    assert (own == "in force") == IS_ROOT


@pytest.mark.skipif(not IS_ROOT, reason="other user ids need root")
def test_every_submission_is_a_user_of_its_own(box):
    source = "import os\ndef tell(): return os.getuid()"
    ids = [inside(box, source) for _ in range(3)]
    assert len(set(ids)) == 3
    assert min(ids) > 2**24


def test_memory_is_limited(box):
    source = """
import torch
kept = []
def tell():
    try:
        for _ in range(16):
            kept.append(torch.ones(2**25))  # 128 MiB
    except Exception as error:
        return len(kept), str(error)
"""
    count, said = inside(box, source)
    assert 1 <= count < 8
    assert "memory" in said


def test_memory_of_many_processes_is_limited_together(box):
    if box.cgroup.state != "in force":
        pytest.skip(f"no cgroup: {box.cgroup.state}")
    source = """
import os, time, torch
def tell():
    children = []
    for _ in range(6):
        source, sink = os.pipe()
        child = os.fork()
        if not child:
            x = torch.ones(2**27)  # 512 MiB
            os.write(sink, b"x")
            time.sleep(100)
            os._exit(0)
        os.close(sink)
        os.read(source, 1)  # it has them, or it is dead
        children.append(child)
    return sum(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children)
"""
    living = inside(box, source, seconds=180)
    assert living in range(1, 6) or "ended the worker" in str(living), "3 GiB in one submission"
    assert inside(box, "def tell(): return 7") == 7


FORKS = """
import os, time
def tell():
    children = 0
    try:
        for _ in range(100):
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
            children += 1
    except OSError as error:
        return children, os.getuid(), type(error).__name__
    return children, os.getuid(), "no limit"
"""


@pytest.mark.skipif(
    not IS_ROOT, reason="the kernel counts processes by user, and tests are one too"
)
def test_processes_are_limited_and_end_with_the_submission(box):
    children, uid, said = inside(box, FORKS)
    assert (children < LIMITS.processes, said) == (True, "BlockingIOError")
    assert not of_user(uid)


def of_user(uid: int) -> list[str]:
    """The processes of a user."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found += [entry.name] if entry.name.isdigit() and entry.stat().st_uid == uid else []
        except OSError:
            continue
    return found


def test_files_are_limited_and_gone_afterwards(box):
    source = """
import os, tempfile
from pathlib import Path
def tell():
    home = Path(os.environ["HOME"])
    before = sorted(os.listdir(home))
    (home / "folder").mkdir()
    (home / "folder" / "link").symlink_to("/usr")
    said = "no limit"
    try:
        with (home / "folder" / "file").open("wb") as file:
            for _ in range(10):
                file.write(bytes(2**20))
                file.flush()
    except OSError as error:
        said = type(error).__name__
    return before, said, (home / "folder" / "file").stat().st_size
"""
    for _ in range(2):
        before, said, size = inside(box, source)
        assert set(before) <= {
            Path(x).parts[2] for x in (sys.prefix, sys.base_prefix) if x.startswith("/tmp/")
        }
        assert said == "OSError"
        assert size <= LIMITS.files


def test_many_files_are_limited_together(box):
    source = """
from pathlib import Path
def tell(folder):
    written = 0
    try:
        for k in range(20):
            written += Path(folder, str(k)).write_bytes(bytes(2**19))
    except OSError:
        pass
    return written
"""
    if box.wrapped:
        for folder in ("/tmp", "/dev/shm"):
            for _ in range(2):
                assert 0 < inside(box, source, folder) <= LIMITS.files


def test_processor_time_is_limited(box):
    start = time.monotonic()
    reason, _ = inside(box, "def tell():\n    while True: pass", seconds=60)
    assert "ended the worker" in str(reason)
    assert time.monotonic() - start < 45


def test_output_goes_nowhere_and_fills_nothing(box):
    before = sum(f.stat().st_size for f in box.folder.rglob("*") if f.is_file())
    source = """
import os, sys
def tell():
    for _ in range(200):
        print("x" * 10**6)
        os.write(2, b"x" * 10**5)
    return sys.stdout is not None
"""
    assert inside(box, source) is True
    after = sum(f.stat().st_size for f in box.folder.rglob("*") if f.is_file())
    assert after - before < 10**5


@pytest.mark.parametrize("seconds", [0, 0.1])
def test_a_worker_ends_with_the_zygote(box, seconds):
    pipe = box.open()
    time.sleep(seconds)  # without it, the worker is not yet what it will be
    lines = {p: Path(f"/proc/{p}/cmdline").read_bytes() for p in descendants(box.process.pid)}
    zygote, *workers = sorted(pid for pid, line in lines.items() if b"import zygote" in line)
    assert workers
    with pipe.sock as sock:
        os.kill(zygote, signal.SIGKILL)
        sock.settimeout(10)
        assert sock.recv(1) == b"", "nobody is there any more"
    assert ended(set(workers))


def test_the_next_submission_finds_a_sandbox_even_if_the_zygote_is_gone(box):
    for pid in descendants(box.process.pid):
        if b"zygote" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    assert inside(box, "def tell(): return 7") == 7


def test_nothing_is_left_when_it_is_closed(box):
    folders, before = [box.folder, *box.cgroup.folders], descendants()
    running = descendants(box.process.pid)
    assert all(folder.exists() for folder in folders)
    assert inside(box, "import os, time\nos.fork() or time.sleep(1000)\ndef tell(): return 7") == 7
    box.close()
    assert ended(running)
    assert descendants() <= before - running
    assert not any(folder.exists() for folder in folders)
