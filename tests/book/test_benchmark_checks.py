"""What `benchmarks/checking.py` takes the time of. No test asserts a time."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
checking = importlib.import_module("checking")


def depends(item):
    """What decides whether these tests pass."""
    return [ROOT / "benchmarks", ROOT / "attncourse"]


def entry(answer, passes=False):
    return SimpleNamespace(answer=answer, made=False, passes=passes)


def test_only_wrong_answers_that_no_mistake_explains_are_taken():
    exercise = checking.load("empty_row")
    listed = exercise.ideas[0].answer

    def other(*args):
        return args[0].mean()

    entries = [entry(listed), entry(other), entry(exercise.right, True)]
    assert checking.unexplained(exercise, entries) == [other]


def test_every_kind_of_answer_has_a_time(monkeypatch):
    monkeypatch.setattr(checking, "milliseconds", lambda exercise, answer: 2.0)
    assert checking.checks("empty_row", []) == (2.0, 2.0, None)


def test_at_most_so_many_answers_from_the_whole_list():
    for length in (0, 1, checking.MOST, 100):
        found = checking.spread(list(range(length)))
        assert len(found) <= checking.MOST
        assert found[:1] == list(range(length))[:1]
    assert found[-1] > 80


def test_a_row_names_the_dearest():
    times = {name: float(k) for k, name in enumerate("abcdefg")}
    row = checking.row("right", times, 4)
    assert row == ["right", 7, "3.0", 4, 2, "g 6, f 5, e 4, d 3, c 2"]
