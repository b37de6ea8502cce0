"""Each sentence of an explainer is said where it is true, and of no neighbour."""

import pytest
import torch
from support.tiny import attention_cases, tiny

from attncourse.grading import load
from attncourse.grading.dataflow import Dataflow
from attncourse.grading.exercise import Calls
from attncourse.grading.observe import Case

pytestmark = pytest.mark.quick


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


def short(bits):
    """Results whose last bits are 0, as bfloat16 (16) and float16 (13) leave them."""

    def answer(*inputs):
        found = attention(*inputs)
        return tuple((x.view(torch.int32) >> bits << bits).view(torch.float32) for x in found)

    return answer


def output(change):
    """Changes the first result."""

    def answer(*inputs):
        first, second = attention(*inputs)
        return change(first, inputs[0]), second

    return answer


def loud(q):
    return bool(q.abs().max() > 100)


IN_PLACE, LOST, CUT = "changed in place", "no gradient flows back", "a part of its way back is cut"
NAN, COARSE, THREE = "NaN or infinite numbers: ", "about two digits only", "about three digits only"
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
        (no_largest, "there are NaN or infinite numbers: large scores.", ()),
        (lambda q, k, v: no_largest(q, k, v, factor=3.0), "", (NAN, "NaN")),
        (output(lambda x, q: x * torch.nan), "", (NAN,)),
        (short(16), COARSE, (THREE,)),
        (short(13), f"numbers are right to {THREE}", (COARSE, ALONE)),
        (halved(torch.bfloat16), "torch.bfloat16, which rounds them", (COARSE, THREE)),
        (halved(torch.float16, then=0.2), "torch.float16, which rounds", (COARSE, THREE)),
        (attention, "", (COARSE, THREE)),
        # One axis of size 1 too few, also where others have size 1; the right shape with other numbers.
        (output(lambda x, q: x.squeeze()), ONES, (ORDER,)),
        (output(lambda x, q: 2 * x.squeeze()), "", (ONES,)),
        (output(lambda x, q: x.mT), ORDER, (SWAPPED.replace(".", " of results"),)),
        (output(lambda x, q: x.mT.contiguous().view(x.shape)), "", (ORDER, ONES)),
        (lambda *x: attention(*x)[::-1], "The results are right, but stand in another order.", (ORDER,)),
        (lambda *x: tuple(2 * y for y in attention(*x)[::-1]), "", (SWAPPED,)),
    ],
)  # fmt: skip
def test_a_sentence_is_true_of_what_hears_it(answer, said, never):
    found = tiny(Calls(attention, attention_cases)).grade(answer).findings[:1]
    found = "".join(found)
    assert said in found
    assert not [words for words in never if words in found], found


def tables(seed):
    return [Case(f"{n} tokens", (torch.randn(2, 3, n, 5),)) for n in (4, 6, 7)]


TABLES = Calls(lambda x: x, tables)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x: x.flip(2), "The tokens stand in the opposite order."),
        (lambda x: x.roll(1, 2), "Everything is moved by one token."),
        (lambda x: x.mean(1), "The right results are averaged over the heads; keep those of each head."),
        (lambda x: x[:, :1].expand_as(x), "The result of head 0 stands at all heads."),
        (lambda x: x[:, :, 1:], "The result of token 0 is missing."),
        (lambda x: x[:1], "Only the result of sample 0 is returned; return those of all samples."),
        (lambda x: x.exp(), "This is the exponential of the right result."),
        (lambda x: x.softmax(-1), "The results went through a softmax over the features."),
        (lambda x: x + torch.eye(x.size(-2), 5), "all that is wrong stands where the number of the feature is equal to that of the token"),
        (lambda x: torch.cat([x[:, :2], 7 * x[:, 2:]], 1).pow(2).sqrt() * x.sign(), "all that is wrong stands at head 2; the rest is right within 0.0003."),
        (lambda x: x + (x.size(2) == 6) * x.sin().relu(), "only this one does not: 6 tokens."),
        (lambda x: x.nope(), "raised AttributeError: 'Tensor' object has no attribute 'nope'; in line"),
        (lambda x: x if nobody else x, "A name is used that nothing has been given"),  # noqa: F821
    ],
)  # fmt: skip
def test_relations_and_places_are_said_by_the_names_of_axes(answer, says):
    verdict = tiny(TABLES, axes=("b h t d",)).grade(answer)
    assert says in " ".join(verdict.findings[:2])


@Dataflow
def normalized(x):
    centred = yield "the centred numbers", x - x.mean(-1, keepdim=True)
    spread = yield "the variances", centred.square().mean(-1)
    return centred / (spread + 1).sqrt()[:, None]


def test_the_first_step_that_is_not_computed_is_named():
    case = Case("3 tokens", (torch.randn(3, 7),), gradients=False)
    exercise = tiny(Calls(normalized, lambda seed: [case]), normalized)

    def loops(x):
        return torch.stack([(r - r.mean()) / ((r - r.mean()).square().sum() + 1).sqrt() for r in x])

    said = exercise.grade(loops).findings[0]
    assert said.startswith("Among what the answer makes in the call '")
    assert "' are the centred numbers, with the right" in said
    assert "One right way goes on with the variances" in said
    assert "computes" not in exercise.grade(lambda x: 3.3 * x.sort().values.tan()).findings[0]


def test_a_map_is_looked_at_where_only_outputs_are_asked():
    def output(query, key, value):
        return attention(query, key, value)[0]

    def of(change):
        return lambda q, k, v: change(q @ k.mT / q.size(-1) ** 0.5) @ v

    exercise = tiny(Calls(output, attention_cases))
    for change, says in (
        (lambda s: s.softmax(-1).tril(), "query 0 gives key 1 no weight; it should give it some"),
        (lambda s: (2 * s).softmax(-1), "those of scores 2 times as large as they should be"),
        (lambda s: 1.5 * s.softmax(-1), "1.5 times what they should be"),
        (lambda s: s.softmax(-1).mean(1, keepdim=True).expand_as(s), "averaged over the heads"),
        (lambda s: (s.relu() + 0.1).softmax(-1) / 1.25 + 0.01, "sum to 0.84; they should sum to 1"),
    ):
        assert says in exercise.grade(of(change)).findings[0], says


def test_pairs_of_a_mask_are_named():
    def mask(last):
        return lambda n, m: torch.ones(n, m).tril(last).bool()

    judge = Calls(mask(0), lambda seed: [Case("4 and 5", (4, 5))], gradients=False)
    more, less = (tiny(judge, axes=("n m",)).grade(mask(last)) for last in (1, -1))
    assert "query 0 reads key 1, and should not." in more.findings[0]
    assert "query 0 does not read key 0, but should." in less.findings[0]


@pytest.mark.parametrize(
    ("answer", "noticed"),
    [
        (lambda x: (2 * x).tolist(), "this is a list; return a tensor"),
        (lambda x: (2 * x).detach().numpy(), "this is an array of numpy; return a tensor"),
        (lambda x: (x, 2 * x), "this is 2 results, of which only number 2 is asked"),
        (lambda x: [2.0, "two"], "expected a tensor"),
        (lambda x: 2 * x > 0, ", got torch.bool"),
    ],
)
def test_a_right_tensor_in_a_parcel_is_told(answer, noticed):
    judge = Calls(lambda x: 2 * x, lambda seed: [Case(f"{n} numbers", (torch.ones(n) / n,)) for n in (3, 4)])  # fmt: skip
    assert noticed in tiny(judge).grade(answer).findings[0]


def test_nothing_is_said_of_what_is_simply_wrong():
    wrong = tiny(TABLES).grade(lambda x: (x * 7).sin() + x.cos())
    assert "numbers differ" in wrong.findings[0]


def test_weights_are_not_told_of_a_call_that_raises():
    """With the identity as values the sizes meet by chance, so a map could be read that the call does not have."""

    def answer(query, keys, values, bandwidth):
        rows = []
        for q in query:
            e = torch.exp(-((q - keys) ** 2).sum(-1) / (2 * bandwidth**2))
            rows.append((e[:, None] * values).sum(0) / e)
        return torch.stack(rows)

    verdict = load("kernel_regression").grade(answer)
    assert "must match the size" in " ".join(verdict.findings)
    assert "sum to" not in f"{verdict.diagnosis} {verdict.findings}"


def test_whole_numbers_are_no_proof_of_a_function():
    """A share that is always rounded up to 1 was not made by a sigmoid."""

    def answer(distance, buckets, furthest):
        half, size = buckets // 2, distance.abs()
        return torch.where(size <= half, size, half + 1) * distance.sign()

    verdict = load("log_bucket").grade(answer)
    assert verdict.status == "failed"
    assert "sigmoid" not in f"{verdict.diagnosis} {verdict.findings}"
