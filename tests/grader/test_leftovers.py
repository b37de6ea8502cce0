"""Who held a sandbox may be killed, and may be an ordinary user: nothing runs on, and it works."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from support.hostile_env import descendants, ended
from support.sandbox_helpers import MEBIBYTE, walls_stand

from attngrade.far.sandbox import sweep
from attngrade.far.walls import readable, walls
from attngrade.far.zygote import empty

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0

HOLD = '''
import json, os, sys, threading, time
from attngrade import Cell
from attngrade.session import Session
from attngrade.far.sandbox import Sandbox

sys.path.append("tests")
from support.sandbox_helpers import Told, exercise

box = Sandbox(bubblewrap=sys.argv[1] == "walls")
said = {"folder": str(box.folder), "walls": box.protections[0][1], "state": box.protections[3][1], "cgroups": [str(x) for x in box.cgroup.folders]}
said["uid"] = os.getuid()
source = """
import os, time
from pathlib import Path

os.fork() or time.sleep(1000)

def tell():
    try:
        return bool(os.listdir(f"/proc/{os.getppid()}/fd"))  # those of the zygote
    except PermissionError:
        return 7
"""
with Session(box, [Cell(1, source)], 60) as session:
    judge = Told(())
    session.judge(exercise(judge), 0)
    said["told"] = judge.told
    if sys.argv[2] == "hold":
        print(json.dumps(said), flush=True)
        time.sleep(1000)
box.close()
print(json.dumps(said), flush=True)
'''


def hold(walls: str, how: str, *prefix: str) -> subprocess.Popen:
    """A process that holds a sandbox in which a worker and its child run."""
    environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*prefix, sys.executable, "-c", HOLD, walls, how]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("walls", ["walls", "no walls"])
def test_nothing_runs_on_when_the_owner_is_killed(walls):
    others = descendants()
    with hold(walls, "hold") as owner:
        said = json.loads(owner.stdout.readline())
        running = descendants() - others
        owner.kill()
        owner.wait()
    assert len(running) >= 4, "the owner, the zygote, the worker and its child"
    assert ended(running)
    # What stays of an owner that was killed: a folder with our own code, and empty cgroups. The next
    # grader sweeps them away, and other tests start graders.
    shutil.rmtree(said["folder"], ignore_errors=True)
    for folder in said["cgroups"]:
        with suppress(FileNotFoundError):
            Path(folder).rmdir()
    if walls == "walls":
        walls_stand(said["walls"])


# As somebody who is not root


def as_nobody() -> list[str]:
    """The start of a command that runs as nobody, who may read Python and the course."""
    needed = {Path(x) for x in (sys.base_prefix, sys.prefix, ROOT)}
    home = Path.home()  # closed to others, so what is needed of it is shown
    command = ["bwrap", "--dev-bind", "/", "/", "--perms", "0755", "--tmpfs", str(home)]
    for path in sorted(x for x in needed if x.is_relative_to(home)):
        for parent in reversed(path.relative_to(home).parents[:-1]):
            command += ["--perms", "0755", "--dir", str(home / parent)]
        command += ["--ro-bind", str(path), str(path)]
    ids = "--reuid=65534", "--regid=65534", "--clear-groups"
    return [*command, "--", "setpriv", *ids]


@pytest.mark.skipif(not IS_ROOT, reason="it is not root anyway")
@pytest.mark.parametrize("walls", ["walls", "no walls"])
def test_it_works_for_an_ordinary_user(walls):
    if not shutil.which("bwrap"):
        walls_stand("not installed")
    others = descendants()
    with hold(walls, "close", *as_nobody()) as owner:
        said = json.loads(owner.stdout.readline() or "{}")
    assert owner.returncode == 0
    assert (said["uid"], said["told"]) == (65534, 7)
    assert said["walls"] == ("in force" if walls == "walls" else "switched off")
    assert descendants() <= others
    assert not Path(said["folder"]).exists()


def test_only_what_dead_graders_left_is_swept_away(tmp_path, monkeypatch):
    """Two graders may run at once."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(["true"]) as dead:
        pass
    alive = {f"attncourse-{os.getpid()}-a", f"attncourse-{os.getppid()}-b", "attncourse-not-ours"}
    for name in (*alive, f"attncourse-{dead.pid}-c"):
        (tmp_path / name / "inside").mkdir(parents=True)
    sweep()
    assert {path.name for path in tmp_path.iterdir()} == alive


def test_folders_are_emptied_around_what_is_mounted_there(tmp_path):
    """Python itself may live below /tmp."""
    outside = tmp_path / "outside"
    scratch = tmp_path / "scratch"
    for folder in ("python/lib/torch", "python/cache", "deep/er"):
        (scratch / folder).mkdir(parents=True)
        (scratch / folder / "file").write_text("x")
    outside.mkdir()
    (outside / "file").write_text("x")
    (scratch / "link").symlink_to(outside)
    empty(str(scratch), {"/", str(scratch), str(scratch / "python/lib")})
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    kept = {"python", "python/lib", "python/lib/torch", "python/lib/torch/file"}
    assert left == {"outside", "outside/file", "scratch"} | {f"scratch/{x}" for x in kept}


def test_a_course_that_was_installed_is_hidden_too(tmp_path, monkeypatch):
    """Where pip has put the packages, their folders are covered by empty ones."""
    if not shutil.which("bwrap"):
        walls_stand("not installed")
    for package in ("attncourse", "attngrade"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "spec.py").write_text("")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setattr("attngrade.far.walls.readable", lambda: [*system, tmp_path])
    system = readable()
    listing = [
        sys.executable,
        "-c",
        f"import os; print([os.listdir({str(tmp_path)!r} + x) for x in ('/attncourse', '/attngrade')])",
    ]
    command = [*walls(tmp_path, MEBIBYTE, IS_ROOT), *listing]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "[[], []]\n"
