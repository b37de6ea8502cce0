"""Exercise block_gradients: the gradients that come from one block of keys, computed again from the log-sum-exp."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Recipe
from attncourse.grading.told import Several


def definition(query, key, value, output, lse, grad_output):
    """Pair by pair: every key of the block hands each query, and is handed by it, its part."""
    found = tuple(map(torch.zeros_like, (query, key, value)))
    scale = query.size(-1) ** -0.5
    for b, h, i in torch.cartesian_prod(*map(torch.arange, lse.shape)).tolist():
        for j in range(key.size(2) if lse[b, h, i] > -math.inf else 0):
            q, k, v, d_o = query[b, h, i], key[b, h, j], value[b, h, j], grad_output[b, h, i]
            weight = torch.exp(scale * (q * k).sum() - lse[b, h, i])
            of_score = weight * ((d_o * v).sum() - (d_o * output[b, h, i]).sum())
            found[0][b, h, i] += scale * of_score * k
            found[1][b, h, j] += scale * of_score * q
            found[2][b, h, j] += weight * d_o
    return found


CALLS = (  # what is special, b h n d e, keys of the block, other keys, how loud
    ("2 samples, 3 heads, 4 queries, 5 of 8 keys, head_dim 6, values 7 wide", (2, 3, 4, 6, 7), 5, 3, 1),
    ("a block of 2 among 11 keys", (3, 2, 5, 4, 3), 2, 9, 1),
    ("all keys in one block", (2, 2, 3, 4, 6), 5, 0, 1),
    ("queries that read nothing", (2, 3, 5, 3, 4), 4, 2, 1),
    ("large scores", (1, 2, 4, 5, 3), 6, 5, 200),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Output and log-sum-exp are those over all keys, of which the answer gets a block."""
    g, found = seeded(seed), []
    for what, (b, h, n, d, e), m, others, loud in CALLS:
        shapes = (b, h, n, d), (b, h, m + others, d), (b, h, m + others, e), (b, h, n, e)
        query, key, value, grad_output = normal(g, *shapes)
        query = loud * query
        scores = (query.double() @ key.double().mT) / d**0.5
        lse, output = scores.logsumexp(-1).float(), (scores.softmax(-1) @ value.double()).float()
        if "nothing" in what:
            lse[..., 1], output[..., 1, :], lse[0, 0, 2], output[0, 0, 2] = (
                -math.inf,
                0.0,
                -math.inf,
                0.0,
            )
        found.append(
            Case(
                what,
                (query, key[:, :, :m].clone(), value[:, :, :m].clone(), output, lse, grad_output),
            )
        )
    return found


@dataclass(frozen=True)
class Backward:
    """The formulas in steps, each of which somebody gets wrong."""

    score: Callable = lambda q, k: q @ k.mT / q.size(-1) ** 0.5
    weigh: Callable = lambda scores, lse: torch.exp(scores - lse)
    clean: Callable = lambda weights, lse: weights.masked_fill(lse == -math.inf, 0.0)
    of_weights: Callable = lambda d_o, v: d_o @ v.mT
    delta: Callable = lambda d_o, o, p, dp: (d_o * o).sum(-1, keepdim=True)
    of_scores: Callable = lambda p, dp, delta: p * (dp - delta)
    scale: Callable = lambda q: q.size(-1) ** -0.5
    scales: Callable = lambda scale: (scale, scale)
    of_values: Callable = lambda p, ds, d_o, o: p.mT @ d_o
    answer: Callable = lambda dq, dk, dv: (dq, dk, dv)
    but = Recipe.but

    def __call__(self, query, key, value, output, lse, grad_output):
        lse = lse[..., None]
        p = self.clean(self.weigh(self.score(query, key), lse), lse)
        dp = self.of_weights(grad_output, value)
        ds = self.of_scores(p, dp, self.delta(grad_output, output, p, dp))
        to_query, to_key = self.scales(self.scale(query))
        dv = self.of_values(p, ds, grad_output, output)
        return self.answer(to_query * ds @ key, to_key * ds.mT @ query, dv)


RIGHT = Backward()
ACCEPTED = Accepted(formulas=RIGHT)


@ACCEPTED.add
def einsum(query, key, value, output, lse, grad_output):
    scale = query.shape[-1] ** -0.5
    scores = torch.einsum("bhid,bhjd->bhij", query, key) * scale
    weights = torch.where(lse.isfinite()[..., None], torch.exp(scores - lse[..., None]), 0.0)
    inner = (
        torch.einsum("bhie,bhje->bhij", grad_output, value)
        - (grad_output * output).sum(-1)[..., None]
    )
    ds = weights * inner * scale
    return (torch.einsum("bhij,bhjd->bhid", ds, key), torch.einsum("bhij,bhid->bhjd", ds, query),
            torch.einsum("bhij,bhie->bhje", weights, grad_output))  # fmt: skip


@ACCEPTED.add
def key_by_key_in_float64(query, key, value, output, lse, grad_output):
    q, d_o = query.double() / query.size(-1) ** 0.5, grad_output.double()
    lse = torch.where(lse == -math.inf, math.inf, lse.double())
    delta, dq, dk, dv = (d_o * output).sum(-1), torch.zeros_like(q), [], []
    for j in range(key.size(2)):
        k, v = key[:, :, j, None].double(), value[:, :, j, None].double()
        p = torch.exp((q * k).sum(-1) - lse)
        ds = p * ((d_o * v).sum(-1) - delta)
        dq += ds[..., None] * k / query.size(-1) ** 0.5
        dk.append((ds[..., None] * q).sum(2))
        dv.append((p[..., None] * d_o).sum(2))
    return [dq, torch.stack(dk, 2), torch.stack(dv, 2)]


@ACCEPTED.add
def autograd_of_other_sums(query, key, value, output, lse, grad_output):
    """A loss with the same gradients: what belongs to the whole row is a constant in it."""
    q, k, v = (x.detach().requires_grad_() for x in (query, key, value))
    with torch.enable_grad():
        shift = lse.masked_fill(lse.isinf(), math.inf)[..., None]
        p, dp = torch.exp(q @ k.mT / q.size(-1) ** 0.5 - shift), grad_output @ v.mT
        inner = (dp - (grad_output * output).sum(-1, keepdim=True)).detach()
        return torch.autograd.grad((p * inner + p.detach() * dp).sum(), (q, k, v))


WHOLE = "a part of each row is elsewhere"
MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    (f"The weights are a softmax over this block; {WHOLE}, so they are exp(score - lse).",
     {"weigh": lambda s, lse: s.softmax(-1)}),
    ("These are the gradients of attention over this block alone, as autograd finds them; lse and output know the other keys.",
     {"weigh": lambda s, lse: s.softmax(-1), "clean": lambda p, lse: p,
      "delta": lambda d_o, o, p, dp: (p * dp).sum(-1, keepdim=True)}),
    ("The exponential is missing: the weights are exp(score - lse).", {"weigh": lambda s, lse: s - lse}),
    ("The exponentials are not divided by anything; the weights are exp(score - lse).", {"weigh": lambda s, lse: s.exp()}),
    ("The exponentials are divided by lse, which is a logarithm; subtract it from the scores.",
     {"weigh": lambda s, lse: s.exp() / lse}),
    ("exp(score) is divided by exp(lse), which overflows on large scores; subtract before you take exp.",
     {"weigh": lambda s, lse: s.exp() / lse.exp()}),
    ("The weights are upside down: exp(lse - score).", {"weigh": lambda s, lse: torch.exp(lse - s)}),
    ("The largest score of the block is subtracted; subtract lse.",
     {"weigh": lambda s, lse: torch.exp(s - s.amax(-1, keepdim=True))}),
    ("A query that reads nothing has the lse minus infinity, so its weights become infinite or NaN; they are 0.",
     {"clean": lambda p, lse: p}),
    ("A query that reads nothing has the lse minus infinity, so its weights become infinite or NaN; they are 0.",
     {"clean": lambda p, lse: p.nan_to_num()}),
    ("For a query that reads nothing lse is replaced by 0, which gives it the weights exp(score); they are 0.",
     {"clean": lambda p, lse: p, "weigh": lambda s, lse: torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0))}),
    ("The derivative is that of a sigmoid, p (1 - p); that of a softmax has D: p (dp - D).",
     {"of_scores": lambda p, dp, delta: p * (1 - p) * dp}),
    ("D is missing: the gradient of a score is p (dp - D).", {"delta": lambda d_o, o, p, dp: 0.0}),
    (f"D is the sum of p dp over this block; {WHOLE}, so it is grad_output . output.",
     {"delta": lambda d_o, o, p, dp: (p * dp).sum(-1, keepdim=True)}),
    ("D is the sum of dp; it is grad_output . output.", {"delta": lambda d_o, o, p, dp: dp.sum(-1, keepdim=True)}),
    ("D is the mean of grad_output * output; it is the sum.", {"delta": lambda d_o, o, p, dp: (d_o * o).mean(-1, True)}),
    ("D is the sum of grad_output alone; it is grad_output . output.",
     {"delta": lambda d_o, o, p, dp: d_o.sum(-1, keepdim=True)}),
    ("D is the sum of the output alone; it is grad_output . output.",
     {"delta": lambda d_o, o, p, dp: o.sum(-1, keepdim=True)}),
    ("One D is used for all queries; each has its own.", {"delta": lambda d_o, o, p, dp: (d_o * o).sum((-2, -1), True)}),
    ("D is added; it is subtracted.", {"of_scores": lambda p, dp, delta: p * (dp + delta)}),
    ("D is subtracted outside of the brackets; the gradient of a score is p (dp - D).",
     {"of_scores": lambda p, dp, delta: p * dp - delta}),
    ("The weights are missing in the gradient of the scores: p (dp - D).",
     {"of_scores": lambda p, dp, delta: dp - delta}),
    ("The weights are squared in the gradient of the scores: p (dp - D).",
     {"of_scores": lambda p, dp, delta: p * p * (dp - delta)}),
    ("The gradient of the scores has the wrong sign: p (dp - D).", {"of_scores": lambda p, dp, delta: p * (delta - dp)}),
    ("The scores are not divided by sqrt(head_dim) before the weights are computed again.",
     {"score": lambda q, k: q @ k.mT}),
    ("The gradients of queries and keys are not divided by sqrt(head_dim).", {"scale": lambda q: 1.0}),
    ("The gradients of queries and keys are divided by head_dim instead of its square root.",
     {"scale": lambda q: 1 / q.size(-1)}),
    ("The gradient of the queries is not divided by sqrt(head_dim).", {"scales": lambda scale: (1.0, scale)}),
    ("The gradient of the keys is not divided by sqrt(head_dim).", {"scales": lambda scale: (scale, 1.0)}),
    ("The gradient of the values mixes the gradients of the scores; it is the weights, transposed, times grad_output.",
     {"of_values": lambda p, ds, d_o, o: ds.mT @ d_o}),
    ("The gradient of the values mixes the outputs; it is the weights, transposed, times grad_output.",
     {"of_values": lambda p, ds, d_o, o: p.mT @ o}),
    ("The gradient of the values is the same for all keys; each counts with its weights.",
     {"of_values": lambda p, ds, d_o, o: d_o.sum(-2, keepdim=True).expand(*p.mT.shape[:-1], -1)}),
    ("Only the gradient of the queries is returned; return (dq, dk, dv).", {"answer": lambda dq, dk, dv: dq}),
    ("The gradient of the keys comes before that of the queries; return (dq, dk, dv).",
     {"answer": lambda dq, dk, dv: (dk, dq, dv)}),
    ("The gradient of the values comes before that of the keys; return (dq, dk, dv).",
     {"answer": lambda dq, dk, dv: (dq, dv, dk)}),
    ("The gradients are averaged over the heads; each head has its own.",
     {"answer": lambda *found: tuple(x.mean(1, keepdim=True) for x in found)}),
))  # fmt: skip

EXERCISE = Exercise(
    name="block_gradients",
    judge=Several(definition, cases, gradients=False, names=("dq", "dk", "dv")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
