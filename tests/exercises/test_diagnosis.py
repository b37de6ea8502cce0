"""What a wrong answer hears: the mistake it shows, two at once, or what can be noticed of it."""

import pytest
import torch
from support.tiny import tiny

from attncourse.grading.answer import LocalAnswer, Question, as_answer
from attncourse.grading.diagnosis import Diagnosis, Mistake, alike, fingerprint, pairs_of
from attncourse.grading.exercise import SEEDS, Calls, expected_of
from attncourse.grading.inputs import sized_cases
from attncourse.grading.mistakes import ATTENTION, masks, mistakes_of, rules, weights
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe

pytestmark = pytest.mark.quick

CALLS = [
    ("3 queries, 4 keys", (2, 3, 5, 4, 6, 7), 1),
    ("large scores", (1, 2, 4, 5, 3, 6), 300),
    ("1 key", (2, 2, 3, 1, 4, 5), 1),
]
RIGHT = Recipe(lambda query, key, value: Given(query, key, value, 0))
MISTAKES = mistakes_of(RIGHT, *ATTENTION, masks, rules, weights, without=("top left",))


def attention(query, key, value):
    """Causal attention, by torch."""
    eye = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:2], -1, -1)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return tuple(sdpa(query, key, x, is_causal=True) for x in (value, eye))


def cases(seed):
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", CALLS)


def exercise(mistakes=MISTAKES, judge=None):
    return tiny(judge or Calls(attention, cases), {"right": RIGHT}, mistakes)


def test_the_recipe_is_attention():
    assert exercise().grade(RIGHT).status == "passed"


def test_a_mistake_replaces_steps_and_keeps_the_rest():
    mistake = RIGHT.but("The scale is missing.", scale=lambda x: 1.0)
    assert mistake.answer.mix is RIGHT.mix
    assert set(mistake.steps) == {"scale"}
    verdict = exercise([mistake]).grade(mistake.answer)
    assert (verdict.status, verdict.diagnosis) == ("failed", "The scale is missing.")


def test_a_family_leaves_out_only_what_it_has():
    with pytest.raises(ValueError, match="no mistake is called unscalled; there are"):
        mistakes_of(RIGHT, *ATTENTION, without=("unscalled",))


def test_two_mistakes_at_once_are_named_together():
    def twice_wrong(query, key, value):
        scores = (query @ key.mT).tril()
        weights = scores.softmax(-1)
        return weights @ value, weights

    says = exercise().grade(twice_wrong).diagnosis
    assert says.startswith("Two mistakes at once. ")
    assert "not divided by sqrt(head_dim)" in says
    assert "set to 0 instead of minus infinity" in says


def test_pairs_replace_different_steps():
    one, same, other = (RIGHT.but(s, **{step: None}) for s, step in zip("abc", ("mix", "mix", "scale"), strict=True))  # fmt: skip
    found = pairs_of([one, same, other, Mistake("d", attention)])
    assert [pair.says for pair in found] == [
        "Two mistakes at once. a c",
        "Two mistakes at once. b c",
    ]


def test_two_mistakes_are_tried_only_where_they_may_be_the_answer():
    """One changes nothing in the first call, one gives another shape: alone they show what the two would."""

    tiny = exercise()
    assert tiny.grade(lambda q, k, v: (attention(q, k, v)[0].exp(), attention(q, k, v)[1])).findings
    (found,) = tiny._diagnoses.values()
    assert len(found.double) < len(pairs_of(MISTAKES))
    tiny = exercise()
    assert tiny.grade(lambda q, k, v: attention(q, k, v)[0][..., None]).diagnosis == ""
    (found,) = tiny._diagnoses.values()
    assert len(found.double) < len(pairs_of(MISTAKES)) / 4


def test_a_mistake_is_run_no_further_than_needed_and_only_once():
    called = []

    def wrong(x):
        called.append(len(x))
        return 5 * x

    all_cases = [Case(f"{n} numbers", (torch.ones(n),)) for n in (1, 2, 3)]
    judge = Calls(lambda x: 2 * x, lambda seed: all_cases)
    tiny = exercise([Mistake("Five times.", wrong)], judge)
    assert tiny.grade(lambda x: 3 * x).diagnosis == ""
    assert called == [1], "one case told them apart"
    assert tiny.grade(lambda x: 5 * x).diagnosis == "Five times."
    assert tiny.grade(lambda x: 5 * x).diagnosis == "Five times."
    assert called == [1, 2, 3]


def test_what_is_known_belongs_to_a_seed():
    tiny = exercise(MISTAKES[:1])
    for seed in range(6):
        for _ in "ab":
            assert tiny.grade(MISTAKES[0].answer, seed).diagnosis == MISTAKES[0].says
    assert 1 < len(tiny._diagnoses) <= 4, "kept, and not without end"
    assert len({found.seed for found in tiny._diagnoses.values()}) == len(tiny._diagnoses)


def transposed(query, key, value):
    output, weights = attention(query, key, value)
    return output.transpose(0, 1), weights


def in_bfloat16(query, key, value):
    output, weights = attention(*(x.bfloat16() for x in (query, key, value)))
    return output.float(), weights.float()


def nearly(query, key, value):
    output, weights = attention(query, key, value)
    return output + 5e-4 * weights.amax(-1, keepdim=True), weights


def without_key(query, key, value):
    return attention(query, key.detach(), value)


def not_a_number(query, key, value):
    output, weights = attention(query, key, value)
    return (output / 0 if len(key[0, 0]) == 1 else output), weights


def only_once(query, key, value):
    output, weights = attention(query, key, value)
    return output + (query.abs().max() > 100), weights


@pytest.mark.parametrize(
    ("answer", "noticed"),
    [
        (transposed, "The numbers are right, but the axes stand in another order."),
        (lambda *x: attention(*x)[::-1], "The results are right, but stand in another order."),
        (in_bfloat16, "right to about two digits"),
        (without_key, "no gradient flows back to key"),
        (lambda *x: None, "expected 2 results, got None; is `return` missing?"),
        (lambda q, k, v: attention(q if q else k, k, v), "asked whether it is true"),
        (lambda q, k, v: lambda: attention(q, k, v), "return what it gives when it is called"),
        (nearly, "right to about three digits"),
        (
            lambda *x: tuple(r.detach().numpy() for r in attention(*x)),
            "these are arrays of numpy; return tensors",
        ),
        (
            lambda q, k, v: (3 * attention(q, k, v)[0], attention(q, k, v)[1]),
            "are 3 times what they should be.",
        ),
        (
            lambda q, k, v: attention(q, k, v if len(v) < 2 else v / 4),
            "0.25 times what they should be, in 2 of 3 calls",
        ),
        (not_a_number, "NaN or infinite numbers here: 1 key"),
        (only_once, "only this one does not: large scores"),
    ],
)
def test_what_no_mistake_explains_is_described(answer, noticed):
    verdict = exercise([]).grade(answer)
    assert verdict.diagnosis == ""
    assert noticed in verdict.findings[0]


def test_another_type_is_no_rounding():
    judge = Calls(lambda x: x > 0, lambda seed: [Case("3 numbers", (torch.arange(3) - 1,))])
    verdict = exercise([], judge).grade(lambda x: (x > 0).long())
    assert "but their type is torch.int64; torch.bool is asked" in verdict.findings[0]


class Noticing(Calls):
    def notice(self, expected, seen, seed):
        same = len(expected) == len(seen)
        return "The judge has noticed this." if same and seed == 5 + SEEDS else ""


def test_a_judge_may_notice_what_no_mistake_explains():
    tiny = exercise(judge=Noticing(attention, cases))
    answer = transposed  # the symptom of which is known, too
    assert tiny.grade(answer, 5).findings[0] == "The judge has noticed this."
    assert "the axes stand in another order" in tiny.grade(answer, 6).findings[0]
    assert "noticed" not in str(tiny.grade(MISTAKES[0].answer, 5).findings), "a known mistake"


def test_nothing_is_said_of_what_is_simply_wrong():
    judge = Calls(attention, cases)
    seen = dict(judge.observe(lambda q, k, v: attention(q, k + q.mean(), v), 0))
    assert Diagnosis(judge, [], expected_of(judge, 0), 0).of(seen) == ("", "")


def test_only_a_remote_answer_is_one():
    class Pretends:
        def results(self, calls):
            return [lambda: "right"] * len(calls)

        def __call__(self, *args):
            return "wrong"

    assert isinstance(as_answer(Pretends()), LocalAnswer)
    assert as_answer(Pretends()).results([Question(())])[0]().output == "wrong"


@pytest.mark.parametrize(
    ("answer", "noticed"),
    [
        (lambda x: (2 * x).tolist(), "this is a list; return a tensor"),
        (lambda x: (2 * x).detach().numpy(), "this is an array of numpy; return a tensor"),
        (lambda x: (x, 2 * x), "this is 2 results, of which only number 2 is asked"),
        (lambda x: [2.0, "two"], "expected a tensor"),
    ],
)
def test_a_right_tensor_in_a_parcel_is_told(answer, noticed):
    judge = Calls(lambda x: 2 * x, lambda seed: [Case(f"{n} numbers", (torch.ones(n) / n,)) for n in (3, 4)])  # fmt: skip
    assert noticed in exercise([], judge).grade(answer).findings[0]


def test_fingerprints_tell_apart_weights_whose_rows_all_sum_to_one():
    weights = (8 * torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))).softmax(-1)
    assert alike(fingerprint(weights), fingerprint(weights.double() + 1e-5))
    for other in (weights.flip(-1), weights.roll(1, 1), torch.full_like(weights, 1 / 6)):
        assert not alike(fingerprint(weights), fingerprint(other))
