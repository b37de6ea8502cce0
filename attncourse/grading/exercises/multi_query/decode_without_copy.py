"""Exercise decode_without_copy: one decoding step that reads the cache where it lies."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import alternating, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.mistakes import ATTENTION, gradients, in_place, mistakes_of, weights
from attncourse.grading.noticing import Noticing, weights_of
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


LARGE = (1, 2, 1, 128), (1, 1, 13 * 2**14, 128), (1, 1, 13 * 2**14, 128)  # keys of 104 MiB
RIGHT = Recipe(  # the heads are rows
    Given,
    score=lambda x: (x.query.transpose(1, 2) @ x.key.mT).transpose(1, 2),
    mix=lambda weights, x: (weights.transpose(1, 2) @ x.value).transpose(1, 2),
)  # fmt: skip
ACCEPTED = Accepted(heads_as_rows=RIGHT)


@ACCEPTED.add
def one_head_after_the_other(query, key, value):
    outputs, maps = [], []
    for q in query.split(1, dim=1):
        maps.append((q @ key.mT / q.size(-1) ** 0.5).softmax(-1))
        outputs.append(maps[-1] @ value)
    return torch.cat(outputs, dim=1), torch.cat(maps, dim=1)


@ACCEPTED.add
def einsum(query, key, value):
    scores = torch.einsum("bhd,bmd->bhm", query[:, :, 0], key[:, 0]) / query.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return torch.einsum("bhm,bme->bhe", weights, value[:, 0]).unsqueeze(2), weights.unsqueeze(2)


@ACCEPTED.add
def sample_by_sample(query, key, value):
    out = torch.empty(*query.shape[:3], value.size(-1))
    weights = torch.empty(*query.shape[:3], key.size(2))
    for o, w, q, k, v in zip(out, weights, query, key, value, strict=True):
        scores = k[0] @ q[:, 0].T / q.size(-1) ** 0.5  # (tokens, heads)
        w[:, 0] = torch.softmax(scores, dim=0).T
        o[:, 0] = w[:, 0] @ v[0]
    return [out, weights]


@ACCEPTED.add
def batched_product(query, key, value):
    scores = torch.bmm(query.flatten(1, 2) / query.size(-1) ** 0.5, key.flatten(1, 2).mT).double()
    weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True)).float()
    return torch.bmm(weights, value.flatten(1, 2)).unsqueeze(2), weights[:, :, None]


WITHOUT = (
    "scaled by queries", "softmax over queries", "softmax over both", "weights transposed", "weights returned detached",
)  # fmt: skip
MISTAKES = Mistakes([
    *mistakes_of(RIGHT, *(f for f in ATTENTION if f is not gradients), weights, in_place, without=WITHOUT),
    RIGHT.but("is_causal shows key 0 alone; the new token may read all keys.", given=lambda *a: Given(*a, 0)),
    RIGHT.but("is_causal counts the folded heads as positions: head h then reads tokens 0 to h; it may read all.",
              given=lambda q, k, v: Given(q, k, v, triangle(q.size(1), k.size(2), 0)[:, None])),
    RIGHT.but("Only head 0 asks; every head has its own output.", given=lambda q, k, v: Given(q[:, :1], k, v)),
    RIGHT.but("The last token is left out; its keys and values are in the cache already.",
              given=lambda q, k, v: Given(q, k[:, :, :-1], v[:, :, :-1])),
    RIGHT.but("An axis of size 1 is missing; return (batch, heads, 1, e) and (batch, heads, 1, m).",
              answer=lambda o, w, *_: (o.squeeze(2), w.squeeze(2))),
    RIGHT.but("An axis of size 1 is missing in the weights; return (batch, heads, 1, m).",
              answer=lambda o, w, *_: (o, w.squeeze(2))),
    RIGHT.but("The cached keys are changed in place, by the scale for example: the next step finds other ones.",
              given=lambda q, k, v: Given(q, k.mul_(q.size(-1) ** -0.5), v), scale=lambda x: 1.0),
    *(Mistake("The result is right, but something as large as the keys is made for every head: by repeating, stacking, "
              "indexing, contiguous after expand, or a product that broadcasts over the heads. Let the heads be rows "
              "of one product: query[:, :, 0] @ key[:, 0].mT.", copying) for copying in (
        Recipe(Given), lambda q, k, v: Recipe(Given)(q, *(x.repeat_interleave(q.size(1), 1) for x in (k, v))))),
    Mistake("The result is right, but keys or values are copied: by clone, contiguous, another type, or a factor. A "
            "product takes them as they are; scale the query or the scores.", lambda q, k, v: RIGHT(q, k.clone(), v)),
])  # fmt: skip

EXERCISE = Exercise(
    name="decode_without_copy",
    answer="decode_step",
    judge=MemoryLimited(
        Noticing(
            spec.grouped_query_attention,
            partial(CASES, calls=CALLS),
            False,
            weights_of("outputs", "d"),
        ),
        f"{MEASURED[0]}, no new tensor is as large as the cached keys",
        memory,
        Budget(lambda generator: normal(generator, *LARGE), RIGHT),
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
