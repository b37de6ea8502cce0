"""The mistakes that every attention-shaped answer shares: one step of a right `Recipe` replaced."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from attncourse.grading.mistake import Mistake
from attncourse.grading.recipe import Recipe, hide, triangle

Found = Iterator[tuple[str, dict[str, Callable]]]  # a sentence, the steps that are replaced
LEAST = "minus infinity is less than any"


def mistakes_of(right: Recipe) -> list[Mistake]:
    """All of them; some may change nothing here, or cannot be made."""
    made = (scores, scales, weights, mixes, results, gradients, heads, masks, rules)
    return [right.but(says, **steps) for family in made for says, steps in family(right)]


def scores(right: Recipe) -> Found:
    """Other products of queries and keys."""
    for says, score in (
        ("The key is reshaped to (batch, heads, head_dim, keys), which tears its rows apart; "
         "transpose it.",
         lambda x: x.query @ x.key.reshape(x.key.mT.shape)),
        ("The scores are cosines: query and key are divided by their lengths. They are dot "
         "products.",
         lambda x: normalize(x.query, dim=-1) @ normalize(x.key, dim=-1).mT),
        ("The scores are the keys times the queries; rows are queries: query @ key.mT.",
         lambda x: x.key @ x.query.mT),
    ):  # fmt: skip
        yield says, {"score": score}


def scales(right: Recipe) -> Found:
    """Other factors on the scores."""
    root = f"sqrt({right.width})"
    for says, scale in (
        (f"The scores are not divided by {root}.", lambda x: 1.0),
        (f"The scores are divided by {right.width} instead of its square root.",
         lambda x: 1 / x.width),
        (f"The scores are multiplied by {root}; divide by it.", lambda x: x.width**0.5),
        (f"The scale uses the width of the values; it is {root}.",
         lambda x: x.value.size(-1) ** -0.5),
        (f"The scale uses the number of keys; it is {root}.", lambda x: x.key.size(-2) ** -0.5),
        (f"The scale uses the number of queries; it is {root}.",
         lambda x: x.query.size(-2) ** -0.5),
        (f"The scale uses the number of heads; it is {root}.", lambda x: x.query.size(1) ** -0.5),
        ("The scale uses the width of all heads together; it is the square root of the width "
         "of one.",
         lambda x: (x.query.size(1) * x.width) ** -0.5),
    ):  # fmt: skip
        yield says, {"scale": scale}
    yield (
        "The scale is applied to the weights, after the softmax; it belongs to the scores.",
        {"scale": lambda x: 1.0, "finish": lambda w, x: right.finish(w, x) * x.width**-0.5},
    )


def exponentials(scores: Tensor) -> Tensor:
    """The softmax as it is written, without a thought of overflow."""
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


def weights(right: Recipe) -> Found:
    """Other ways from scores to weights."""
    runs = "The softmax runs over the {}; each query shares out its weight among the keys (dim=-1)."
    row = "subtract that of the row"
    for says, weigh in (
        (runs.format("queries"), lambda s: s.softmax(-2)),
        (runs.format("heads"), lambda s: s.softmax(1)),
        (runs.format("samples"), lambda s: s.softmax(0)),
        ("The softmax runs over queries and keys at once; each query has a weight of 1 to "
         "share out.",
         lambda s: s.flatten(-2).softmax(-1).view_as(s)),
        ("The softmax is missing: the scores are used as weights.", lambda s: s),
        ("The scores are divided by their sum; the exponential is missing.",
         lambda s: s / s.sum(-1, keepdim=True)),
        ("The exponentials are not divided by their sum.", lambda s: s.exp()),
        ("The weights are sigmoids of the scores; those of a query must sum to 1.", Tensor.sigmoid),
        ("The softmax is taken twice.", lambda s: s.softmax(-1).softmax(-1)),
        ("These are the logarithms of the weights: log_softmax instead of softmax.",
         lambda s: s.log_softmax(-1)),
        ("The sign of the scores is turned: the best key gets the least weight.",
         lambda s: torch.where(s == -math.inf, s, -s).softmax(-1)),
        ("All weight goes to the best key; that is argmax, not softmax.",
         lambda s: one_hot(s.argmax(-1), s.size(-1)).to(s.dtype)),
        ("All visible keys get the same weight; the scores are not used.",
         lambda s: torch.where(s == -math.inf, s, 0 * s).softmax(-1)),
        ("The exponential overflows on large scores; subtract the largest score of the row "
         "first, as torch.softmax does.", exponentials),
        ("The exponential overflows on large scores, in float64 as well; subtract the largest "
         "score of the row first.", lambda s: exponentials(s.double()).float()),
        ("One largest score is subtracted from several rows, and those far below it vanish; "
         f"{row}.",
         lambda s: exponentials(s - s.max())),
    ):  # fmt: skip
        yield says, {"normalize": weigh}


def mixes(right: Recipe) -> Found:
    """Other sums than that of the values."""
    for says, mix in (
        ("The keys are mixed instead of the values.", lambda w, x: w @ x.key),
        ("The queries are mixed instead of the values.", lambda w, x: w @ x.query),
        ("The weights are transposed before they meet the values: rows are queries.",
         lambda w, x: w.mT @ x.value),
    ):  # fmt: skip
        yield says, {"mix": mix}


def results(right: Recipe) -> Found:
    """Other results, where the answer is (output, weights)."""
    for says, answer in (
        ("Only the output is returned; return (output, weights).",
         lambda o, w, s, x: right.answer(o, w, s, x)[0]),
        ("The scores are returned instead of the weights.",
         lambda o, w, s, x: right.answer(o, s, s, x)),
        ("The returned weights are detached; gradients flow through them.",
         lambda o, w, s, x: right.answer(o, w.detach(), s, x)),
    ):  # fmt: skip
        yield says, {"answer": answer}


def detached(x: Any) -> Any:
    """A tensor, or every tensor of a tuple, without its graph."""
    return tuple(map(detached, x)) if isinstance(x, tuple) else x.detach()


def gradients(right: Recipe) -> Found:
    """The right numbers, and somewhere a detach or a no_grad."""
    yield (
        "No gradient flows through the weights; they are detached or made inside no_grad.",
        {"finish": lambda w, x: right.finish(w, x).detach()},
    )
    yield (
        "No gradient flows back: the result is detached or made inside no_grad.",
        {"answer": lambda o, w, s, x: detached(right.answer(o, w, s, x))},
    )


def heads(right: Recipe) -> Found:
    """One question for all heads, and a query that is changed in place."""

    def given(*arguments: Any, change: Callable, **named: Any) -> Any:
        x = right.given(*arguments, **named)
        return x._replace(query=change(x.query))

    for says, change in (
        ("The queries of the heads are averaged; every head asks its own question.",
         lambda q: q.mean(1, keepdim=True).expand_as(q)),
        ("All heads ask the question of head 0; every head asks its own.",
         lambda q: q[:, :1].expand_as(q)),
    ):  # fmt: skip
        yield says, {"given": lambda *x, change=change, **named: given(*x, change=change, **named)}

    def in_place(query: Tensor, *others: Any, **named: Any) -> Any:
        x = right.given(query, *others, **named)
        return x._replace(query=right.given(query.mul_(x.width**-0.5), *others, **named).query)

    says = "The query is changed in place, by /= or *= for example: the caller finds it changed."
    yield says, {"given": in_place, "scale": lambda x: 1.0}


def masks(right: Recipe) -> Found:
    """Other uses of a mask."""

    def instead(visible: Callable) -> Callable:
        return lambda s, x: right.mask(
            s, x if x.visible is None else x._replace(visible=visible(x.visible))
        )

    def times(s: Tensor, x: Any, change: Callable) -> Tensor:
        return s if x.visible is None else change(s, x.visible)

    for says, mask in (
        ("The mask is read the other way round; True = may attend.", instead(torch.logical_not)),
        ("The mask is not used.", instead(torch.ones_like)),
        ("The booleans are added to the scores: True adds 1, False adds 0, nothing is hidden.",
         lambda s, x: times(s, x, torch.add)),
        ("0 times infinity is NaN, so a mask cannot be multiplied by minus infinity; use "
         "masked_fill.",
         lambda s, x: times(s, x, lambda s, v: s + ~v * -math.inf)),
        ("Hidden scores are set to 0 instead of minus infinity, so hidden keys keep some weight.",
         lambda s, x: hide(s, x, 0.0)),
        *(("Hidden scores become a number such as -100 or -1e4, which is more than some "
           f"scores; {LEAST}.",
           lambda s, x, fill=-(10.0**k): hide(s, x, fill)) for k in range(7)),
    ):  # fmt: skip
        yield says, {"mask": mask}
    late = {"mask": lambda s, x: s, "finish": lambda w, x: right.finish(times(w, x, torch.mul), x)}
    yield "The mask comes after the softmax, so the visible weights no longer sum to 1.", late


def rules(right: Recipe) -> Found:
    """Other causal masks."""
    for says, rule in (
        ("There is no causal mask: a query reads later keys.", lambda n, m, k: triangle(n, m, m)),
        ("Each query reads one key too far ahead; the last it reads is its own position.",
         lambda n, m, k: triangle(n, m, k + 1)),
        ("The causal mask hides the query's own position; it reads up to itself.",
         lambda n, m, k: triangle(n, m, k - 1)),
        ("The causal mask is turned around: it hides the past and shows the future.",
         lambda n, m, k: ~triangle(n, m, k - 1)),
        ("The causal mask is aligned to the first key (as is_causal=True does); new queries stand "
         "behind the keys of the past.", lambda n, m, k: triangle(n, m, 0)),
        ("The causal mask is aligned to the last key; here query i reads keys 0 to i.",
         lambda n, m, k: triangle(n, m, m - n)),
        ("The causal mask is (n, n); it has one row a query and one column a key: (n, m).",
         lambda n, m, k: triangle(n, n, k)),
    ):  # fmt: skip
        yield says, {"rule": rule}
