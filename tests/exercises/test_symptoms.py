"""Each sentence about an unknown wrong answer is said where it is true, and of no neighbour."""

import pytest
import torch

from attncourse.grading.exercise import Calls, expected_of
from attncourse.grading.inputs import sized_cases
from attncourse.grading.symptoms import symptom

pytestmark = pytest.mark.quick

CALLS = [
    ("3 queries, 4 keys", (2, 3, 5, 4, 6, 7), 1),
    ("large scores", (1, 2, 4, 5, 3, 6), 300),
    ("1 key", (2, 2, 3, 1, 4, 5), 1),
]


def attention(query, key, value):
    """Attention, and the scores' largest number of each query."""
    scores = query @ key.mT / query.size(-1) ** 0.5
    return scores.softmax(-1) @ value, scores.amax(-1)


def changing(*names, by=0.5, keep=lambda x: True):
    """Changes these inputs after everything is computed; only where ``keep`` finds the query fit."""

    def answer(query, key, value):
        results = attention(query.clone(), key.clone(), value.clone())
        for name, x in {"query": query, "key": key, "value": value}.items():
            if name in names:
                x.data += by * keep(query)
        return results

    return answer


def with_key(of):
    return lambda q, k, v: attention(q, of(k), v)


def no_largest(query, key, value, factor=1.0):
    scores = query @ key.mT / query.size(-1) ** 0.5
    weights = (factor * scores).exp()
    return weights / weights.sum(-1, keepdim=True) @ value, scores.amax(-1)


def halved(dtype, then=0.0):
    def answer(*inputs):
        found = attention(*(x.to(dtype) for x in inputs))
        return tuple(x.float() * (1 + then) for x in found)

    return answer


def output(change):
    """Changes the first result."""

    def answer(*inputs):
        first, second = attention(*inputs)
        return change(first, inputs[0]), second

    return answer


def wrong_where(found):
    return output(lambda x, q: x + 0.3 * x.abs().amax() * torch.rand(x.shape[-1]) * found(q))


def loud(q):
    return bool(q.abs().max() > 100)


IN_PLACE, LOST, CUT = "changed in place", "no gradient flows back", "a part of its way back is cut"
NAN, COARSE, THREE = "Most is right, but", "about two digits only", "about three digits only"
ONES, ORDER = "axes of size 1 are missing", "the axes stand in another order"
SWAPPED, ALONE = "stand in another order.", "only this one does not"


@pytest.mark.parametrize(
    ("answer", "said", "never"),
    [
        (changing("query", "key", "value"), "inputs are changed in place: key and query and value.", ()),
        (changing("key"), "an input is changed in place: key.", ("query", "value")),
        (changing("key", keep=loud), "an input is changed in place: key.", ("query", "value")),
        (changing("key", by=0), "", (IN_PLACE,)),
        # The gradient is None, or 0 everywhere; a part of it, or another one, is something else.
        (with_key(torch.detach), f"{LOST} to key.", ("query", CUT)),
        (with_key(lambda k: k.detach() + 0 * k), f"{LOST} to key.", ("query", CUT)),
        (with_key(lambda k: torch.where(k > 0, k, k.detach())), CUT, (LOST,)),
        (with_key(lambda k: 2 * k - k.detach()), CUT, (LOST,)),
        # NaN in one call of three, in all, and beside other mistakes.
        (no_largest, f"{NAN} there are NaN or infinite numbers here: large scores.", ()),
        (lambda q, k, v: no_largest(q, k, v, factor=3.0), "", (NAN, "NaN")),
        (output(lambda x, q: x * torch.nan), "", (NAN,)),
        (halved(torch.bfloat16), COARSE, (THREE,)),
        (halved(torch.float16), f"In 1 of 3 calls the numbers are right to {THREE}", (COARSE, ALONE)),
        (halved(torch.bfloat16, then=0.2), "", (COARSE, THREE)),
        (attention, "", (COARSE, THREE)),
        # One axis of size 1 too few, also where others have size 1; the right shape with other numbers.
        (output(lambda x, q: x.squeeze()), ONES, (ORDER,)),
        (output(lambda x, q: 2 * x.squeeze()), "", (ONES,)),
        (output(lambda x, q: x.mT), ORDER, (SWAPPED.replace(".", " of results"),)),
        (output(lambda x, q: x.mT.contiguous().view(x.shape)), "", (ORDER, ONES)),
        (lambda *x: attention(*x)[::-1], "The results are right, but stand in another order.", (ORDER,)),
        (lambda *x: tuple(2 * y for y in attention(*x)[::-1]), "", (SWAPPED,)),
        (wrong_where(loud), f"{ALONE}: large scores.", ()),
        (wrong_where(lambda q: not loud(q)), "", (ALONE,)),
    ],
)  # fmt: skip
def test_a_sentence_is_true_of_what_hears_it(answer, said, never):
    judge = Calls(attention, lambda seed: sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", CALLS))  # fmt: skip
    torch.manual_seed(0)
    found = symptom(expected_of(judge, 0), dict(judge.observe(answer, 0)))
    assert said in found
    assert not [words for words in never if words in found], found
