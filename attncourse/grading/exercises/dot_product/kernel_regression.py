"""Exercise kernel_regression: attention with a Gaussian kernel, sixty years before the name."""

from dataclasses import replace

import torch
from torch.nn.functional import one_hot

from attncourse.grading.exercise import Accepted, Calls, Case, Exercise, Mistakes
from attncourse.grading.inputs import sized_cases
from attncourse.grading.mistakes import exponentials, gradients, mistakes_of, mixes, softmaxes
from attncourse.grading.recipe import Given, Recipe
from attncourse.grading.slips import alone


def definition(query, keys, values, bandwidth):
    """estimate(i) = sum_j w(i, j) value(j) / sum_j w(i, j), w = exp(-|q_i - k_j|^2 / (2 sigma^2))."""
    rows = []
    for q in query:
        exponents = torch.stack([-((q - k) ** 2).sum() / (2 * bandwidth**2) for k in keys])
        weights = torch.exp(exponents - exponents.max().detach())
        rows.append(sum(w * v for w, v in zip(weights, values, strict=True)) / weights.sum())
    return torch.stack(rows)


def far(query, keys):
    """Two queries; the exponents of the second are about -3e7, below what people clamp at."""
    query[0] += 30.0
    query[1] += 4096.0 * torch.eye(3)[0]


def between_two(query, keys):
    query[:], keys[:, 0] = 40.0 * torch.eye(3)[0], -9.0
    keys[:2] = torch.tensor([[0.5, 1.0, 0.25], [0.5, -1.0, 0.25]])


CALLS = (  # what is special, n m d e, how far, bandwidth
    ("5 queries, 7 keys in 3 dimensions, 2 values each", (5, 7, 3, 2), 1, 0.7),
    ("some queries far from every key", (5, 7, 3, 2), far, 0.5),
    ("1 query far from every key, two of them equally near", (1, 4, 3, 2), between_two, 0.5),
    ("queries on keys", (2, 4, 3, 5), lambda q, k: q.copy_(k[:2]), 0.7),
    ("as many queries as keys", (4, 4, 2, 3), 2, 0.7),
    ("one key, all weights tiny", (4, 1, 2, 3), lambda q, k: q.copy_(k + 4.0), 0.7),
)


def cases(seed: int) -> list[Case]:
    made = sized_cases(seed, "n m d e", "n d, m d, m e", CALLS)
    return [replace(x, gradients=x.gradients or x.label == "queries on keys") for x in made]


def squares(query, keys):
    return (query[:, None] - keys).square()


RIGHT = Recipe(
    lambda query, keys, values, bandwidth: Given(query, keys, values, rest=bandwidth),
    score=lambda x: -squares(x.query, x.key).sum(-1),
    scale=lambda x: 0.5 * x.rest**-2,
    answer=lambda output, weights, scores, x: output,
)
ACCEPTED = Accepted(
    broadcast_and_softmax=RIGHT,
    log_space=replace(RIGHT, normalize=lambda s: torch.exp(s - s.logsumexp(-1, keepdim=True))),
    norm_and_einsum=lambda query, keys, values, bandwidth: torch.einsum("nm,me->ne", torch.softmax(
        -0.5 * torch.linalg.vector_norm((query[:, None] - keys) / bandwidth, dim=-1) ** 2, dim=1), values),
    expanded_square=lambda q, k, v, bandwidth: (  # |q|^2 is the same for every key, so the softmax ignores it
        (q.double() @ k.double().T - 0.5 * k.double().square().sum(-1)) / bandwidth**2).softmax(-1).float() @ v,
)  # fmt: skip


@ACCEPTED.add
def loop_over_queries(query, keys, values, bandwidth):
    rows = []
    for q in query:
        scores = -((keys - q) ** 2).sum(dim=1) / (2 * bandwidth * bandwidth)
        weights = torch.exp(scores - scores.max())
        rows.append((weights[:, None] * values).sum(0) / weights.sum())
    return torch.stack(rows)


VANISHED = "Far from every key all weights round to 0, and the answer with them; use a softmax over the exponents."
MISTAKES = Mistakes(mistakes_of(RIGHT, softmaxes, mixes, gradients, without=(
    "overflow", "overflow in float64", "softmax over heads", "softmax over samples")))  # fmt: skip
MISTAKES += [RIGHT.but(says, scale=wrong) for says, wrong in (
    ("The bandwidth is not squared.", lambda x: 1 / (2 * x.rest)),
    ("The bandwidth is not squared, and the 2 in 2 sigma^2 is missing.", lambda x: 1 / x.rest),
    ("The 2 in 2 sigma^2 is missing, so the kernel is too narrow.", lambda x: x.rest**-2),
    ("The 2 is squared as well: this is (2 sigma)^2 instead of 2 sigma^2.", lambda x: (2 * x.rest) ** -2),
    ("The bandwidth is not used at all.", lambda x: 0.5),
    ("The scores are multiplied by 2 sigma^2 instead of divided.", lambda x: 2 * x.rest**2),
    ("The scores are multiplied by sigma^2: x / 2 * sigma**2 is not x / (2 * sigma**2).", lambda x: x.rest**2 / 2),
    ("The scores are divided by sqrt(dimensions) as well.", lambda x: 0.5 * x.rest**-2 * x.width**-0.5),
)] + [RIGHT.but(says, score=wrong) for says, wrong in (
    ("The distance is not squared.", lambda x: -squares(x.query, x.key).sum(-1).sqrt()),
    ("The distance is not squared.", lambda x: -torch.cdist(x.query, x.key)),
    ("The squared distance is squared once more.", lambda x: -squares(x.query, x.key).sum(-1) ** 2),
    ("These are sums of absolute differences; square them.", lambda x: -(x.query[:, None] - x.key).abs().sum(-1)),
    ("The sum is squared, not each difference.", lambda x: -(x.query[:, None] - x.key).sum(-1) ** 2),
    ("The squared differences are averaged; add them.", lambda x: -squares(x.query, x.key).mean(-1)),
    ("The root of the squares is squared again; where a query stands on a key, its gradient is NaN.",
     lambda x: -squares(x.query, x.key).sum(-1).sqrt() ** 2),
    ("The scores are dot products, not distances; the keys differ in length.", lambda x: 2 * x.query @ x.key.mT),
)] + [RIGHT.but(says, normalize=wrong) for says, wrong in (
    ("Far from every key all weights are 0, and 0 / 0 is NaN; use a softmax over the exponents.", exponentials),
    (VANISHED, lambda s: exponentials(s).nan_to_num()),
    ("Far from every key only the nearest answers; others that are nearly as near count as well.",
     lambda s: torch.where(s.exp().sum(-1, keepdim=True) < 1e-30, one_hot(s.argmax(-1), s.size(-1)).to(s.dtype),
                           exponentials(s))),
)] + [RIGHT.but(says, answer=wrong) for says, wrong in (
    ("The weights are returned; mix the values with them.", lambda o, w, s, x: w),
    ("The weights are returned as well; return the estimates only.", lambda o, w, s, x: (o, w)),
    ("Axes of size 1 are squeezed away; keep all of them.", lambda o, w, s, x: o.squeeze()),
    ("The estimates are transposed; rows are queries.", lambda o, w, s, x: o.mT),
)]  # fmt: skip
says = "The query is divided by the bandwidth in place, which changes the caller's tensor."
MISTAKES.add(says)(lambda q, k, v, h: RIGHT(q.div_(h), k / h, v, 1.0))

MISTAKES += [RIGHT.but(VANISHED,
                       normalize=lambda s, e=epsilon, least=least: s.exp() / least(s.exp().sum(-1, keepdim=True), e))
             for least in (torch.add, lambda total, e: total.clamp(min=e)) for epsilon in (1e-8, 1e-3, 1e-4, 1e-5, 1e-6, 1e-9, 1e-10, 1e-12, 1e-15)]  # fmt: skip
EQUAL = "Far from every key all keys count the same; there the nearest decide."
MISTAKES += alone([RIGHT.but(says, normalize=wrong) for says, wrong in (
    ("The largest exponent of each key is subtracted; subtract that of each query.",
     lambda s: exponentials(s - s.amax(0))),
    (EQUAL, lambda s: exponentials(s).nan_to_num(nan=1 / s.size(-1))),
    *((EQUAL, lambda s, e=e: (s.exp() + e) / (s.exp() + e).sum(-1, keepdim=True)) for e in (1e-4, 1e-6, 1e-8)),
    *((EQUAL, lambda s, e=e: s.clamp(min=-e).softmax(-1)) for e in (10, 20, 50, 100, 500, 1e3, 1e4, 1e5, 1e6)),
    ("The weights are divided by the number of keys; divide by their sum.", lambda s: s.exp() / s.size(-1)),
    ("A causal mask hides keys; here every sample answers every query.",
     lambda s: s.masked_fill(torch.ones_like(s).triu(1) > 0, -torch.inf).softmax(-1)),
    ("A key on which the query stands is left out; it is the nearest of all.",
     lambda s: s.masked_fill(s == 0, -torch.inf).softmax(-1)),
)] + [RIGHT.but("The power of the bandwidth is wrong; the kernel divides by 2 sigma^2.",
                scale=lambda x, p=power: 0.5 * x.rest**-p) for power in (0.5, 3, 4)
] + [RIGHT.but("The bandwidth that is given is not used; it is not the same in every call.",
               scale=lambda x, h=h: 0.5 * h**-2) for h in (0.5, 0.7)
] + [RIGHT.but(says, score=wrong) for says, wrong in (
    ("Only the first feature is compared; add up all of them.", lambda x: -squares(x.query, x.key)[..., 0]),
    ("Only the feature that differs most is compared; add up all of them.", lambda x: -squares(x.query, x.key).amax(-1)),
    ("Absolute differences are added up and the sum is squared; square each difference.",
     lambda x: -(x.query[:, None] - x.key).abs().sum(-1) ** 2),
)] + [RIGHT.but("The kernel is not Gaussian; it is exp(-|q - k|^2 / (2 sigma^2)).", normalize=wrong) for wrong in (
    lambda s: (1 / (1 - 2 * s)) / (1 / (1 - 2 * s)).sum(-1, keepdim=True),
    lambda s: (1 + 2 * s).relu() / (1 + 2 * s).relu().sum(-1, keepdim=True),
    lambda s: (1 / (1e-9 - s)) / (1 / (1e-9 - s)).sum(-1, keepdim=True),
)] + [RIGHT.but("The scores are those of attention, query times key; here they are distances.",
                score=lambda x: x.query @ x.key.mT, scale=lambda x: x.width**-0.5),
      RIGHT.but("The values of a sample are averaged; return all of them, (n, e).", answer=lambda o, w, s, x: o.mean(-1)),
      RIGHT.but("Only the first value of each sample is used; return all of them, (n, e).",
                answer=lambda o, w, s, x: o[:, 0]),
])  # fmt: skip

EXERCISE = Exercise(
    name="kernel_regression", judge=Calls(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
