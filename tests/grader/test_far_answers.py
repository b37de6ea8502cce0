"""Answers of the course judged far away get the verdicts that they get here: points, and the same sentence.

Right answers and some of the wrong ones are tried, and all of them where a class or a layer travels. ``benchmarks/grading_seeds.py`` tries all of them on many seeds.
"""

import random
from pathlib import Path

import pytest

from attncourse.grading import load, names
from attncourse.grading.compare import Close
from attngrade import Cell
from attngrade.far.sandbox import Sandbox
from attngrade.far.wire import Lost
from attngrade.session import Session

ROOT = Path(__file__).parents[2]
MASK = "import torch\ndef causal_mask(n, m): return torch.arange(m) <= torch.arange(n)[:, None]"
MISTAKES = 2
# Classes and layers: cheap to judge, and most can go wrong on the way.
ALL_OF = {"train_reversal", "append", "rotate_cached_keys"}
# Their memory is limited, and each answer needs a worker of its own.
SLOW = {"decode_without_copy", "grouped_query_attention", "absorbed_attention"}


@pytest.fixture(scope="module")
def box():
    # These workers may import the task files, where the answers are.
    with Sandbox(course=ROOT) as box:
        yield box


def answers(name: str) -> dict[str, str | None]:
    """Expressions for answers of an exercise, and what is to be said of them; nothing of right ones."""
    exercise = load(name)
    # a `Close` is a pattern of numbers, and no answer
    wrong = [k for k, m in enumerate(exercise.mistakes) if not isinstance(m.answer, Close)]
    if name not in ALL_OF:
        wrong = random.Random(name).sample(wrong, min(MISTAKES, len(wrong)))
    styles = list(exercise.accepted)[: 3 if name in SLOW else None]
    found = dict.fromkeys(f"accepted[{style!r}]" for style in styles)
    return found | {f"mistakes[{k}].answer": exercise.mistakes[k].says for k in wrong}


@pytest.mark.parametrize("name", [name for name in names() if not load(name).left_out()])
def test_verdicts_far_away_are_those_at_home(box, name):
    exercise, found = load(name), {}
    first = Cell(1, f"from attncourse.grading import load\nexercise = load({name!r})")
    tried = answers(name)
    with Session(box, [first], 60) as session:
        for expression in tried:
            session.start()
            cell = [f"{exercise.answer} = exercise.{expression}", "cell 2"]
            assert session.peer.ask("run", [cell])[0] == []
            verdict = session.judge(exercise, 5)
            found[expression] = verdict.status, verdict.diagnosis
    assert session.problems == []
    assert found == {
        expression: ("passed", "") if says is None else ("failed", says)
        for expression, says in tried.items()
    }


@pytest.mark.parametrize("names", [0, 4_990, 6_000])
def test_an_answer_among_many_names_is_found(box, names):
    many = f"globals().update({{f'x{{k}}': k for k in range({names})}})"
    with Session(box, [Cell(1, many), Cell(2, MASK)], 20) as session:
        absent = session.without_answer([load("causal_mask"), load("empty_row")])
        assert absent == ({"empty_row"} if not names else set())
        assert session.judge(load("causal_mask"), 1).status == "passed"


def test_without_a_sandbox_nothing_is_judged_and_nothing_breaks():
    class Gone:
        def open(self):
            raise Lost("the zygote is gone")

    with Session(Gone(), [Cell(1, MASK)], 20) as session:
        assert session.without_answer([load("causal_mask")]) == set()
        assert session.judge(load("causal_mask"), 1).status == "did not finish"
