"""`tools/new_variant.py`: the stubs fit into the house, and a wrong name writes nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from support.notebooks import ROOT


@pytest.fixture
def house(tmp_path):
    """A copy of what the tool reads."""
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "attncourse", tmp_path / "attncourse", ignore=skipped)
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    for path in [*ROOT.glob("chapters/*.ipynb"), *ROOT.glob("exercises/**/*.ipynb")]:
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    return tmp_path


def new_variant(house: Path, name: str):
    command = [sys.executable, ROOT / "tools" / "new_variant.py", "--root", house, "--", name]
    return subprocess.run(command, capture_output=True, text=True)


def contents(house: Path) -> dict[str, bytes]:
    return {str(p.relative_to(house)): p.read_bytes() for p in house.rglob("*") if p.is_file()}


def test_stubs_along_the_whole_way(house):
    before = contents(house)
    done = new_variant(house, "dilated_window")
    assert done.returncode == 0, done.stderr
    number = max(int(p.name[:2]) for p in ROOT.glob("chapters/*.ipynb")) + 1
    stem = f"{number:02}_dilated_window"
    after = contents(house)
    written = {
        "attncourse/variants/dilated_window.py",
        "attncourse/grading/exercises/dilated_window/__init__.py",
        "attncourse/grading/exercises/dilated_window/dilated_window.py",
        f"chapters/{stem}.ipynb",
        f"exercises/solutions/{stem}.ipynb",
    }
    assert set(after) - set(before) == written
    listed = "attncourse/grading/exercises/__init__.py"
    assert {x for x in before if before[x] != after[x]} == {
        "attncourse/spec.py",
        "_toc.yml",
        listed,
    }
    assert all(path in done.stdout for path in written), "the path to follow is printed"
    assert '@variant("dilated_window")' in done.stdout

    toc = yaml.safe_load(after["_toc.yml"])
    files = [[chapter["file"] for chapter in part["chapters"]] for part in toc["parts"]]
    chapters, exercises = ([p for p in files if p[0].startswith(x)] for x in ("chapters/0", "exer"))
    assert chapters[-1][-1] == f"chapters/{stem}", "behind the last chapter"
    assert [p[-1] for p in exercises] == [f"exercises/{stem}"]


def test_stubs_load_and_await_their_answers(house):
    assert new_variant(house, "dilated").returncode == 0
    code = """
from attncourse import spec
from attncourse.grading import load, names
from attncourse.variants.dilated import dilated
(name,) = [name for name in names() if name == "dilated"]
exercise = load(name)
assert exercise.name == name and "points" in exercise.card()
for unwritten in (dilated, spec.dilated):
    try:
        unwritten(1, 2, 3)
    except NotImplementedError:
        continue
    raise AssertionError("a stub must say that it is one")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=house, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = [*house.rglob("*dilated.py"), house / "attncourse" / "spec.py"]
    linted = ["ruff", "check", "--config", ROOT / "pyproject.toml", *written]
    done = subprocess.run(
        [sys.executable, "-m", *linted], cwd=house, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_notebooks_have_the_form_of_the_others(house):
    assert new_variant(house, "dilated").returncode == 0
    first = nbformat.read(ROOT / "chapters" / "01_dot_product.ipynb", as_version=4)
    for path in house.rglob("*_dilated.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert notebook.cells[0].source.startswith("# ")
        assert notebook.cells[1].source == first.cells[1].source
    (chapter,) = house.glob("chapters/*_dilated.ipynb")
    cells = nbformat.read(chapter, as_version=4).cells
    headings = [cell.source.split("\n")[0] for cell in cells if cell.source.startswith("## ")]
    assert headings[:2] == ["## What changes", "## By hand"]
    assert headings[-3:] == ["## Exercises", "## Summary", "## Sources"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Dilated", "cannot name a variant"),
        ("2d", "cannot name a variant"),
        ("a-b", "cannot name a variant"),
        ("../x", "cannot name a variant"),
        ("", "cannot name a variant"),
        ("class", "cannot name a variant"),
        ("causal", "is defined already, in attncourse/masks.py"),
        ("layers", "exists already: attncourse/layers.py"),
        ("dot_product", "exists already: "),
    ],
)
def test_wrong_name_writes_nothing(name, message, house):
    before = contents(house)
    done = new_variant(house, name)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert contents(house) == before


def test_second_time_is_refused(house):
    assert new_variant(house, "dilated").returncode == 0
    before = contents(house)
    done = new_variant(house, "dilated")
    assert done.returncode == 1
    assert "dilated exists already" in done.stderr
    assert contents(house) == before
