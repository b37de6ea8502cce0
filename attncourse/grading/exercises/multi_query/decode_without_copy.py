"""Exercise decode_without_copy: one decoding step that reads the cache where it lies."""

import math
from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.families import ATTENTION, gradients, in_place, mistakes_of
from attncourse.grading.inputs import alternating, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.recipe import Given, Recipe, triangle


def definition(query, key, value):
    """The loops of the course; the new token may read everything."""
    return spec.grouped_query_attention(query, key, value)[0]


MEASURED = "3 samples, 4 heads, 512 tokens, head_dim 16", (3, 4, 1, 512, 16, 16), 1
CALLS = (  # what is special, b h n m d e, how loud
    ("2 samples, 3 heads, 5 tokens, head_dim 6, values 7 wide", (2, 3, 1, 5, 6, 7), 1),
    ("as many samples as heads", (3, 3, 1, 4, 5, 2), 1),
    ("1 head", (2, 1, 1, 4, 3, 5), 1),
    ("1 token", (2, 3, 1, 1, 4, 4), 1),
    ("large scores", (2, 3, 1, 5, 6, 4), 300),
    ("scores near 768 and -768", (1, 3, 1, 5, 4, 3), lambda q, k: alternating(q.transpose(1, 2), k)),
    MEASURED,
)  # fmt: skip
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b n m d, b n m e")


def memory(answer) -> bool | str:
    """True when nothing new is as large as the keys, else the operation that made it."""
    args = CASES(7, calls=[MEASURED])[0].args
    made = as_answer(answer).allocations(*args)
    times, (what, _, shape) = made.new / args[1].numel(), made.how.partition(" makes one ")
    return times < 1 or Described(f"{what} makes {times:.0f} x their numbers: one {shape}")


FAST = partial(F.scaled_dot_product_attention, enable_gqa=True)
LARGE = (1, 2, 1, 128), (1, 1, 13 * 2**14, 128), (1, 1, 13 * 2**14, 128)  # keys of 104 MiB
RIGHT = Recipe(  # the heads are rows
    Given, score=lambda x: (x.query.transpose(1, 2) @ x.key.mT).transpose(1, 2),
    mix=lambda weights, x: (weights.transpose(1, 2) @ x.value).transpose(1, 2), answer=lambda output, *made: output,
)  # fmt: skip
ACCEPTED = Accepted(heads_as_rows=RIGHT, shared_by_torch=FAST)


@ACCEPTED.add
def folded_and_of_torch(query, key, value):
    return F.scaled_dot_product_attention(query.transpose(1, 2), key, value).transpose(1, 2)


@ACCEPTED.add
def einsum(query, key, value):
    q, k, v = query.squeeze(2), key.squeeze(1), value.squeeze(1)
    scores = torch.einsum("bhd,bmd->bhm", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhm,bme->bhe", scores.softmax(-1), v).unsqueeze(2)


@ACCEPTED.add
def one_head_after_the_other(query, key, value):
    heads = [F.scaled_dot_product_attention(q, key, value) for q in query.split(1, dim=1)]
    return torch.cat(heads, dim=1)


@ACCEPTED.add
def sample_by_sample(query, key, value):
    out = torch.empty(*query.shape[:3], value.size(-1))
    for o, q, k, v in zip(out, query, key, value, strict=True):
        scores = k[0] @ q[:, 0].T / q.size(-1) ** 0.5  # (tokens, heads)
        o[:, 0] = torch.softmax(scores, dim=0).T @ v[0]
    return out


@ACCEPTED.add
def batched_product(query, key, value):
    scores = torch.bmm(query.flatten(1, 2) / query.size(-1) ** 0.5, key.flatten(1, 2).mT).double()
    weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True)).float()
    return torch.bmm(weights, value.flatten(1, 2)).unsqueeze(2)


WITHOUT = "scaled by queries", "softmax over queries", "softmax over both", "weights transposed"
MISTAKES = Mistakes([
    *mistakes_of(RIGHT, *(f for f in ATTENTION if f is not gradients), in_place, without=WITHOUT),
    RIGHT.but("is_causal lets query 0 read key 0 only; the new token is the last one and may read everything.",
              given=lambda q, k, v: Given(q, k, v, 0)),
    RIGHT.but("is_causal counts the folded heads as positions: head h then reads tokens 0 to h only. A new token "
              "may read everything.", given=lambda q, k, v: Given(q, k, v, triangle(q.size(1), k.size(2), 0)[:, None])),
    RIGHT.but("Only head 0 asks; every head has an output of its own.", given=lambda q, k, v: Given(q[:, :1], k, v)),
    RIGHT.but("The last token is left out; its keys and values are in the cache already.",
              given=lambda q, k, v: Given(q, k[:, :, :-1], v[:, :, :-1])),
    RIGHT.but("The axis of the single position is missing; return (batch, heads, 1, e).",
              answer=lambda o, *made: o.squeeze(2)),
    RIGHT.but("The scale is multiplied into the cached keys in place: the next step finds them small.",
              given=lambda q, k, v: Given(q, k.mul_(q.size(-1) ** -0.5), v), scale=lambda x: 1.0),
    # right, but for the memory
    RIGHT.but("An elementwise product with keys or values holds the products of every head before they are summed; a "
              "matrix product does not.", score=lambda x: (x.query * x.key).sum(-1)[:, :, None]),
    *(Mistake(says, lambda q, k, v, f=f: FAST(q, f(k, q.size(1)), v)) for says, *many in (
        ("Keys or values are written out once for every head, as repeat_interleave does, contiguous after expand, "
         "and a product that broadcasts over the heads. Let the heads be the rows of one product: "
         "query[:, :, 0] @ key[:, 0].mT.", lambda x, h: x.repeat_interleave(h, dim=1)),
        ("repeat and tile write keys or values out once for every head.", lambda x, h: x.repeat(1, h, 1, 1)),
        ("Stacking the same keys or values for every head copies them.",
         lambda x, h: torch.cat([x] * h, dim=1), lambda x, h: torch.stack([x[:, 0]] * h, dim=1)),
        ("Indexing writes keys or values out once for every head.",
         lambda x, h: x[:, [0] * h], lambda x, h: x.index_select(1, torch.zeros(h, dtype=torch.int64))),
        ("Keys or values are converted to another type, which copies them.", lambda x, h: x.double().float()),
        ("Keys or values are copied, as clone does, and contiguous after a transpose; a product takes them as "
         "they are.", lambda x, h: x.clone()),
        ("Keys or values are multiplied by a number, which makes a copy of them; scale the query or the scores.",
         lambda x, h: x / 2 * 2, lambda x, h: x * 2 / 2),
    ) for f in many),
])  # fmt: skip

EXERCISE = Exercise(
    name="decode_without_copy", answer="decode_step", title="Decode without a copy", kind="Implement",
    points=3, difficulty=3, minutes=20, needs="section 'One decoding step' of chapter 5",
    judge=MemoryLimited(
        Calls(definition, partial(CASES, calls=CALLS), gradients=False),
        f"{MEASURED[0]}, no new tensor is as large as the cached keys",
        memory, Budget(lambda generator: normal(generator, *LARGE), FAST),
    ), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "All heads ask the same keys. What is a head, seen from the keys?",
        "query[:, :, 0] has shape (batch, heads, head_dim): a matrix for each sample, with one row a "
        "head. key[:, 0] has one matrix for each sample, too. Nothing needs to be repeated.",
        "rows = query[:, :, 0] / math.sqrt(query.size(-1)); weights = torch.softmax(rows @ key[:, "
        "0].mT, dim=-1); return (weights @ value[:, 0])[:, :, None].",
    ),
)  # fmt: skip
