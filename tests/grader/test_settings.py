"""The fingerprint of the course: another one as soon as anything that decides about points is edited."""

import shutil
from pathlib import Path

import pytest

from attncourse import grading, spec
from attngrade.settings import fingerprint


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A copy of the exercises and of the definitions, in place of those of the package."""
    for package in (grading, spec):
        folder = Path(package.__file__).parent
        shutil.copytree(folder, tmp_path / folder.name)
    monkeypatch.setattr(grading, "__file__", str(tmp_path / "grading" / "__init__.py"))
    return tmp_path


def test_a_copy_has_the_fingerprint_of_the_course(course, monkeypatch):
    copied = fingerprint.__wrapped__()
    monkeypatch.undo()
    assert copied == fingerprint.__wrapped__()


def test_whatever_decides_about_points_has_the_class_graded_again(course):
    def edit(name, text=None):
        path = course / name
        path.write_text(path.read_text("utf-8") + "\n" if text is None else text, encoding="utf-8")

    seen = [fingerprint.__wrapped__()]
    files = [f"spec/{path.name}" for path in sorted((course / "spec").glob("*.py"))]
    for name in [*files, "grading/compare.py", "grading/exercises/masks/empty_row.py"]:
        edit(name)
        seen.append(fingerprint.__wrapped__())
    for text in "12":
        edit("grading/data.json", text)
        seen.append(fingerprint.__wrapped__())
    # the same text under another name is another module
    (course / "spec" / "scores.py").rename(course / "spec" / "scores_again.py")
    seen.append(fingerprint.__wrapped__())
    assert len(set(seen)) == len(seen) > len(files) + 5 > 9
