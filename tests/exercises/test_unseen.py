"""Answers that no exercise lists: the wrong ones fail and hear what is wrong, the right ones pass."""

import importlib
import pkgutil
from pathlib import Path

import pytest
import unseen

from attncourse.grading import load, names
from attncourse.grading.check import shown

ROOT = Path(__file__).parents[2]
MODULES = [found.name for found in pkgutil.iter_modules(unseen.__path__)]
for _module in MODULES:
    importlib.import_module(f"unseen.{_module}")
TABLE = [
    (module, name)
    for module in MODULES
    for name in dict.fromkeys(entry.exercise for entry in unseen.ENTRIES.get(module, ()))
]


def depends(item: pytest.Item) -> list[Path]:
    """All that decides whether the answers of a module are judged as they should be."""
    tables, module = Path(unseen.__file__), item.callspec.params["module"]
    return [tables, tables.with_name(f"{module}.py"), ROOT / "attncourse"]


def problem(entry: unseen.Entry) -> str:
    """'' where the verdict is what the entry wants."""
    verdict = load(entry.exercise).grade(entry.answer() if entry.made else entry.answer)
    read = "\n  ".join(shown(verdict))
    told = f"{entry.where}: {verdict.status}, and the student reads\n  {read}\n"
    if verdict.status != ("passed" if entry.passes else "failed"):
        return told
    missing = [words for words in entry.says if words not in read]
    false = [words for words in entry.never if words in read]
    return f"{told}  missing: {missing}, false: {false}" if missing or false else ""


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_table(module):
    assert unseen.ENTRIES.get(module), f"unseen/{module}.py lists no answer"
    unknown = {entry.exercise for entry in unseen.ENTRIES[module]} - set(names())
    assert not unknown, "no exercise has this name"


@pytest.mark.parametrize(("module", "name"), TABLE)
def test_what_no_exercise_lists_is_judged_and_named(module, name):
    if left_out := load(name).left_out():
        pytest.skip(left_out.findings[0])
    entries = [entry for entry in unseen.ENTRIES[module] if entry.exercise == name]
    assert not (problems := list(filter(None, map(problem, entries)))), "\n".join(problems)
