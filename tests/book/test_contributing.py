"""What CONTRIBUTING.md and the README tell people to run and to open is there."""

import re

import pytest
from support.book.notebooks import ROOT

from attncourse.grading.exercises.gated_delta import decay_mask

PAGES = ("CONTRIBUTING.md", "README.md")
PLACEHOLDERS = re.compile(r"NN|NAME|<|\*|\.\.\.")
FOLDERS = ["attncourse", "attngrade", "chapters", "exercises", "tests", "benchmarks", "tools"]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_targets_are_in_the_makefile(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = set(re.findall(r"(?:`|^|; )make ([a-z][a-z-]+)", text(page), re.M))
    assert named
    assert named <= targets


@pytest.mark.parametrize("page", [*PAGES, "SECURITY.md"])
def test_files_are_there(page):
    named = re.findall(rf"(?<!/)\b(?:{'|'.join(FOLDERS)})/[\w./<>*-]*", text(page))
    paths = [x.rstrip(".") for x in named if not PLACEHOLDERS.search(x)]
    assert paths
    assert [x for x in paths if not (ROOT / x).exists()] == []


def test_the_example_of_an_exercise_runs():
    """With the imports, the definition and the cases of the exercise that it is taken from."""
    (example,) = re.findall(r"```python\n(.*?)```", text("CONTRIBUTING.md"), re.DOTALL)
    names = dict(vars(decay_mask))
    exec(example, names)
    exercise, right = names["EXERCISE"], names["right"]
    assert exercise.grade(right).status == "passed"
    negative = exercise.grade(lambda log_decay: right(-log_decay))
    assert negative.status == "failed"
    assert negative.findings
