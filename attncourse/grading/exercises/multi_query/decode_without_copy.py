"""Exercise decode_without_copy: one decoding step that reads the cache where it lies."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.grouped_query._sharing import definition
from attncourse.grading.inputs import alternating, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.mistakes import ATTENTION, gradients, in_place, mistakes_of
from attncourse.grading.recipe import Given, Recipe, triangle

MEASURED = "3 samples, 4 heads, 512 tokens, head_dim 16", (3, 4, 1, 512, 16, 16), 1
CALLS = (  # what is special, b h n m d e, how loud
    ("2 samples, 3 heads, 5 tokens, head_dim 6, values 7 wide", (2, 3, 1, 5, 6, 7), 1),
    ("1 token", (2, 3, 1, 1, 4, 4), 1),
    ("large scores", (2, 3, 1, 5, 6, 4), 300),
    ("scores near 768 and -768", (1, 3, 1, 5, 4, 3), lambda q, k: alternating(q.transpose(1, 2), k)),
    MEASURED,
)  # fmt: skip
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b n m d, b n m e")


def memory(answer) -> bool | str:
    """True when nothing new is as large as the keys, else how large it is, and what made it."""
    args = CASES(7, calls=[MEASURED])[0].args
    made = as_answer(answer).allocations(*args)
    what = f"{made.new // args[1].numel()} x their numbers are made at once: {made.how}"
    return made.new < args[1].numel() or Described(what)


FAST = partial(F.scaled_dot_product_attention, enable_gqa=True)
LARGE = (1, 2, 1, 128), (1, 1, 13 * 2**14, 128), (1, 1, 13 * 2**14, 128)  # keys of 104 MiB
RIGHT = Recipe(  # the heads are rows
    Given, answer=lambda output, *made: output,
    score=lambda x: (x.query.transpose(1, 2) @ x.key.mT).transpose(1, 2),
    mix=lambda weights, x: (weights.transpose(1, 2) @ x.value).transpose(1, 2),
)  # fmt: skip
ACCEPTED = Accepted(
    heads_as_rows=RIGHT, shared_by_torch=FAST,
    folded_and_of_torch=lambda q, k, v: F.scaled_dot_product_attention(q.transpose(1, 2), k, v).transpose(1, 2),
    one_head_after_the_other=lambda q, k, v: torch.cat([FAST(one, k, v) for one in q.split(1, dim=1)], dim=1),
)  # fmt: skip


@ACCEPTED.add
def einsum(query, key, value):
    scores = torch.einsum("bhd,bmd->bhm", query[:, :, 0], key[:, 0]) / query.shape[-1] ** 0.5
    return torch.einsum("bhm,bme->bhe", scores.softmax(-1), value[:, 0]).unsqueeze(2)


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
    RIGHT.but("is_causal shows key 0 alone; the new token may read all keys.", given=lambda *a: Given(*a, 0)),
    RIGHT.but("is_causal counts the folded heads as positions: head h then reads tokens 0 to h; it may read all.",
              given=lambda q, k, v: Given(q, k, v, triangle(q.size(1), k.size(2), 0)[:, None])),
    RIGHT.but("Only head 0 asks; every head has its own output.", given=lambda q, k, v: Given(q[:, :1], k, v)),
    RIGHT.but("The last token is left out; its keys and values are in the cache already.",
              given=lambda q, k, v: Given(q, k[:, :, :-1], v[:, :, :-1])),
    RIGHT.but("An axis of size 1 is missing; return (batch, heads, 1, e).", answer=lambda o, *_: o.squeeze(2)),
    RIGHT.but("The scale is multiplied into the cached keys in place: the next step finds them small.",
              given=lambda q, k, v: Given(q, k.mul_(q.size(-1) ** -0.5), v), scale=lambda x: 1.0),
    *(Mistake(says, lambda q, k, v, f=f: FAST(q, f(k, q.size(1)), v)) for says, f in (
        ("The result is right, but something as large as the keys is made for every head: by repeating, stacking, "
         "indexing, contiguous after expand, or a product that broadcasts over the heads. Let the heads be rows "
         "of one product: query[:, :, 0] @ key[:, 0].mT.", lambda x, h: x.repeat_interleave(h, dim=1)),
        ("The result is right, but keys or values are copied: by clone, contiguous, another type, or a factor. A "
         "product takes them as they are; scale the query or the scores.", lambda x, h: x.clone()),
    )),
])  # fmt: skip

EXERCISE = Exercise(
    name="decode_without_copy", answer="decode_step", title="Decode without a copy", kind="Implement",
    points=3, difficulty=3, minutes=20, needs="section 'One decoding step' of chapter 7",
    judge=MemoryLimited(
        Calls(definition, partial(CASES, calls=CALLS), gradients=False),
        f"{MEASURED[0]}, no new tensor is as large as the cached keys", memory,
        Budget(lambda generator: normal(generator, *LARGE), FAST),
    ), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "All heads ask the same keys. What is a head, seen from the keys?",
        "query[:, :, 0] has shape (batch, heads, head_dim): a matrix for each sample, with one row a head. "
        "key[:, 0] has one matrix for each sample, too. Nothing needs to be repeated.",
        "rows = query[:, :, 0] / math.sqrt(query.size(-1)); weights = torch.softmax(rows @ key[:, 0].mT, dim=-1); "
        "return (weights @ value[:, 0])[:, :, None].",
    ),
)  # fmt: skip
