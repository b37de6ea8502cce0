"""The mistakes that every attention-shaped exercise shares, so that the same slip always hears the same sentence.

A family replaces one step of `attncourse.grading.recipe.Recipe` in every way that people do:

    MISTAKES = Mistakes(mistakes_of(RIGHT, *ATTENTION, masks, rules, without=("top left",)))
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.mistake import Mistake
from attncourse.grading.recipe import Recipe, hide, triangle

Found = Iterator[tuple[str, str, dict[str, Callable]]]  # name, sentence, the steps it replaces
Family = Callable[[Recipe], Found]


def mistakes_of(right: Recipe, *families: Family, without: tuple[str, ...] = ()) -> list[Mistake]:
    """The mistakes of whole families.

    Args:
        right: the right answer.
        families: of this module; `ATTENTION` has those that every attention-shaped answer shares.
        without: names of mistakes that cannot be made here, or are none here.

    Raises:
        ValueError: no mistake of these families has a name of ``without``.
    """
    found = {name: right.but(says, **steps) for f in families for name, says, steps in f(right)}
    if unknown := set(without) - found.keys():
        raise ValueError(f"no mistake is called {', '.join(unknown)}; there are {', '.join(found)}")
    return [mistake for name, mistake in found.items() if name not in without]


def dots(right: Recipe) -> Found:
    """Everything but the products of queries and keys."""
    for name, says, score in (
        ("key reshaped", "The key is reshaped to (batch, heads, head_dim, keys), which tears its rows apart; "
         "transpose it.", lambda x: x.query @ x.key.reshape(x.key.mT.shape)),
        ("cosines", "The scores are cosines: query and key are divided by their lengths. They are dot products.",
         lambda x: torch.nn.functional.normalize(x.query, dim=-1)
         @ torch.nn.functional.normalize(x.key, dim=-1).mT),
        ("query and key swapped", "The scores are the keys times the queries; rows are queries: query @ key.mT.",
         lambda x: x.key @ x.query.mT),
    ):  # fmt: skip
        yield name, says, {"score": score}


def scales(right: Recipe) -> Found:
    """Every other factor that people put on the scores."""
    root = f"sqrt({right.width})"
    for name, says, scale in (
        ("unscaled", f"The scores are not divided by {root}.", lambda x: 1.0),
        ("divided by head_dim", f"The scores are divided by {right.width} instead of its square root.",
         lambda x: 1 / x.width),
        ("multiplied", f"The scores are multiplied by {root}; divide by it.",
         lambda x: x.width**0.5),
        ("scaled by values", f"The scale uses the width of the values; it is {root}.",
         lambda x: x.value.size(-1) ** -0.5),
        ("scaled by keys", f"The scale uses the number of keys; it is {root}.",
         lambda x: x.key.size(-2) ** -0.5),
        ("scaled by queries", f"The scale uses the number of queries; it is {root}.",
         lambda x: x.query.size(-2) ** -0.5),
        ("scaled by heads", f"The scale uses the number of heads; it is {root}.",
         lambda x: x.query.size(1) ** -0.5),
        ("scaled by all heads", "The scale uses the width of all heads together; it is the square root "
         "of the width of one.", lambda x: (x.query.size(1) * x.width) ** -0.5),
    ):  # fmt: skip
        yield name, says, {"scale": scale}
    yield (
        "scaled after the softmax",
        "The scale is applied to the weights, after the softmax; it belongs to the scores.",
        {"scale": lambda x: 1.0, "finish": lambda w, x: right.finish(w, x) * x.width**-0.5},
    )


def exponentials(scores: Tensor) -> Tensor:
    """The softmax as it is written, without a thought of overflow."""
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


def softmaxes(right: Recipe) -> Found:
    """Every other way from scores to weights."""
    for name, says, normalize in (
        ("softmax over queries", "The softmax runs over the queries; each query shares out its weight "
         "among the keys (dim=-1).", lambda s: s.softmax(-2)),
        ("softmax over heads", "The softmax runs over the heads; each query shares out its weight among "
         "the keys (dim=-1).", lambda s: s.softmax(1)),
        ("softmax over samples", "The softmax runs over the samples; each query shares out its weight "
         "among the keys (dim=-1).", lambda s: s.softmax(0)),
        ("softmax over both", "The softmax runs over queries and keys at once; each query has a weight "
         "of 1 to share out.", lambda s: s.flatten(-2).softmax(-1).view_as(s)),
        ("softmax over heads and keys", "The softmax runs over heads and keys at once; each head has a weight "
         "of 1 to share out for every query.",
         lambda s: s.transpose(1, 2).flatten(2).softmax(-1).unflatten(-1, (s.size(1), -1)).transpose(1, 2)),
        ("no softmax", "The softmax is missing: the scores are used as weights.", lambda s: s),
        ("no exponential", "The scores are divided by their sum; the exponential is missing.",
         lambda s: s / s.sum(-1, keepdim=True)),
        ("not divided", "The exponentials are not divided by their sum.", lambda s: s.exp()),
        ("sigmoid", "The weights are sigmoids of the scores; those of a query must sum to 1.",
         lambda s: s.sigmoid()),
        ("softmax twice", "The softmax is taken twice.", lambda s: s.softmax(-1).softmax(-1)),
        ("log softmax", "These are the logarithms of the weights: log_softmax instead of softmax.",
         lambda s: s.log_softmax(-1)),
        ("negative scores", "The sign of the scores is turned: the best key gets the least weight.",
         lambda s: torch.where(s == -math.inf, s, -s).softmax(-1)),
        ("one hot", "All weight goes to the best key; that is argmax, not softmax.",
         lambda s: torch.nn.functional.one_hot(s.argmax(-1), s.size(-1)).to(s.dtype)),
        ("uniform", "All visible keys get the same weight; the scores are not used.",
         lambda s: torch.where(s == -math.inf, s, 0 * s).softmax(-1)),
        ("overflow", "The exponential overflows on large scores; subtract the largest score of the row "
         "first, as torch.softmax does.", exponentials),
        ("overflow in float64", "The exponential overflows on large scores, in float64 as well; subtract "
         "the largest score of the row first.", lambda s: exponentials(s.double()).float()),
        ("largest of all", "One largest score is subtracted from several rows, and those far below it vanish; "
         "subtract that of the row.", lambda s: exponentials(s - s.max())),
        ("largest of all in float64", "One largest score is subtracted from several rows, and those far "
         "below it vanish; subtract that of the row.",
         lambda s: exponentials(s.double() - s.max()).float()),
    ):  # fmt: skip
        yield name, says, {"normalize": normalize}


def mixes(right: Recipe) -> Found:
    """Everything but the weighted mean of the values."""
    for name, says, mix in (
        ("keys mixed", "The keys are mixed instead of the values.", lambda w, x: w @ x.key),
        ("queries mixed", "The queries are mixed instead of the values.", lambda w, x: w @ x.query),
        ("weights transposed", "The weights are transposed before they meet the values: rows are queries.",
         lambda w, x: w.mT @ x.value),
        ("values added", "The values are added up, with the same weight for every key; weights @ value.",
         lambda w, x: x.value.sum(-2, keepdim=True) + 0 * (w @ x.value)),
    ):  # fmt: skip
        yield name, says, {"mix": mix}


def outputs(right: Recipe) -> Found:
    """The right numbers in another shape or order."""
    averaged = "The outputs of the heads are averaged; return one for each head."
    for name, says, change in (
        ("output averaged", averaged, lambda o: o.mean(1, keepdim=True)),
        ("output averaged without its axis", averaged, lambda o: o.mean(1)),
        ("output averaged for all heads", averaged, lambda o: o.mean(1, keepdim=True).expand_as(o)),
        ("output added", "The outputs of the heads are added up; return one for each head.",
         lambda o: o.sum(1, keepdim=True)),
        ("positions first", "The heads of the output stand behind the positions; the axes are (batch, "
         "heads, positions, width).", lambda o: o.transpose(1, 2)),
        ("heads merged", "The heads of the output are merged; the axes are (batch, heads, positions, "
         "width).", lambda o: o.transpose(1, 2).flatten(2)),
        ("squeezed", "Axes of size 1 are squeezed away; keep all of them.", lambda o: o.squeeze()),
    ):  # fmt: skip
        yield name, says, {"answer": lambda o, w, s, x, f=change: right.answer(f(o), w, s, x)}


def weights(right: Recipe) -> Found:
    """Where the answer is (output, weights): what else people return."""
    for name, says, answer in (
        ("output only", "Only the output is returned; return (output, weights).",
         lambda o, w, s, x: right.answer(o, w, s, x)[0]),
        ("order swapped", "The order is (weights, output); return (output, weights).",
         lambda o, w, s, x: right.answer(o, w, s, x)[::-1]),
        ("scores returned", "The scores are returned instead of the weights.",
         lambda o, w, s, x: right.answer(o, s, s, x)),
        ("weights averaged", "The weights are averaged over the heads; return those of each head.",
         lambda o, w, s, x: right.answer(o, w.mean(1), s, x)),
        ("heads of weights first", "The heads stand in front of the samples in the weights; the axes are "
         "(batch, heads, queries, keys).", lambda o, w, s, x: right.answer(o, w.transpose(0, 1), s, x)),
        ("weights returned transposed", "The returned weights are transposed; rows are queries, columns "
         "are keys.", lambda o, w, s, x: right.answer(o, w.mT, s, x)),
        ("weights returned detached", "The returned weights are detached; gradients flow through them.",
         lambda o, w, s, x: right.answer(o, w.detach(), s, x)),
    ):  # fmt: skip
        yield name, says, {"answer": answer}


def gradients(right: Recipe) -> Found:
    """The right numbers, and somewhere a detach or a no_grad."""

    def without(**parts: Callable) -> Callable:
        """What is given, with some of it changed."""

        def given(*arguments, **named):
            x = right.given(*arguments, **named)
            return x._replace(**{name: change(getattr(x, name)) for name, change in parts.items()})

        return given

    cut = Tensor.detach
    yield (
        "weights detached",
        "No gradient flows through the weights; they are detached or made inside no_grad.",
        {"finish": lambda w, x: right.finish(w, x).detach()},
    )
    yield (
        "all detached",
        "No gradient flows back: the result is detached or made inside no_grad.",
        {"answer": lambda o, w, s, x: detached(right.answer(o, w, s, x))},
    )
    for name in ("query", "key", "value"):
        says = f"No gradient flows back to {name}: it is detached."
        yield f"{name} detached", says, {"given": without(**{name: cut})}


def detached(x: Any) -> Any:
    """A tensor, or every tensor of a tuple, without its graph."""
    return tuple(map(detached, x)) if isinstance(x, tuple) else x.detach()


def heads(right: Recipe) -> Found:
    """One question for all heads."""
    for name, says, change in (
        ("queries averaged", "The queries of the heads are averaged; every head asks its own question.",
         lambda q: q.mean(1, keepdim=True).expand_as(q)),
        ("queries of head 0", "All heads ask the question of head 0; every head asks its own.",
         lambda q: q[:, :1].expand_as(q)),
    ):  # fmt: skip

        def given(*arguments, change=change, **named):
            x = right.given(*arguments, **named)
            return x._replace(query=change(x.query))

        yield name, says, {"given": given}


def in_place(right: Recipe) -> Found:
    """The first argument is changed; the caller finds it changed."""

    def given(query, *others, **named):
        x = right.given(query, *others, **named)
        return x._replace(query=right.given(query.mul_(x.width**-0.5), *others, **named).query)

    says = "The query is changed in place, by /= or *= for example: the caller finds it changed."
    yield "scaled in place", says, {"given": given, "scale": lambda x: 1.0}


def masks(right: Recipe) -> Found:
    """Every other use of a mask."""

    def instead(visible: Callable) -> Callable:
        return lambda s, x: right.mask(
            s, x if x.visible is None else x._replace(visible=visible(x.visible))
        )

    def times(s, x, change):
        return s if x.visible is None else change(s, x.visible)

    for name, says, mask in (
        ("mask inverted", "The mask is read the other way round; True = may attend.",
         instead(lambda visible: ~visible)),
        ("mask unused", "The mask is not used.", instead(torch.ones_like)),
        ("mask added", "The booleans are added to the scores: True adds 1, False adds 0, nothing is hidden.",
         lambda s, x: times(s, x, torch.add)),
        ("infinity times zero", "0 times infinity is NaN, so a mask cannot be multiplied by minus infinity; "
         "use masked_fill.", lambda s, x: times(s, x, lambda s, v: s + ~v * -math.inf)),
        ("filled with 0", "Hidden scores are set to 0 instead of minus infinity, so hidden keys keep some "
         "weight.", lambda s, x: hide(s, x, 0.0)),
    ):  # fmt: skip
        yield name, says, {"mask": mask}
    for fill in (-1.0, -10.0, -100.0, -1e3, -1e4, -1e5, -1e6):
        says = (
            "Hidden scores become a number such as -100 or -1e4, which is more than some scores; minus "
            "infinity is less than any."
        )
        yield f"filled with {fill:g}", says, {"mask": lambda s, x, f=fill: hide(s, x, f)}

    late = {"mask": lambda s, x: s, "finish": lambda w, x: right.finish(times(w, x, torch.mul), x)}
    says = "The mask comes after the softmax, so the visible weights no longer sum to 1."
    yield "masked after the softmax", says, late


def rules(right: Recipe) -> Found:
    """Every other causal mask."""
    for name, says, rule in (
        ("not causal", "There is no causal mask: a query reads later keys.",
         lambda n, m, k: triangle(n, m, m)),
        ("one future key", "Each query reads one key too far ahead; the last it reads is its own position.",
         lambda n, m, k: triangle(n, m, k + 1)),
        ("itself hidden", "The causal mask hides the query's own position; it reads up to itself.",
         lambda n, m, k: triangle(n, m, k - 1)),
        ("turned around", "The causal mask is turned around: it hides the past and shows the future.",
         lambda n, m, k: ~triangle(n, m, k - 1)),
        ("only itself", "A query reads itself only; it also reads what came before.",
         lambda n, m, k: triangle(n, m, k) & ~triangle(n, m, k - 1)),
        ("top left", "The causal mask is aligned to the first key (as is_causal=True does); new queries "
         "stand behind the keys of the past.", lambda n, m, k: triangle(n, m, 0)),
        ("bottom right", "The causal mask is aligned to the last key; here query i reads keys 0 to i.",
         lambda n, m, k: triangle(n, m, m - n)),
        ("square mask", "The causal mask is (n, n); it has one row a query and one column a key: (n, m).",
         lambda n, m, k: triangle(n, n, k)),
    ):  # fmt: skip
        yield name, says, {"rule": rule}


ATTENTION = (dots, scales, softmaxes, mixes, outputs, gradients, heads)
ALL = (*ATTENTION, weights, in_place, masks, rules)
