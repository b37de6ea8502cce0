"""What is built and released: the wheel holds the packages whole, copies of the version agree, bounds are pinned."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from datetime import date

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from support.book.notebooks import ROOT

from attncourse import __version__
from attncourse.grading import names

PACKAGES = ("attncourse", "attngrade")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy with what is installed here: nothing is fetched, and nothing is left in ROOT."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT"):
        shutil.copy(ROOT / name, copy)
    offline = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", out]
    subprocess.run([sys.executable, "-m", "pip", "wheel", copy, *offline], check=True)
    (path,) = out.iterdir()
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "attncourse/py.typed" in files
    about = f"attncourse-{__version__}.dist-info/"
    assert {x for x in wheel.namelist() if not x.startswith(about)} == files
    assert {f"{about}licenses/LICENSE", f"{about}licenses/LICENSE-TEXT"} <= {*wheel.namelist()}
    commands = wheel.read(f"{about}entry_points.txt").decode()
    assert "attngrade = attngrade.cli:command" in commands


def test_the_wheel_holds_one_right_answer_of_each_exercise(wheel):
    """The other styles are with the tests."""
    folder = "attncourse/grading/exercises/"
    sources = {x: wheel.read(x).decode() for x in wheel.namelist() if x.startswith(folder)}
    exercises = [x.split("\nEXERCISE = ")[1] for x in sources.values() if "\nEXERCISE = " in x]
    assert len(exercises) == len(names())
    assert all(len(re.findall(r"\bright=", x)) == 1 for x in exercises)
    styles = re.compile(r"^style\(|^@style|ACCEPTED", re.MULTILINE)
    assert [name for name, text in sources.items() if styles.search(text)] == []


@pytest.mark.quick
def test_the_version_stands_in_one_place_and_its_copies_agree():
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert "version" not in PROJECT["project"]
    dynamic = PROJECT["tool"]["setuptools"]["dynamic"]
    assert dynamic == {"version": {"attr": "attncourse.__version__"}}
    assert yaml.safe_load(read("CITATION.cff"))["version"] == __version__, "run: make bootstrap"
    named = re.findall(r"(?<=@v)[\d.]+(?=\")", read("README.md"))
    assert named == [__version__], "run: make bootstrap"


@pytest.mark.quick
def test_the_changelog_begins_with_what_comes_and_ends_with_the_first_version():
    coming, *released = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.M)
    assert coming == "Unreleased"
    versions, dates = zip(*(x.split(" - ") for x in released), strict=True)
    assert versions[0] == __version__, "a new version takes over what stood under Unreleased"
    assert sorted(versions, key=Version, reverse=True) == list(versions)
    days = [date.fromisoformat(x) for x in dates]
    assert sorted(days, reverse=True) == days


@pytest.mark.quick
def test_every_lower_bound_but_torch_is_pinned_where_it_is_tried():
    extras = PROJECT["project"]["optional-dependencies"]
    asked = [*PROJECT["project"]["dependencies"], *extras["grade"], *extras["class"]]
    bounds = {x.name: x.specifier for x in map(Requirement, asked)}
    lines = [x for x in read("constraints-lowest.txt").splitlines() if not x.startswith("#")]
    pins = dict(x.split("==") for x in lines)
    assert set(pins) == set(bounds) - {"torch"}
    for name, pin in pins.items():
        (bound,) = bounds[name]
        assert bound.operator == ">="
        assert Version(pin) == Version(bound.version), name


@pytest.mark.quick
def test_hooks_run_what_the_requirements_pin():
    (local,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert local["repo"] == "local", "nothing is downloaded when somebody commits"
    assert {x["language"] for x in local["hooks"]} == {"system"}
    assert all(x["entry"].startswith(".venv/bin/") for x in local["hooks"])
    pinned = set(re.findall(r"^([\w-]+)==", read("requirements.txt"), re.M))
    assert {"ruff", "mypy", "pre-commit", "pre-commit-hooks"} <= pinned


@pytest.mark.quick
def test_issues_and_requests_ask_what_was_run_and_what_came_out():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert forms
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
        (evidence,) = [x for x in form["body"] if x.get("id") == "evidence"]
        assert evidence["attributes"]["label"] == "Evidence: what was run, and what came out"
        assert evidence["validations"] == {"required": True}
    assert "What was run, and what came out." in read(".github/PULL_REQUEST_TEMPLATE.md")
