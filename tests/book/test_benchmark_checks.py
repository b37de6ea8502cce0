"""What `benchmarks/checking.py` takes the time of. No test asserts a time."""

import importlib
import sys
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "exercises")]
checking = importlib.import_module("checking")


def depends(item):
    """What decides whether these tests pass."""
    return [ROOT / "benchmarks", ROOT / "attncourse", ROOT / "tests" / "exercises" / "fresh"]


def test_wrong_answers_fail():
    exercise = checking.load("split_heads")
    wrong = list(islice(checking.wrong_answers(exercise), 3))
    assert len(wrong) == 3
    assert {exercise.grade(answer).status for answer in wrong} == {"failed"}


def test_a_row_names_the_dearest():
    times = {name: [float(k), k + 2.0] for k, name in enumerate("abcdefg")}
    row = checking.row("right", times)
    assert row == ["right", 14, "4.0", 10, "8", 30, "g 7, f 6, e 5, d 4, c 3"]
