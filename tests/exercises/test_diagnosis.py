"""Which mistake is named: an idea of the exercise, or a step of its right answer that was changed."""

import pytest
import torch
from support.tiny import tiny

from attncourse.grading.answer import LocalAnswer, Question, as_answer
from attncourse.grading.dataflow import dataflow, named
from attncourse.grading.diagnosis import alike, fingerprint
from attncourse.grading.exercise import Calls
from attncourse.grading.inputs import sized_cases
from attncourse.grading.mistake import Mistake
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe

pytestmark = pytest.mark.quick

CALLS = [
    ("3 queries, 4 keys", (2, 3, 5, 4, 6, 7), 1),
    ("large scores", (1, 2, 4, 5, 3, 6), 300),
    ("1 key", (2, 2, 3, 1, 4, 5), 1),
]
RIGHT = Recipe(lambda query, key, value: Given(query, key, value, 0))
SCALE = RIGHT.but("The scale is missing.", scale=lambda x: 1.0)


def attention(query, key, value):
    """Causal attention, by torch."""
    eye = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:2], -1, -1)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return tuple(sdpa(query, key, x, is_causal=True) for x in (value, eye))


def cases(seed):
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", CALLS)


def exercise(ideas=(), right=None, judge=None):
    return tiny(judge or Calls(attention, cases), right, ideas)


def test_the_recipe_is_attention():
    assert exercise().grade(RIGHT).status == "passed"


def test_a_mistake_replaces_steps_and_keeps_the_rest():
    assert SCALE.answer.mix is RIGHT.mix
    assert set(SCALE.steps) == {"scale"}
    verdict = exercise([SCALE]).grade(SCALE.answer)
    assert (verdict.status, verdict.diagnosis) == ("failed", "The scale is missing.")


def test_mistakes_follow_from_a_recipe_and_ideas_come_first():
    unscaled = SCALE.answer
    assert exercise(right=RIGHT).grade(unscaled).diagnosis.startswith("The scores are not divided")
    assert exercise([SCALE], RIGHT).grade(unscaled).diagnosis == "The scale is missing."


@dataflow(log_decay="the log-decays: b h t")
def faded(log_decay):
    total = yield named("the running sums: b h t", log_decay.cumsum, dim=-1)
    pairs = yield named("the differences: b h i j", total[..., :, None] - total[..., None, :])
    return pairs.exp().tril()


def decays(seed):
    g = torch.Generator().manual_seed(seed)
    return [Case(f"{t} tokens", (-torch.rand(2, 3, t, generator=g),)) for t in (4, 5)]


def of_sums(change):
    """The table of decays of other running sums."""

    def answer(log_decay):
        total = change(log_decay)
        return (total[..., :, None] - total[..., None, :]).exp().tril()

    return answer


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (of_sums(lambda x: x.cumsum(-1).detach()), "No gradient flows through the "),
        (of_sums(lambda x: x.cumsum(1)), "The running sums are made along the heads; make them along the tokens."),
        (of_sums(lambda x: x.cumsum(-1)[:, :1].expand_as(x)), "The differences of head 0 are used for all heads; each"),
        (of_sums(lambda x: -x.cumsum(-1)), "In the differences the axes of row and column are exchanged."),
        (of_sums(lambda x: x.roll(1, 0).cumsum(-1)), "The differences of the samples are exchanged;"),
        (of_sums(lambda x: x.mul_(2).cumsum(-1) / 2), "The log-decays are changed in place"),
    ],
)  # fmt: skip
def test_mistakes_follow_from_named_values(answer, says):
    verdict = exercise(right=faded, judge=Calls(faded, decays)).grade(answer)
    assert verdict.diagnosis.startswith(says)


def test_a_dataflow_is_its_right_answer_and_has_ideas_of_its_own():
    logs = decays(0)[0].args[0]
    assert torch.allclose(faded(logs), of_sums(lambda x: x.cumsum(-1))(logs))
    assert [x.called for x in faded.values(logs)] == ["the running sums", "the differences"]
    idea = faded.but("The sums begin at 1.", "the running sums", lambda x: x + 1 + 0 * x**2)
    assert torch.allclose(idea.answer(logs), faded(logs)), "what is added cancels"


def test_a_mistake_is_run_no_further_than_needed_and_only_once():
    called = []

    def wrong(x):
        called.append(len(x))
        return 5 * x

    all_cases = [Case(f"{n} numbers", (torch.ones(n),)) for n in (1, 2, 3)]
    checked = exercise([Mistake("Five times.", wrong)], judge=Calls(lambda x: 2 * x, lambda seed: all_cases))  # fmt: skip
    assert checked.grade(lambda x: 3 * x).diagnosis == ""
    assert called == [1], "one case told them apart"
    assert checked.grade(lambda x: 5 * x).diagnosis == "Five times."
    assert checked.grade(lambda x: 5 * x).diagnosis == "Five times."
    assert called == [1, 2, 3]


def test_what_is_known_belongs_to_a_seed():
    checked = exercise([SCALE])
    for seed in range(6):
        for _ in "ab":
            assert checked.grade(SCALE.answer, seed).diagnosis == SCALE.says
    assert 1 < len(checked._diagnoses) <= 4, "kept, and not without end"
    assert len({found.seed for found in checked._diagnoses.values()}) == len(checked._diagnoses)


def test_only_a_remote_answer_is_one():
    class Pretends:
        def results(self, calls):
            return [lambda: "right"] * len(calls)

        def __call__(self, *args):
            return "wrong"

    assert isinstance(as_answer(Pretends()), LocalAnswer)
    assert as_answer(Pretends()).results([Question(())])[0]().output == "wrong"


def test_fingerprints_tell_apart_weights_whose_rows_all_sum_to_one():
    weights = (8 * torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))).softmax(-1)
    assert alike(fingerprint(weights), fingerprint(weights.double() + 1e-5))
    for other in (weights.flip(-1), weights.roll(1, 1), torch.full_like(weights, 1 / 6)):
        assert not alike(fingerprint(weights), fingerprint(other))
