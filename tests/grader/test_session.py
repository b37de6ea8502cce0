"""A whole submission far away: what its cells do, how its answers are called, and what is said of it."""

import time
import warnings
from functools import partial

import pytest
import torch
from support import sandbox_helpers
from support.sandbox_helpers import Told, exercise, inside
from torch import nn

from attncourse.grading import load
from attncourse.grading.exercise import Calls
from attncourse.grading.observe import Case
from attngrade import Cell
from attngrade.far.sandbox import Sandbox
from attngrade.session import MOST_RESTARTS, Session

MASK = "def causal_mask(n, m):\n    import torch\n    return torch.arange(m) <= torch.arange(n)[:, None]"
NO_MASK = "def causal_mask(n, m):\n    import torch\n    return torch.ones(n, m, dtype=torch.bool)"


@pytest.fixture(scope="module")
def box():
    with Sandbox() as box:
        yield box


@pytest.fixture
def judged(box):
    return partial(sandbox_helpers.judged, box)


# Cells


def test_cells_that_raise_are_told_and_the_rest_counts(judged):
    cells = "1 / 0", "x = (", MASK, "import no_such_module", "raise SystemExit"
    verdict, problems = judged(*cells, "raise MemoryError")
    assert verdict.status == "passed"
    assert problems[0] == "cell 2 raised ZeroDivisionError: division by zero"
    assert problems.pop().endswith(" raised MemoryError"), "without words of its own"
    assert [p.split(" raised ")[1].split(":")[0] for p in problems] == [
        "ZeroDivisionError", "SyntaxError", "ModuleNotFoundError", "SystemExit"]  # fmt: skip


def test_cells_that_end_the_worker_or_hang_are_left_out(judged):
    ends = "import os; os._exit(0)"
    verdict, problems = judged(ends, MASK, "while True: pass", "later = 1", seconds=3)
    assert verdict.status == "passed"
    assert problems == ["cell 2 ended the worker", "cell 6 took longer than 3 s"]


def test_a_cell_that_swallows_interrupts_is_ended_too(judged):
    hang = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
    assert judged(MASK, hang, seconds=3)[1] == ["cell 4 took longer than 3 s"]


def test_who_ends_the_worker_too_often_is_given_up(judged):
    start = time.monotonic()
    verdict, problems = judged(*["import os; os._exit(1)"] * (MOST_RESTARTS + 5), MASK)
    assert verdict.status == "did not finish"
    assert "too often" in verdict.findings[0]
    assert len(problems) == MOST_RESTARTS + 1
    assert time.monotonic() - start < 60


def test_many_problems_are_not_all_told(judged):
    verdict, problems = judged(*[f"raise ValueError('{k}' * 1000)" for k in range(50)], MASK)
    assert verdict.status == "passed"
    assert len(problems) == 20
    assert max(map(len, problems)) <= 300


def test_cells_share_their_names_and_know_their_own_source(judged):
    cells = "import inspect, torch\nk = 1", MASK.replace("[:, None]", "[:, None] * k"), "assert __name__ == '__main__'\nassert 'arange' in inspect.getsource(causal_mask)"  # fmt: skip
    verdict, problems = judged(*cells)
    assert (verdict.status, problems) == ("passed", [])


# Which answer


def test_without_an_answer_it_is_not_found(judged):
    verdict, _ = judged("x = 1")
    assert verdict.status == "not found"
    assert verdict.findings == ('there is no answer: neither check("causal_mask", causal_mask) nor anything called causal_mask',)  # fmt: skip


@pytest.mark.parametrize("stub", ["raise NotImplementedError", "raise NotImplementedError()"])
def test_the_stub_is_not_attempted(judged, stub):
    assert judged(f"def causal_mask(n, m):\n    {stub}")[0].status == "not attempted"
    assert judged("causal_mask = ...")[0].status == "not attempted"
    said = judged("def causal_mask(n, m):\n    raise NotImplementedError('cannot')")[0]
    assert (said.status, "cannot" in said.findings[0]) == ("failed", True)


def test_what_check_got_is_judged_and_without_check_the_name(judged):
    check = "from attncourse.grading import check\ncheck('causal_mask', mine)"
    right = MASK.replace("causal_mask", "mine")
    assert judged(NO_MASK, right, check)[0].status == "passed"
    assert judged(MASK, right.replace("<=", ">"), check)[0].status == "failed"
    assert judged(MASK)[0].status == "passed"


def test_where_something_is_forbidden_the_name_is_judged(box):
    """Its source was read, from the name on; what check got may be anything."""
    source = "from attncourse.grading import check\ndef tell(): return 7\ncheck('tiny', lambda: 8)"
    told = {}
    for forbids in ((), ("torch.nn.MultiheadAttention",)):
        judge = Told(())
        with Session(box, [Cell(1, source)], 20) as session:
            session.judge(exercise(judge, forbids=forbids), 0)
        told[forbids] = judge.told
    assert list(told.values()) == [8, 7]


def test_what_a_notebook_or_an_answer_has_set_does_not_count(box):
    spoil = "torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False); torch.set_default_device('meta')"
    source = f"import torch\n{spoil}\ndef tell():\n    x = torch.ones(1)\n    seen = str(x.dtype), str(x.device), torch.is_grad_enabled()\n    {spoil}\n    return seen"
    judge = Told(())
    with Session(box, [Cell(1, source)], 20) as session:
        for _ in range(2):
            session.judge(exercise(judge), 0)
            assert judge.told == ("torch.float32", "cpu", True)


def test_what_one_exercise_forbids_another_allows(box):
    source = "import torch\ndef tell(x): return torch.nn.functional.scaled_dot_product_attention(x, x, x)"
    found, sdpa = [], ("torch.nn.functional.scaled_dot_product_attention",)
    with Session(box, [Cell(1, source)], 20) as session:
        for forbids in ((), sdpa, (), sdpa):
            verdict = session.judge(exercise(Told((torch.ones(1, 1, 2, 2),)), "tell", forbids), 0)
            found.append(verdict.status == "passed")
    assert found == [True, False, True, False]


def test_all_of_a_submission_has_a_limit_too(box, monkeypatch):
    monkeypatch.setattr("attngrade.session.MOST_LIMITS", 1.5)
    hang = [Cell(k, "while True: pass") for k in range(9)]
    start = time.monotonic()
    with Session(box, [*hang, Cell(9, MASK)], 3) as session:
        verdict = session.judge(load("causal_mask"), 1)
    assert (verdict.status, verdict.points) == ("did not finish", 0)
    assert "took too long" in verdict.findings[0]
    assert 4 < time.monotonic() - start < 5.8, "the second one is ended after half of its time"


# Calls


def test_an_answer_that_hangs_or_exits_has_its_verdict_and_the_next_one_is_judged(box):
    hang, ends = "while True: pass", "import os; os._exit(0)"
    cells = [f"def causal_mask(n, m):\n    {hang}", f"def tell():\n    {ends}", "def fine(): return 7"]  # fmt: skip
    judge = Told(())
    with Session(box, [Cell(k, c) for k, c in enumerate(cells)], 3) as session:
        hung = session.judge(load("causal_mask"), 1)
        ended = session.judge(exercise(Told(()), "tell"), 1)
        fine = session.judge(exercise(judge, "fine"), 1)
    assert (hung.status, hung.findings) == ("did not finish", ("it took longer than 3 s",))
    assert (ended.status, ended.findings) == ("did not finish", ("it ended the worker",))
    assert (fine.status, judge.told) == ("passed", 7)


def test_errors_are_those_of_the_answer(judged):
    kinds = "PermissionError", "KeyError", "MemoryError", "RecursionError", "UnicodeDecodeError('a', b'', 0, 1, 'no')"  # fmt: skip
    for kind in kinds:
        verdict, _ = judged(f"def causal_mask(n, m):\n    raise {kind}")
        assert verdict.findings[0].split("raised ")[1].startswith(kind.split("(")[0])
    own = "class Mine(LookupError): pass\ndef causal_mask(n, m):\n    raise Mine('so')"
    assert "raised LookupError: so" in judged(own)[0].findings[0]


def test_gradients_and_changes_come_back(judged):
    a, b = torch.randn(2, 3, generator=torch.Generator().manual_seed(1)), torch.ones(3)
    judge = Calls(lambda a, b: (a**2 * b, b * 2), lambda seed: [Case("two", (a, b))])
    right = "def tell(a, b): return a**2 * b, b * 2"
    wrong = {
        "def tell(a, b): return (a**2 * b).detach(), b * 2": "gradient of a",
        "def tell(a, b): return a.detach()**2 * b, b * 2": "gradient of a",
        "def tell(a, b):\n    y = a**2 * b, b * 2\n    a += 1\n    return y": "left unchanged",
        "def tell(a, b):\n    with __import__('torch').no_grad(): return a**2 * b, b * 2": "gradient",
        "def tell(a, b): return a**2 * b": "expected 2 results",
    }
    assert judged(right, name=exercise(judge))[0].status == "passed"
    in_place = "def tell(a, b):\n    a = a * a\n    a += 0\n    return a * b, b * 2"
    assert judged(in_place, name=exercise(judge))[0].status == "passed"
    for source, says in wrong.items():
        assert says in str(judged(source, name=exercise(judge))[0].findings), source


class Layers:
    """A judge that uses a layer as judges do: parameters, modes, gradients, more than once."""

    def observe(self, answer, seed):
        layer = answer(3)
        names = [name for name, _ in layer.named_parameters()]
        layer.eval()
        with torch.no_grad():
            layer.weight.fill_(2.0)
        x = torch.ones(2, 3, requires_grad=True)
        y = layer(x)
        y.sum().backward()
        layer.train()
        layer(x)
        buffer = dict(layer.named_buffers())["ones"].item()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            layer(x)
        self.seen = (isinstance(layer, nn.Module), names, y.tolist(), x.grad.tolist(),
                     layer.weight.grad.tolist(), buffer, [str(w.message) for w in said])  # fmt: skip
        yield "seen", True

    def expected(self, seed):
        return {"seen": True}


LAYER = """
import warnings, torch
from torch import nn
class tell(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n))
        self.register_buffer("ones", torch.ones(()))
        self.count = 0
    def forward(self, x):
        self.count += self.training
        if self.count > 1:
            warnings.warn("twice")
        return self.weight * x if not self.training else x * self.ones
"""


def test_layers_have_their_parameters_modes_and_buffers_here(judged):
    judge = Layers()
    verdict, _ = judged(LAYER, name=exercise(judge))
    assert verdict.status == "passed", verdict
    expected = True, ["weight"], [[2.0] * 3] * 2, [[2.0] * 3] * 2, [2.0] * 3, 1.0, ["twice"]
    assert judge.seen == expected


def test_objects_keep_their_state_and_their_memory(box):
    class Keeps:
        def observe(self, answer, seed):
            one, other = answer(torch.zeros(4)), answer(torch.ones(4))
            first = one.add(1)
            one.add(2)
            self.seen = first.tolist(), one.kept.tolist(), one.calls, other.kept.tolist()
            yield "seen", True

        expected = staticmethod(lambda seed: {"seen": True})

    judge = Keeps()
    source = "class tell:\n    calls = 0\n    def __init__(self, x): self.kept = x\n    def add(self, k):\n        self.kept += k\n        self.calls += 1\n        return self.kept"
    with Session(box, [Cell(1, source)], 20) as session:
        assert session.judge(exercise(judge), 0).status == "passed"
    assert judge.seen == ([3.0] * 4, [3.0] * 4, 2, [1.0] * 4)  # what both saw is one memory


def test_a_function_that_is_handed_over_is_called_here(box):
    calls = []

    def ours(x):
        calls.append(x.shape)
        return 3 * x

    source = "import torch\ndef tell(f): return [f(torch.ones(k)).sum().item() for k in range(4)]"
    assert inside(box, source, ours) == [0, 3, 6, 9]
    assert calls == [(0,), (1,), (2,), (3,)]


def test_find_the_leak_is_found_by_asking(judged):
    # An answer that never calls the model cannot know; one that does is judged by what it finds.
    never = "def first_leak(model, *rest, **more): return -1"
    assert judged(never, name="find_the_leak")[0].status == "failed"


# A deadline counts for each exercise


def test_each_exercise_has_its_own_time(box):
    slow = "import time\n" + MASK.replace(
        "    import torch", "    import torch\n    time.sleep(0.3)"
    )
    with Session(box, [Cell(1, slow)], 4) as session:
        verdicts = [session.judge(load("causal_mask"), k).status for k in range(3)]
    assert verdicts == ["passed"] * 3, "each takes 2 s, all take 6"
