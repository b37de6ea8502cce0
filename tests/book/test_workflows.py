"""What GitHub runs: the parts that the Makefile has, with the least rights, and no site before it is proven."""

import re
import subprocess

import pytest
import yaml
from support.book.notebooks import ROOT

WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}
pytestmark = pytest.mark.quick

PARTS = {"mechanism", "exercises", "grader", "book"}


def read(name: str) -> dict:
    """A workflow; YAML 1.1 takes the key `on` for a truth value."""
    found = yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))
    return found | {"on": found.pop(True)}


def commands(name: str) -> list[str]:
    steps = [step for job in read(name)["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_job_has_a_limit_and_no_more_rights_than_it_needs(name):
    workflow = read(name)
    assert workflow["name"] == name
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert all("uses" in step or "run" in step for step in job["steps"])


def test_ci_proves_every_part_and_the_nightly_run_all_at_once():
    matrix = read("ci")["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["part"]) == PARTS
    assert matrix["python"] == ["3.11"], "the oldest that pyproject.toml allows"
    beside = {(x["part"], x["python"]) for x in matrix["include"]}
    assert beside == {("mechanism", "3.13"), ("exercises", "3.13"), ("lowest", "3.11")}
    assert commands("ci") == [".ci/run ${{ matrix.part }}"]
    assert commands("nightly") == [".ci/run"]
    assert "schedule" in read("nightly")["on"]


def test_the_parts_are_targets_of_the_makefile():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    named = dict(re.findall(r'^ +(\w+)\) +target="([^"]+)"', script, re.M))
    assert set(named) == PARTS | {"all", "lowest"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    assert set(named.values()) <= targets
    assert 'make "$target"' in script
    tested = [re.search(rf"^test-{part}:.*\n\t.*tests/{part}\b", makefile, re.M) for part in PARTS]
    assert all(tested), "and each runs its own folder"
    folders = {x.parent.name for x in (ROOT / "tests").glob("*/test_*.py")}
    assert folders == PARTS | {"peers"}, "no folder falls between the parts"
    assert re.search(r"^test-mechanism:.*\n\t.* tests/peers$", makefile, re.M)


def test_a_part_that_is_none_is_told():
    done = subprocess.run([ROOT / ".ci" / "run", "books"], capture_output=True, text=True)
    assert done.returncode == 2
    expected = "expected mechanism, exercises, grader, book, lowest, or nothing for the first four"
    assert done.stderr == f"{expected}; got books\n"


def test_publish_waits_for_a_green_ci_of_a_push_to_main():
    publish = read("publish")
    green = {"workflows": ["ci"], "types": ["completed"], "branches": ["main"]}
    assert publish["on"] == {"workflow_run": green}
    jobs, condition = publish["jobs"], publish["jobs"]["build"]["if"]
    assert "workflow_run.conclusion == 'success'" in condition
    assert "workflow_run.event == 'push'" in condition, "a fork has a branch called main as well"
    assert "if" not in jobs["tag"], "a job with a condition of its own might not wait"
    assert "if" not in jobs["deploy"]
    assert (jobs["tag"]["needs"], jobs["deploy"]["needs"]) == ("build", "tag")
    checkouts = [step for job in jobs.values() for step in job["steps"] if "checkout" in str(step)]
    assert checkouts
    for step in checkouts:
        assert step["with"]["ref"] == "${{ github.event.workflow_run.head_sha }}", "what was proven"
    rights = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    pages = {"pages": "write", "id-token": "write"}
    assert rights == {"tag": {"contents": "write"}, "deploy": pages}


@pytest.fixture
def clone(tmp_path):
    """A repository of one commit that holds a version and the script, and where it was cloned from."""
    here = tmp_path / "here"
    (here / ".ci").mkdir(parents=True)
    (here / "attncourse").mkdir()
    (here / ".ci" / "tag").write_bytes((ROOT / ".ci" / "tag").read_bytes())
    (here / "attncourse" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    git(tmp_path, "init", "--quiet", "--bare", "origin")
    git(here, "init", "--quiet")
    git(here, "remote", "add", "origin", "../origin")
    commit(here)
    return here


def git(folder, *command) -> str:
    command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *command]
    options = {"capture_output": True, "text": True, "check": True}
    return subprocess.run(command, cwd=folder, **options).stdout


def commit(clone) -> str:
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "one more")
    return git(clone, "rev-parse", "HEAD").strip()


def tag(clone):
    return subprocess.run(["bash", clone / ".ci" / "tag"], capture_output=True, text=True)


def tags(clone) -> dict[str, str]:
    lines = git(clone, "ls-remote", "--tags", "origin").splitlines()
    return {name: digest for digest, name in (line.split("\t") for line in lines)}


def test_a_version_gets_its_tag_once(clone):
    first = commit(clone)
    assert tag(clone).stdout == "v1.2.3 is released\n"
    assert tags(clone) == {"refs/tags/v1.2.3": first}
    commit(clone)
    assert "released already" in tag(clone).stdout
    assert tags(clone) == {"refs/tags/v1.2.3": first}, "a tag never moves"
    (clone / "attncourse" / "__init__.py").write_text('__version__ = "1.3.0"\n')
    second = commit(clone)
    assert tag(clone).returncode == 0
    assert tags(clone) == {"refs/tags/v1.2.3": first, "refs/tags/v1.3.0": second}


def test_without_a_version_there_is_no_tag(clone):
    (clone / "attncourse" / "__init__.py").write_text("")
    done = tag(clone)
    assert done.returncode == 1
    assert 'expected a line __version__ = "X.Y.Z"' in done.stderr
    assert tags(clone) == {}
