"""The judges themselves, on exercises small enough to see through."""

import math
from fractions import Fraction

import numpy
import pytest
import torch
from support.tiny import tiny

from attncourse.grading.exercise import Calls, Counts, Number
from attncourse.grading.isolation import torch_defaults
from attncourse.grading.mistake import Mistake
from attncourse.grading.observe import Case, NotAttempted

pytestmark = pytest.mark.quick


def doubling(gradients=True, **inputs):
    """Asks for twice of each of these inputs."""
    cases = [Case(label, (x,)) for label, x in inputs.items()]
    return tiny(Calls(lambda x: 2 * x, lambda seed: cases, gradients))


def test_judge_of_calls_sees_inputs_changed_and_gradients_lost():
    x = torch.tensor([1.0, 2.0, 3.0])
    exercise = doubling(numbers=x)
    assert exercise.grade(lambda x: x + x).status == "passed"
    assert exercise.grade(lambda x: x.double() * 2).status == "passed"
    assert "left unchanged: no, x changed" in exercise.grade(lambda x: x.mul_(2)).findings[-1]
    assert "gradient" in exercise.grade(lambda x: 2 * x.detach()).findings[0]
    noticed, found, *_ = exercise.grade(lambda x: 2 * x[None]).findings
    assert noticed == "The numbers are right, but axes of size 1 are added or moved."
    assert "expected shape (3,), got (1, 3)" in found
    assert x.tolist() == [1, 2, 3]
    assert not x.requires_grad


def test_judge_of_calls_guards_its_inputs():
    x, by = torch.full((3,), 3.0), torch.full((3,), 2.0)
    cases = [Case("twice", (x,), {"by": by})]
    exercise = tiny(Calls(lambda x, by: by * x, lambda seed: cases, gradients=False))
    assert exercise.grade(lambda x, by: x * by).status == "passed"
    for name, in_place in (("x", lambda x, by: x.mul_(by)), ("by", lambda x, by: by.mul_(x))):
        noticed, found, *_ = exercise.grade(in_place).findings
        assert noticed == f"The results are right, but an input is changed in place: {name}."
        assert found == f"twice, inputs left unchanged: no, {name} changed"
    assert x.tolist() == [3, 3, 3]
    assert by.tolist() == [2, 2, 2]


def test_inputs_come_from_a_layer_that_needs_them_on_its_way_back():
    """Changed in place and put back, an input is what it was; but the layer that made it has lost its result."""

    def borrowed(x):
        found = 2 * x.mul_(2.0)
        x.mul_(0.5)
        return found / 2

    told, *findings = doubling(numbers=torch.tensor([1.0, 2.0, 3.0])).grade(borrowed).findings
    assert any("modified by an inplace operation" in x for x in findings), findings


def test_large_numbers_need_finite_gradients():
    """A maximum that is left out is seen on the way back, where the result hides it."""
    big = Case("large", (torch.tensor([100.0, -100.0]),), gradients=False)
    exercise = tiny(Calls(lambda x: x.clamp(max=0).exp(), lambda seed: [big]))
    assert exercise.grade(lambda x: x.clamp(max=0).exp()).status == "passed"
    told, *_ = exercise.grade(lambda x: torch.where(x > 0, 1.0, x.exp())).findings
    assert "the gradient of x has NaN or infinite numbers" in told


def pairs(seed):
    g = torch.Generator().manual_seed(seed % 1000)
    calls = ((2, 3, 2.0), (4, 5, 3.0))
    return [Case(f"{n} by {m}", (torch.randn(n, m, generator=g), by)) for n, m, by in calls]


def test_what_is_kept_between_calls_is_seen():
    exercise, table, buffer, calls = tiny(Calls(lambda x, by: x * by, pairs)), {}, {}, []

    def kept_by_shape(x, by):
        return x * table.setdefault(x.shape, by)

    def one_memory(x, by):
        out = buffer.setdefault(x.shape, torch.empty(x.shape))
        return out.copy_(x.detach() * by)

    def counts(x, by):
        calls.append(x)
        return x * by * (1 + (len(calls) > 8))

    assert exercise.grade(lambda x, by: x * by).status == "passed"
    for answer, says in (
        (
            kept_by_shape,
            "Every wrong result is the right one of an earlier call",
        ),
        (one_memory, "The same memory is returned again and again"),
        (counts, "Asked in the opposite order"),
    ):
        verdict = exercise.grade(answer)
        assert verdict.findings[0].find(says) >= 0, verdict.findings


def test_each_axis_is_cut_to_one():
    """Whoever squeezes more than should go is found out, though no listed call has an axis of size 1."""
    exercise = tiny(Calls(lambda x, by: (x * by).sum(0, keepdim=True), pairs))
    assert exercise.grade(lambda x, by: (x * by).sum(0)[None]).status == "passed"
    told, found, *_ = exercise.grade(lambda x, by: (x * by).sum(0).squeeze()[None]).findings
    assert "cut to size 1 along axis 1 of x" in found


def test_only_the_untouched_stub_is_not_attempted():
    exercise = doubling(first=torch.ones(2), second=torch.full((2,), 3.0), gradients=False)

    def stub(x):
        raise NotImplementedError

    def half_done(x):
        return stub(x) if x.sum() > 5 else 2 * x

    def says_something(x):
        raise NotImplementedError("cannot do this")

    assert exercise.grade(stub).status == "not attempted"
    assert exercise.grade(half_done).findings == ("second, output: raised NotImplementedError",)
    assert "cannot do this" in exercise.grade(says_something).findings[0]


def test_findings_leave_out_what_follows_from_another_fault():
    exercise = doubling(twice=torch.ones(3))
    _, outputs, *_ = exercise.grade(lambda x: 3 * x).findings
    assert outputs == "twice, output: 3 of 3 numbers differ; at [0] expected 2, got 3"
    raised, *_ = exercise.grade(lambda x: x.no_such_method()).findings
    assert raised.startswith("twice, output: raised AttributeError")
    told, gradient = exercise.grade(lambda x: x + x.detach()).findings
    assert told.startswith("The results are right, but the gradient of x is not")
    assert gradient.startswith("twice, gradient of x: 3 of 3 numbers differ")


def test_an_expected_error_is_named_by_its_kind():
    class OurError(ValueError):
        def __str__(self):
            raise RuntimeError("cannot say")

    def refuse(x, kind=ValueError):
        raise kind("no")

    exercise = tiny(Calls(refuse, lambda seed: [Case("odd", (torch.ones(1),))]))
    assert exercise.grade(lambda x: 2 * x).findings == (
        "odd, output: expected a ValueError, got a tensor of shape (1,)",
    )
    (finding,) = exercise.grade(lambda x: x.no_such_method()).findings
    assert finding.startswith("odd, output: expected a ValueError, got AttributeError: ")
    assert exercise.grade(refuse).status == "passed"
    assert exercise.grade(lambda x: refuse(x, OurError)).status == "passed"


def test_a_definition_that_is_not_written_is_told():
    def unwritten(x):
        raise NotImplementedError("no loops yet")

    exercise = tiny(Calls(unwritten, lambda seed: [Case("odd", (torch.ones(1),))]))
    for answer in (lambda x: x, unwritten):
        with pytest.raises(NotAttempted, match="write the definition .*: no loops yet"):
            exercise.grade(answer)


def test_judge_of_numbers_keeps_its_tolerance():
    exercise = tiny(Number(lambda: 2.0, rtol=0.01))
    for right in (2, 2.0, 2.019, torch.tensor(2.0), torch.tensor(2)):
        assert exercise.grade(right).status == "passed"
    for wrong in (2.021, -2, 0, True, "2", [2.0, 2.0], torch.tensor([2.02 + 0.01])):
        assert exercise.grade(wrong).status == "failed"


WHOLE = {  # ways to write 3
    "int": 3, "torch": torch.tensor(3), "torch (1,)": torch.tensor([3]), "torch (1, 1)": torch.tensor([[3]]),
    "numpy scalar": numpy.int64(3), "numpy ()": numpy.array(3), "numpy (1,)": numpy.array([3]),
    "of a tensor": torch.tensor(3).numpy(), "backwards": numpy.array([3])[::-1], "list": [3], "tuple": (3,),
    "list of a tensor": [torch.tensor([3])], "list of a list": [[3]], "big-endian": numpy.array(3, dtype=">i4"),
}  # fmt: skip
FLOATS = {
    "float": 3.0, "torch": torch.tensor(3.0), "learned": torch.nn.Parameter(torch.tensor([3.0])),
    "half": torch.tensor(3.0, dtype=torch.bfloat16), "numpy scalar": numpy.float32(3), "numpy (1,)": numpy.array([3.0]),
    "list": [3.0], "fraction": Fraction(3), "list of a list": [[numpy.float64(3)]],
}  # fmt: skip
SEVERAL = {  # ways to write 3, 1, 2
    "list": [3, 1, 2], "tuple": (3, 1, 2), "torch": torch.tensor([3, 1, 2]), "numpy": numpy.array([3, 1, 2]),
    "of tensors": [torch.tensor(3), torch.tensor([1]), 2], "of arrays": [numpy.array([3]), numpy.int32(1), 2],
    "a column": torch.tensor([[3], [1], [2]]), "a row": numpy.array([[3, 1, 2]]), "of lists": [[3], [1], [2]],
}  # fmt: skip
NO_NUMBERS = {
    "a bool": True, "a bool in a list": [True], "numpy's bool": numpy.bool_(True), "torch's bool": torch.tensor(True),
    "a text": "1", "an empty list": [], "complex": torch.tensor(1 + 0j), "another": [4], "two": [1, 1], "a text in a list": ["1"],
    "an object": numpy.array([None]), "a dict": {1: 1}, "huge": [10**400], "ragged": [[1], [1, 1]],
}  # fmt: skip
ITSELF = [1]
ITSELF.append(ITSELF)


def passed(judge, ways):
    """Which of these answers to a `Number`, or results of one to `Counts`, are right."""
    given = {way: (lambda n, x=x: x) if isinstance(judge, Counts) else x for way, x in ways.items()}
    return {way for way, answer in given.items() if tiny(judge).grade(answer).status == "passed"}


def test_numbers_may_be_written_in_many_ways():
    assert passed(Number(lambda: 3), WHOLE) == set(WHOLE)
    assert passed(Number(lambda: 3), FLOATS) == set(FLOATS)
    assert passed(Number(lambda: (3, 1, 2)), SEVERAL) == set(SEVERAL)
    assert not passed(Number(lambda: (1, 3, 2)), SEVERAL)
    assert not passed(Number(lambda: 1), NO_NUMBERS | {"itself": ITSELF})


def test_counts_may_be_written_in_many_ways():
    def counts(right):
        seven = [Case("seven", (7,), gradients=False)]
        return Counts(lambda n: right, lambda seed: seven)

    ways = WHOLE | {f"{way}, no int": x for way, x in FLOATS.items()}
    assert passed(counts(3), ways) == set(ways)
    assert not passed(counts(3), {"a little more": 3.001, "NaN": math.nan, "infinite": math.inf})
    assert passed(counts((3, 1, 2)), SEVERAL) == set(SEVERAL)
    assert not passed(counts((1, 3, 2)), SEVERAL)
    assert not passed(counts(1), NO_NUMBERS)


SPOILT = (
    (torch.set_grad_enabled, False),
    (torch.set_default_dtype, torch.float64),
    (torch.set_default_device, "meta"),
)


@pytest.mark.parametrize(("change", "to"), SPOILT)
def test_a_verdict_depends_on_the_answer_only(change, to):
    exercise = doubling(twice=torch.ones(3))
    try:
        change(to)
        assert exercise.grade(lambda x: x + x.detach()).status == "failed"
        assert exercise.grade(lambda x: torch.full(x.shape, 2.0) * x).status == "passed"
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device("cpu")


def test_a_check_leaves_the_notebook_as_it_was():
    def careless(x):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(7)
        return 2 * x

    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    doubling(twice=torch.ones(3)).grade(careless)
    assert torch.rand(1) == expected
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32


def test_a_device_is_put_aside_and_back():
    torch.set_default_device("meta")
    try:
        with torch_defaults():
            assert torch.ones(1).device.type == "cpu"
            assert not torch.overrides._get_current_function_mode_stack(), "nothing slows it"
            torch.set_default_device("cpu")
        assert torch.ones(1).device.type == "meta"
    finally:
        torch.set_default_device(None)


def test_answers_that_defend_themselves_only_fail():
    class Hostile:
        def __repr__(self):
            raise RuntimeError

        def __eq__(self, other):
            raise RuntimeError

    exercise = doubling(twice=torch.ones(3), gradients=False)
    for answer in (lambda x: Hostile(), lambda x: x.to_sparse(), lambda x: x.to("meta")):
        assert exercise.grade(answer).status == "failed"
    assert tiny(Number(lambda: 2.0)).grade(Hostile()).status == "failed"


def test_an_answer_without_gradients_that_also_raises_only_fails():
    judge = doubling(small=torch.ones(2), large=torch.ones(3)).judge
    exercise = tiny(judge, ideas=[Mistake("no", lambda x: 3 * x)])
    verdict = exercise.grade(lambda x: 2 * x.detach() if len(x) == 2 else x.no_such_method())
    assert verdict.status == "failed"
    assert verdict.diagnosis == ""
