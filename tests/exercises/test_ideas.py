"""Which mistake is named: an idea of the exercise that shows the same in all calls."""

import pytest
import torch
from support.tiny import attention_cases, tiny

from attncourse.grading.answer import LocalAnswer, Question, as_answer
from attncourse.grading.dataflow import Dataflow
from attncourse.grading.exercise import Calls
from attncourse.grading.mistake import Mistake
from attncourse.grading.observe import Case

pytestmark = pytest.mark.quick


def attention(query, key, value):
    """Causal attention, by torch."""
    eye = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:2], -1, -1)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return tuple(sdpa(query, key, x, is_causal=True) for x in (value, eye))


@Dataflow
def right(query, key, value):
    scores = yield "the scaled scores", query @ key.mT / query.size(-1) ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = yield "the weights", scores.masked_fill(later, -torch.inf).softmax(-1)
    return weights @ value, weights


TWICE = right.but("The scores are doubled.", "the scaled scores", lambda x: 2 * x)


def exercise(ideas=(), right=None, judge=None):
    return tiny(judge or Calls(attention, attention_cases), right, ideas)


def test_an_idea_changes_one_value_and_is_named():
    assert exercise().grade(right).status == "passed"
    verdict = exercise([TWICE]).grade(TWICE.answer)
    assert (verdict.status, verdict.diagnosis) == ("failed", "The scores are doubled.")


@Dataflow
def faded(log_decay):
    total = yield "the running sums", log_decay.cumsum(-1)
    pairs = yield "the differences", total[..., :, None] - total[..., None, :]
    return pairs.exp().tril()


def decays(seed):
    g = torch.Generator().manual_seed(seed)
    return [Case(f"{t} tokens", (-torch.rand(2, 3, t, generator=g),)) for t in (4, 5)]


def test_a_dataflow_is_its_right_answer_and_has_ideas_of_its_own():
    logs = decays(0)[0].args[0]
    total = logs.cumsum(-1)
    assert torch.allclose(faded(logs), (total[..., :, None] - total[..., None, :]).exp().tril())
    assert [x.called for x in faded.values(logs)] == ["the running sums", "the differences"]
    idea = faded.but("The sums begin at 1.", "the running sums", lambda x: x + 1 + 0 * x**2)
    assert torch.allclose(idea.answer(logs), faded(logs)), "what is added cancels"


def test_an_idea_is_run_no_further_than_needed():
    called = []

    def wrong(x):
        called.append(len(x))
        return 5 * x

    all_cases = [Case(f"{n} numbers", (torch.ones(n),)) for n in (1, 2, 3)]
    checked = exercise([Mistake("Five times.", wrong)], judge=Calls(lambda x: 2 * x, lambda seed: all_cases))  # fmt: skip
    assert checked.grade(lambda x: 3 * x).diagnosis == ""
    assert called == [1], "one case told them apart"
    assert checked.grade(lambda x: 5 * x).diagnosis == "Five times."
    assert called[:4] == [1, 1, 2, 3]


def test_only_a_remote_answer_is_one():
    class Pretends:
        def results(self, calls):
            return [lambda: "right"] * len(calls)

        def __call__(self, *args):
            return "wrong"

    assert isinstance(as_answer(Pretends()), LocalAnswer)
    assert as_answer(Pretends()).results([Question(())])[0]().output == "wrong"
