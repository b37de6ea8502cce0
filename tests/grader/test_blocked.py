"""The second fence: what an exercise forbids raises an error when it is called, and leaves no trace."""

import gc
import subprocess
import sys
import time
import types

import pytest
import torch
import torch.nn.functional as F

from attncourse.grading import load, names
from attncourse.grading.blocked import FUNCTIONS, KERNELS, blocked
from attngrade.reach import ready_made

SDPA, MHA = "torch.nn.functional.scaled_dot_product_attention", "torch.nn.MultiheadAttention"
BOTH = (SDPA, MHA)
WITH_FORBIDS = [name for name in names() if load(name).forbids]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_blocking_leaves_no_trace(name):
    def state():
        kernels = {kernel for of_one in KERNELS.values() for kernel in of_one}
        dumps = [torch._C._dispatch_dump(f"aten::{kernel}") for kernel in sorted(kernels)]
        return (
            dumps,
            F.multi_head_attention_forward.__code__,
            torch.nn.MultiheadAttention.forward.__code__,
        )

    before, listed = state(), set(torch.library._impls)
    changed = []

    def fail():
        with blocked((name,)):
            changed.extend(state())
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert all(a != b for a, b in zip(changed, before, strict=True))
    assert state() == before
    assert set(torch.library._impls) == listed
    q = torch.randn(1, 2, 3, 4)
    right = torch.softmax(q @ q.mT / 2, -1) @ q
    assert torch.allclose(F.scaled_dot_product_attention(q, q, q), right, atol=1e-6)
    assert torch.nn.MultiheadAttention(4, 1)(q[0], q[0], q[0])[0].shape == (2, 3, 4)


def nested(x):
    return torch.nested.as_nested_tensor(list(x))


TWICE = torch.jit.CompilationUnit("def f(x):\n    return 2 * x\n")
Q = torch.randn(2, 1, 3, 4)
# What reaches the same kernel in another way, and what Python does not run at all.
ROADS = {
    "a call": lambda: F.scaled_dot_product_attention(Q, Q, Q),
    "an operator": lambda: torch.ops.aten.scaled_dot_product_attention(Q, Q, Q),
    "its steps": lambda: torch.ops.aten.scaled_dot_product_attention.default.decompose(Q, Q, Q),
    "a part": lambda: torch.ops.aten._scaled_dot_product_attention_math(Q, Q, Q),
    "vmap": lambda: torch.vmap(F.scaled_dot_product_attention)(Q, Q, Q),
    "grad": lambda: torch.func.grad(lambda x: F.scaled_dot_product_attention(x, x, x).sum())(Q),
    "nested tensors": lambda: F.scaled_dot_product_attention(nested(Q), nested(Q), nested(Q)),
    "no numbers": lambda: F.scaled_dot_product_attention(*[Q.to("meta")] * 3),
    "a script": lambda: TWICE.f(Q),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("road", ROADS)
def test_every_road_is_blocked_and_open_again(road):
    with blocked((SDPA,)), pytest.raises(RuntimeError, match="this exercise does not allow torch"):
        ROADS[road]()
    ROADS[road]()


def test_blocking_one_leaves_the_other():
    q = torch.randn(1, 2, 3, 4)
    with blocked((MHA,)):
        assert F.scaled_dot_product_attention(q, q, q).shape == q.shape
    with blocked(()):
        assert torch.nn.MultiheadAttention(4, 1)(q[0], q[0], q[0])[0].shape == (2, 3, 4)
    with blocked(BOTH), pytest.raises(RuntimeError, match="not allow torch.nn.Multih"):
        torch.nn.MultiheadAttention(4, 1)(q[0], q[0], q[0])


def test_blocking_twice_and_a_library_that_was_destroyed():
    q = torch.randn(1, 2, 3, 4)
    with blocked((SDPA,)):
        with blocked((SDPA,)), pytest.raises(RuntimeError, match="not allow"):
            F.scaled_dot_product_attention(q, q, q)
        with pytest.raises(RuntimeError, match="not allow"):
            F.scaled_dot_product_attention(q, q, q)
        for thing in gc.get_objects():
            if type(thing) is torch.library.Library and thing.ns == "aten":
                thing._destroy()
    assert F.scaled_dot_product_attention(q, q, q).shape == q.shape


def test_blocking_says_nothing():
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "from attncourse.grading.blocked import FUNCTIONS, blocked\n"
        "with blocked(tuple(FUNCTIONS)): pass\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_both_fences_know_every_exercise():
    assert WITH_FORBIDS
    for name in WITH_FORBIDS:
        exercise = load(name)
        assert set(exercise.forbids) <= FUNCTIONS.keys() & KERNELS.keys()
        assert all(isinstance(x, type | types.FunctionType | types.BuiltinFunctionType)
                   for x in ready_made(exercise.forbids).objects)  # fmt: skip
        assert f"not allowed: `{exercise.forbids[0].rpartition('.')[2]}`" in exercise.card()


@pytest.mark.parametrize("name", WITH_FORBIDS)
def test_right_answers_stay_right_behind_both_fences(name):
    exercise = load(name)
    with blocked(exercise.forbids):
        verdicts = [exercise.grade(answer) for answer in exercise.accepted.values()]
    assert {v.status for v in verdicts} == {"passed"}


def test_blocking_takes_little_time():
    spans = []
    for _ in range(5):
        begin = time.perf_counter()
        with blocked(BOTH):
            spans.append(time.perf_counter() - begin)
    assert min(spans) < 0.005
