"""Exercise grouped_query_attention: groups share a key/value head, and nothing is copied."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.grouped_query._noticed import GroupedCalls
from attncourse.grading.exercises.grouped_query._sharing import (
    apart,
    cases,
    definition,
    given,
    sharing,
    unasked,
)
from attncourse.grading.inputs import normal
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.mistakes import (
    dots,
    gradients,
    heads,
    in_place,
    mistakes_of,
    mixes,
    outputs,
    scales,
    softmaxes,
)
from attncourse.grading.recipe import Given, Recipe
from attncourse.grading.slips import alone


def step(generator, b, h, g, m, d, e) -> list:
    """One decoding step; values are narrower than keys, so that enable_gqa copies too."""
    return normal(generator, (b, h, 1, d), (b, g, m, d), (b, g, m, e))


def memory(answer) -> bool | str:
    """True when no large tensor was made, with 4 query heads to a group; else what was seen."""
    args = step(torch.Generator().manual_seed(7), b=2, h=12, g=3, m=300, d=20, e=16)
    made, most = as_answer(answer).allocations(*args), 2 * args[1].numel()
    return made.largest <= most or Described(f"no, one holds {made.largest:,}: {made.how}")


JUDGE = MemoryLimited(
    GroupedCalls(definition, cases),
    "one query, 300 keys: no tensor holds more than twice the numbers of key",
    memory,
    # 32 query heads to a KV head: 8 MiB of keys would become 256 MiB.
    Budget(partial(step, b=1, h=64, g=2, m=16_384, d=64, e=16),
           partial(F.scaled_dot_product_attention, enable_gqa=True), mib=100),
)  # fmt: skip
RIGHT = Recipe(given, answer=lambda output, *made: output)  # but for the copies that it makes
ACCEPTED = Accepted()


@ACCEPTED.add
def heads_folded_into_queries(query, key, value):
    r, n = query.size(1) // key.size(1), query.size(2)
    rows = apart(query, key.size(1)).flatten(2, 3)
    weights = torch.softmax(rows @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return (weights @ value).unflatten(2, (r, n)).flatten(1, 2)


@ACCEPTED.add
def folded_and_of_torch(query, key, value):
    b, h, n, d = query.shape
    rows = query.reshape(b, key.size(1), -1, d)
    return F.scaled_dot_product_attention(rows, key, value).reshape(b, h, n, value.size(-1))


@ACCEPTED.add
def einsum(query, key, value):
    q = apart(query, key.size(1)) * key.shape[-1] ** -0.5
    weights = torch.einsum("bgrnd,bgmd->bgrnm", q, key).softmax(-1)
    return torch.einsum("bgrnm,bgme->bgrne", weights, value).flatten(1, 2)


@ACCEPTED.add
def one_head_after_the_other(query, key, value):
    r, heads = query.size(1) // key.size(1), []
    for h in range(query.size(1)):
        k, v = key[:, h // r], value[:, h // r]
        heads.append(torch.softmax(query[:, h] @ k.mT / k.size(-1) ** 0.5, dim=-1) @ v)
    return torch.stack(heads, dim=1)


@ACCEPTED.add
def group_after_group_in_double(query, key, value):
    outputs, r = [], query.shape[1] // key.shape[1]
    groups = query.double().split(r, 1), key.double().unbind(1), value.double().unbind(1)
    for q, k, v in zip(*groups, strict=True):
        scores = torch.einsum("brnd,bmd->brnm", q, k) / q.shape[-1] ** 0.5
        weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
        outputs.append(torch.einsum("brnm,bme->brne", weights, v))
    return torch.cat(outputs, dim=1)


@ACCEPTED.add
def sample_after_sample(query, key, value):
    r, out = query.size(1) // key.size(1), []
    for q, k, v in zip(query, key, value, strict=True):
        heads = [F.scaled_dot_product_attention(q[h], k[h // r], v[h // r]) for h in range(len(q))]
        out.append(torch.stack(heads))
    return torch.stack(out)


MISTAKES = Mistakes(mistakes_of(RIGHT, scales, softmaxes, sharing))
MISTAKES += alone(mistakes_of(RIGHT, dots, mixes, outputs, gradients, heads, unasked, in_place))
MISTAKES += [
    RIGHT.but("The weights are returned instead of the output.", answer=lambda o, w, s, x: w),
    RIGHT.but("The weights are returned as well; return the output alone.", answer=lambda o, w, s, x: (o, w)),
    Mistake("The output is right, but a tensor on the way is larger than twice key, as a copy of the keys for every query "
            "head is: repeat_interleave makes one, a matmul that broadcasts, and enable_gqa=True when values and keys "
            "differ in width.", RIGHT),
    RIGHT.but("The query heads of a group are added up before the softmax, so one output is left for each "
              "group; every query head has its own scores and its own output.",
              given=lambda q, k, v: Given(apart(q, k.size(1)).sum(2), k, v)),
]  # fmt: skip

EXERCISE = Exercise(
    name="grouped_query_attention", judge=JUDGE, accepted=ACCEPTED, mistakes=MISTAKES
)
