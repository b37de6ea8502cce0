"""Answers of the course judged far away get the verdicts that they get here: points, and the same sentence.

A right answer and a wrong one are tried, and all of them where a class or a layer travels. The worker is a
fork of this process, so that it knows the answers; ``benchmarks/grading_seeds.py`` tries all of them on many seeds.
"""

import random

import pytest
import torch
from support.grader.forked import forked_session

from attncourse.grading import load, names
from attncourse.grading.answer import Question, RemoteAnswer
from attncourse.grading.compare import Close
from attngrade import Cell
from attngrade.sandbox.takes import signature_of

SEED = 2**127 + 5
MASK = "import torch\ndef causal_mask(n, m): return torch.arange(m) <= torch.arange(n)[:, None]"
MISTAKES = 1
# Classes and layers: cheap to judge, and most can go wrong on the way.
ALL_OF = {"train_reversal", "append", "head_dim"}


def answers(name: str) -> dict[str, str | None]:
    """Expressions for answers of an exercise, and what is to be said of them; nothing of the right one."""
    ideas = load(name).ideas
    # a `Close` is a pattern of numbers, and no answer
    wrong = [k for k, mistake in enumerate(ideas) if not isinstance(mistake.answer, Close)]
    if name not in ALL_OF:
        wrong = random.Random(name).sample(wrong, min(MISTAKES, len(wrong)))
    return {"right": None} | {f"ideas[{k}].answer": ideas[k].says for k in wrong}


@pytest.mark.parametrize("name", [name for name in names() if not load(name).left_out()])
def test_verdicts_far_away_are_those_at_home(name):
    exercise, found = load(name), {}
    first = f"from attncourse.grading.exercises import load\nexercise = load({name!r})"
    tried = answers(name)
    with forked_session(first) as session:
        for expression in tried:
            session.peer.ask("run", f"{exercise.answer} = exercise.{expression}", "cell 2")
            verdict = session.judge(exercise, SEED)
            found[expression] = verdict.status, verdict.diagnosis
    assert session.problems == []
    expected = {None: ("passed", "")} | {x: ("failed", x) for x in tried.values() if x}
    assert found == {expression: expected[says] for expression, says in tried.items()}


TOO_FEW = {
    "split_heads": "def split_heads(x, *, more=[1, 2]): return x",
    "kv_bytes": "def kv_bytes(layers): return layers",
    "head_dim": "import torch\nclass RepairedAttention(torch.nn.Module):\n    def __init__(self, embed_dim): super().__init__()",
}


@pytest.mark.parametrize("name", TOO_FEW)
def test_a_wrong_number_of_arguments_is_told_in_the_same_words(name):
    exercise, here = load(name), {}
    exec(TOO_FEW[name], here)
    with forked_session(TOO_FEW[name]) as session:
        verdict = session.judge(exercise, SEED)
    assert verdict == exercise.grade(here[exercise.answer], SEED)
    assert "but yours takes" in verdict.findings[0]


@pytest.mark.parametrize(
    "told",
    [None, "x", {}, [1], [["x"]], [["x", 1, None]] * 99, [["x", 1, None]] * 2, [["x" * 99, 1, None]],
     [["class", 1, None]], [["x", 9, None]], [["x", True, None]], [["x", 1, {}]], [["x", 1, "y" * 99]], [[None, 1, None]],
     [["x", 2, None], ["y", 1, None]]],
)  # fmt: skip
def test_a_signature_that_cannot_be_is_none(told):
    assert signature_of(told) is None


def test_a_layer_has_its_own_numbers_again_for_the_next_exercise():
    """The judge of trained leaves it with numbers drawn at random; explain_head may ask for the same model."""
    exercise = load("trained")
    first = "from attncourse.grading.exercises import load\ntrained = load('trained').right"
    with forked_session(first) as session:
        assert [session.judge(exercise, SEED).status for _ in range(2)] == ["passed"] * 2


def test_what_a_notebook_finds_besides_python():
    cells = [
        "shown = display(3), get_ipython().run_line_magic('matplotlib', 'inline')",
        "get_ipython().system('pip install einops')\nlines = get_ipython().getoutput('ls')",
        "get_ipython().run_line_magic('time', 'a = 6 * 7')",
        "b = get_ipython().run_line_magic('time', 'a + 1')",
        "took = get_ipython().run_line_magic('timeit', '-n 10 -r3 -o a + 1').best",
        "import asyncio\nasync def late():\n    await asyncio.sleep(0)\n    return 5\nc = await late()",
        "await asyncio.sleep(0)",
        "import pickle\nclass Mine: pass\nd = type(pickle.loads(pickle.dumps(Mine()))) is Mine",
        "assert (shown, lines, a, b, c, d, took > 0) == ((None, None), [], 42, 43, 5, True, True)",
        "from importlib.util import find_spec\nassert find_spec('attncourse')",
    ]
    with forked_session(*cells) as session:
        assert session.problems == []


SPOILT = """
import math, os, random, sys, warnings
import numpy, torch
import matplotlib.pyplot as plt
from attncourse.grading import check
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.set_default_device("meta")
torch.use_deterministic_algorithms(True)
torch.manual_seed(5); random.seed(5); numpy.random.seed(5)
warnings.simplefilter("error")
sys.path.insert(0, "/nowhere"); os.environ["MINE"] = "1"; os.chdir("/")
plt.figure(); plt.rcParams["lines.linewidth"] = 9
def causal_mask(n, m): return None
check("causal_mask", causal_mask)
"""
TELLS = """
import os, random, sys, warnings
import numpy, torch, matplotlib.pyplot as plt
def tell():
    return [torch.get_default_dtype() == torch.float32, torch.is_grad_enabled(), str(torch.zeros(1).device),
            torch.are_deterministic_algorithms_enabled(), torch.rand(()).item(), random.random(), numpy.random.rand(),
            warnings.filters[0][0] == "error", "/nowhere" in sys.path, "MINE" in os.environ, os.getcwd(),
            plt.get_fignums(), plt.rcParams["lines.linewidth"], sorted(vars(sys.modules["__main__"]))]
told = tell()
"""


def test_the_next_notebook_finds_nothing_of_the_last():
    told = []
    for before in ((), (SPOILT,)):
        with forked_session(*before) as session:
            assert session.problems == []
            session.open([Cell(1, TELLS)])
            assert session.problems == []
            told.append(session.peer.ask("begin", "", "told")[2])
            assert session.judge(load("causal_mask"), SEED).status == "not found"
            session.open([Cell(1, MASK)])
            assert session.judge(load("causal_mask"), SEED).status == "passed"
    assert told[0] == told[1]


ANSWER = """
import torch, numpy, warnings
def answer(x, y, flag=None):
    if x.shape[0] == 1: raise ValueError("too few")
    if x.shape[0] == 2: x.mul_(2)
    return [x @ y, {"sum": x.sum(), 2: numpy.array(3.0)}, numpy.float32(1.5), set()]
def random(): return torch.rand(())
"""


def told_of(session, name):
    session.peer.begin()
    return session.peer.ask("begin", "", name)[2]


def test_one_question_brings_outputs_gradients_and_what_was_changed():
    with forked_session(ANSWER) as session:
        answer = told_of(session, "answer")
        assert isinstance(answer, RemoteAnswer)
        questions = [Question((torch.ones(n, 3), torch.ones(3, 4)), {"flag": torch.ones(1)}, n > 2) for n in (1, 2, 3)]  # fmt: skip
        results = answer.results(questions)
        with pytest.raises(ValueError, match="too few"):
            results[0]()
        _, gradients, changed = results[1]()
        assert (gradients, changed) == ([], [0])
        assert torch.equal(questions[1].args[0], torch.ones(2, 3)), "a copy was changed"
        output, gradients, changed = results[2]()
        assert (output[0].shape, changed, type(output[1]["2"]).__name__) == ((3, 4), [], "ndarray")
        assert output[1]["2"].shape == ()
        assert (output[2], type(output[3]).__name__) == (1.5, "set")
        at_home = torch.autograd.grad((_x := torch.ones(3, 3, requires_grad=True)).sum(), _x)[0]
        assert [x.shape for x in gradients] == [at_home.shape, (3, 4)]
        random = told_of(session, "random")
        assert random.results([Question(())])[0]().output == random.results([Question(())])[0]().output  # fmt: skip


def test_gradients_flow_through_a_conversation():
    with forked_session(ANSWER) as session:
        answer = told_of(session, "answer")
        x, y = torch.ones(3, 3, requires_grad=True), torch.full((3, 4), 2.0, requires_grad=True)
        first, *_ = answer(x, y)
        (first * 3).sum().backward()
        assert x.grad.eq(24).all()
        assert y.grad.eq(9).all()
        for _ in range(300):
            last, *_ = answer(x, y)
        with pytest.raises(RuntimeError, match="graph of this call is gone"):
            first.sum().backward()
        last.sum().backward()
