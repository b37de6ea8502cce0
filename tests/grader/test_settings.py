"""The fingerprint of the course: another one as soon as anything that decides about points is edited."""

import shutil
from pathlib import Path

import pytest

from attncourse import grading, spec
from attngrade.settings import fingerprint

DEFINITIONS = sorted(path.name for path in Path(spec.__file__).parent.glob("*.py"))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A copy of the exercises and of the definitions, in place of those of the package."""
    for package in (grading, spec):
        folder = Path(package.__file__).parent
        shutil.copytree(folder, tmp_path / folder.name)
    monkeypatch.setattr(grading, "__file__", str(tmp_path / "grading" / "__init__.py"))
    return tmp_path


def edit(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")


def test_a_copy_has_the_fingerprint_of_the_course(course, monkeypatch):
    copied = fingerprint.__wrapped__()
    monkeypatch.undo()
    assert copied == fingerprint.__wrapped__()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_an_edited_definition_has_the_class_graded_again(name, course):
    before = fingerprint.__wrapped__()
    edit(course / "spec" / name)
    assert fingerprint.__wrapped__() != before


@pytest.mark.parametrize("name", ["compare.py", "exercises/masks/empty_row.py"])
def test_an_edited_exercise_has_the_class_graded_again(name, course):
    before = fingerprint.__wrapped__()
    edit(course / "grading" / name)
    assert fingerprint.__wrapped__() != before


def test_data_of_the_exercises_have_the_class_graded_again(course):
    before = fingerprint.__wrapped__()
    data = course / "grading" / "data.json"
    data.write_text("1", encoding="utf-8")
    added = fingerprint.__wrapped__()
    data.write_text("2", encoding="utf-8")
    assert len({before, added, fingerprint.__wrapped__()}) == 3


def test_a_renamed_file_has_the_class_graded_again(course):
    """The same text under another name is another module."""
    before = fingerprint.__wrapped__()
    (course / "spec" / "scores.py").rename(course / "spec" / "scores_again.py")
    assert fingerprint.__wrapped__() != before
