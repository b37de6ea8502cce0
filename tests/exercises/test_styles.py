"""Right answers in any style pass, on the inputs of several seeds."""

from pathlib import Path

import pytest
import styles
from fresh.sources import right_answers

from attncourse.grading import load, names

ROOT = Path(__file__).parents[2]
SEEDS = range(3)
FEWEST = 4
JUDGED = [name for name in names() if not load(name).left_out()]


def depends(item: pytest.Item) -> list[Path]:
    """All that decides whether a right answer passes."""
    here = Path(__file__).parent
    return [here / "styles", here / "fresh" / "sources.py", ROOT / "attncourse"]


def test_every_style_is_one_of_an_exercise():
    unknown = set(styles.exercises()) - set(names())
    assert not unknown, "no exercise has this name"


@pytest.mark.parametrize("name", names())
def test_there_are_several_styles(name):
    found = right_answers(load(name))
    assert len(found) >= FEWEST, f"{name} has {len(found)} right answers: {', '.join(found)}"


@pytest.mark.parametrize("name", JUDGED)
def test_every_right_answer_passes(name):
    exercise, problems = load(name), []
    for style, answer in right_answers(exercise).items():
        for seed in SEEDS:
            verdict = exercise.grade(answer, seed)
            if verdict.status != "passed" or verdict.findings:
                problems.append(f"{style}, seed {seed}: {verdict.status} {verdict.findings[:1]}")
    assert not problems, "\n".join(problems)
