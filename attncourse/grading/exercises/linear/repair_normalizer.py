"""Exercise repair_normalizer: sums that are divided by the wrong total, or by none."""

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.linear._slips import SHARED, limits
from attncourse.grading.exercises.linear._summed import (
    EXTREMES,
    UNIT,
    Given,
    Summed,
    drawn,
    elu_plus_one,
    extremes,
    faint,
)
from attncourse.grading.exercises.linear._told import Reads
from attncourse.grading.mistakes import mistakes_of
from attncourse.grading.slips import alone


def definition(query, key, value, is_causal):
    """The loops of the course, pair by pair."""
    return spec.linear_attention(query, key, value, is_causal=is_causal)[0]


CALLS = (  # what is special, b h n m d e, how loud, is_causal
    ("is_causal=True, 2 samples, 3 heads, 5 tokens, values 6 wide", (2, 3, 5, 5, 4, 6), 1, True),
    ("is_causal=False, 4 queries, 7 keys", (2, 3, 4, 7, 5, 3), 1, False),
    (f"is_causal=True, {UNIT}", (1, 2, 6, 6, 3, 0), 1, True),
    (f"is_causal=False, {UNIT}", (1, 2, 3, 5, 4, 0), 1, False),
    ("is_causal=True, 1 token", (3, 2, 1, 1, 4, 5), 1, True),
    ("is_causal=False, 1 query, 6 keys", (3, 1, 1, 6, 2, 4), 1, False),
    ("is_causal=True, features near 0 and far from it", (1, 3, 7, 7, 2, 4), 4, True),
    (f"is_causal=True, {EXTREMES}", (2, 2, 5, 5, 3, 4), extremes, True),
    (f"is_causal=False, {EXTREMES}", (1, 2, 4, 3, 3, 5), extremes, False),
    (
        "is_causal=False, 6 queries, 6 keys, all features near 0",
        (2, 2, 6, 6, 3, 4),
        1,
        False,
    ),
)


def cases(seed: int) -> list[Case]:
    found = drawn(seed, CALLS)
    for x in found[-1].args[:2]:
        x.copy_(faint(x))
    return found


def given(query, key, value, is_causal):
    return Given(query, key, value, causal=is_causal)


RIGHT = Summed(given)
ACCEPTED = Accepted(a_table=RIGHT)


@ACCEPTED.add
def a_one_beside_each_value(query, key, value, is_causal):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    table = q @ k.transpose(-1, -2)
    if is_causal:
        table = table.tril()
    read = table @ F.pad(value, (0, 1), value=1.0)
    return read[..., :-1] / read[..., -1:]


@ACCEPTED.add
def running_sums(query, key, value, is_causal):
    q, k = elu_plus_one(query), elu_plus_one(key)
    outer = k[..., None] * value[..., None, :]
    if is_causal:
        states, totals = outer.cumsum(2), k.cumsum(2)
    else:
        states, totals = outer.sum(2, keepdim=True), k.sum(2, keepdim=True)
    return (q[..., None] * states).sum(-2) / (q * totals).sum(-1, keepdim=True)


@ACCEPTED.add
def token_by_token(query, key, value, is_causal):
    q, k = elu_plus_one(query), elu_plus_one(key)
    rows = []
    for i in range(q.shape[2]):
        last = i + 1 if is_causal else k.shape[2]
        w = torch.einsum("bhd,bhjd->bhj", q[:, :, i], k[:, :, :last])
        w = w / w.sum(-1)[..., None]
        rows.append(torch.einsum("bhj,bhje->bhe", w, value[:, :, :last]))
    return torch.stack(rows, dim=2)


@ACCEPTED.add
def masked_weights(query, key, value, is_causal):
    scores = torch.einsum("bhid,bhjd->bhij", elu_plus_one(query), elu_plus_one(key)).double()
    if is_causal:
        later = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(later, 0)
    return F.normalize(scores, p=1, dim=-1) @ value.double()


def only(causal, **steps):
    """The right answer, with other steps where is_causal is this."""

    def answer(query, key, value, is_causal):
        wrong = Mistakes([RIGHT.but("Other steps.", **steps)])[0].answer
        return (wrong if is_causal == causal else RIGHT)(query, key, value, is_causal)

    return answer


def everything(n, m, x):
    return torch.ones(n, m)


def nothing_divided(sums, total, x):
    return sums


def as_found(query, key, value, is_causal):
    steps = {"counted": everything} if is_causal else {"divide": nothing_divided}
    return RIGHT.but("As found.", **steps).answer(query, key, value, is_causal)


def triangle_of(query, key, is_causal):
    table = torch.ones(query.size(2), key.size(2))
    return table.tril() if is_causal else table


def made(output):
    """``output`` makes the output of the table of products, masked, and the values."""

    def answer(query, key, value, is_causal):
        table = elu_plus_one(query) @ elu_plus_one(key).mT * triangle_of(query, key, is_causal)
        return output(table, value)

    return answer


NOT_CAUSAL = "With is_causal=False"
MISTAKES = Mistakes(mistakes_of(RIGHT, *SHARED, without=("all read", "all counted")))
MISTAKES += alone(mistakes_of(RIGHT, limits))
MISTAKES += [Mistake(says, answer) for says, answer in (
    ("This is the code as found: with is_causal=True the total runs over later keys, too, and with is_causal=False there is none.", as_found),
    (f"{NOT_CAUSAL} the sums are still not divided by the sum of the weights; the causal part is right.",
     only(False, divide=nothing_divided)),
    ("With is_causal=True the total still runs over all keys, later ones too; the other part is right.", only(True, counted=everything)),
    ("With is_causal=True the sums are not divided at all; the other part is right.", only(True, divide=nothing_divided)),
    (f"{NOT_CAUSAL} the sums are divided by the number of keys; divide by the sum of the weights.",
     only(False, divide=lambda s, t, x: s / x.key.size(2))),
    (f"{NOT_CAUSAL} the sums are divided by the sum of the features of the keys, without the query.",
     only(False, divide=lambda s, t, x: s / elu_plus_one(x.key).sum((2, 3), keepdim=False)[..., None, None])),
    ("The sums are divided by the features of the keys alone; the query has its part in each weight.",
     lambda q, k, v, c: (elu_plus_one(q) @ elu_plus_one(k).mT * triangle_of(q, k, c)) @ v
     / (triangle_of(q, k, c) @ elu_plus_one(k)).sum(-1, keepdim=True)),
    (f"{NOT_CAUSAL} the mask is used, too: queries read keys 0..i only.", only(False, pairs=lambda n, m, x: torch.ones(n, m).tril())),
    ("With is_causal=True the mask is gone: later keys are read.", only(True, pairs=everything)),
    ("With is_causal=True the total leaves out the token itself.", only(True, counted=lambda n, m, x: torch.ones(n, m).tril(-1))),
    ("The weights are added up over the queries; each query has a total of its own, over the keys.",
     made(lambda w, v: w / w.sum(-2, keepdim=True) @ v)),
    ("A softmax is taken of the products; divide them by their sum.",
     lambda q, k, v, c: (elu_plus_one(q) @ elu_plus_one(k).mT).masked_fill(triangle_of(q, k, c) == 0, -torch.inf).softmax(-1) @ v),
    ("Every query is divided by the total of the last query; each has its own.",
     made(lambda w, v: w @ v / w.sum(-1, keepdim=True)[:, :, -1:])),
    ("The total is one for the whole table; each query has its own.",
     made(lambda w, v: w @ v / w.sum((-1, -2), keepdim=True))),
)]  # fmt: skip


EXERCISE = Exercise(
    name="repair_normalizer",
    answer="normalized",
    judge=Reads(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
