"""Rarer mistakes of attention-shaped exercises: in the form of `attncourse.grading.mistakes`, but not paired with others."""

import math
from collections.abc import Iterable

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.mistakes import Found, exponentials
from attncourse.grading.recipe import Recipe, dot


def slips(right: Recipe) -> Found:
    """What else is done to scores, weights and values; rarer, so it is not paired with other mistakes."""
    yield from _slips_of_scores()
    yield from _slips_of_weights()
    for name, says, scale in (
        ("scaled by samples", "The scale uses the number of samples", lambda x: x.query.size(0) ** -0.5),
        ("scaled once by the fourth root", "Only one of query and key is divided by the fourth root",
         lambda x: x.width**-0.25),
        ("divided by 8", "The scores are divided by 8, whatever the width is", lambda x: 1 / 8),
        ("divided by sqrt(8)", "The scores are divided by sqrt(8), whatever the width is", lambda x: 8**-0.5),
    ):  # fmt: skip
        yield name, f"{says}; the scale is sqrt({right.width}).", {"scale": scale}
    for name, says, mix in (
        ("values of head 0", "All heads mix the values of head 0; each has its own.", lambda w, x: w @ x.value[:, :1]),
        ("values of sample 0", "All samples mix the values of sample 0; each has its own.",
         lambda w, x: w @ x.value[:1]),
        ("detached for the mix", "No gradient flows through the weights into the output; they are detached before "
         "the mix.", lambda w, x: w.detach() @ x.value),
    ):  # fmt: skip
        yield name, says, {"mix": mix}
    for name, says, cut in (
        ("only head 0", "Only head 0 is returned; return all heads.", lambda o: o[:, :1]),
        (
            "only sample 0",
            "Only the first sample is returned; return all of them.",
            lambda o: o[:1],
        ),
    ):
        yield name, says, {"answer": lambda o, w, s, x, f=cut: right.answer(f(o), f(w), s, x)}


def _slips_of_scores() -> Found:
    distance = "The scores are distances between query and key; they are dot products."
    for name, says, score in (
        ("distances", distance, lambda x: -torch.cdist(x.query, x.key)),
        ("squared distances", distance, lambda x: -torch.cdist(x.query, x.key) ** 2),
        ("absolute scores", "The scores lose their sign (abs); a negative score means little weight.",
         lambda x: dot(x).abs()),
        ("squared scores", "The scores are squared; they enter the softmax as they are.", lambda x: dot(x) ** 2),
        ("no negative scores", "Negative scores become 0 before the softmax; they enter it as they are.",
         lambda x: dot(x).relu()),
        ("keys added", "The keys of all heads are added up; each head has its own.",
         lambda x: x.query @ x.key.sum(1, keepdim=True).mT),
        ("queries with queries", "The queries meet themselves; scores are queries times keys.",
         lambda x: x.query @ x.query.mT),
        ("keys with keys", "The keys meet themselves; scores are queries times keys.", lambda x: x.key @ x.key.mT),
    ):  # fmt: skip
        yield name, says, {"score": score}


def _slips_of_weights() -> Found:
    one = "The softmax runs over {} at once; each query has a weight of 1 to share out."
    overflow = "The exponential overflows on large scores"
    least = "The mean or the smallest score of the row is subtracted, so the exponential still overflows; subtract the largest."
    for name, says, normalize in (
        ("softmax over all", one.format("all scores"), lambda s: s.flatten().softmax(0).view_as(s)),
        ("softmax over a sample", one.format("all scores of a sample"),
         lambda s: s.flatten(1).softmax(-1).view_as(s)),
        ("overflow hidden", f"{overflow}, and nan_to_num hides that behind zeros; subtract the largest score of the "
         "row first.", lambda s: exponentials(s).nan_to_num()),
        ("overflow beside epsilon", f"{overflow}; subtract the largest score of the row first, as torch.softmax "
         "does.", lambda s: s.exp() / (s.exp().sum(-1, keepdim=True) + 1e-9)),
        ("smallest subtracted", least,
         lambda s: exponentials(s - s.amin(-1, keepdim=True))),
        ("mean subtracted", least, lambda s: exponentials(s - s.mean(-1, keepdim=True))),
        ("largest of a key", "The largest score of each key is subtracted; subtract that of the row.",
         lambda s: exponentials(s - s.amax(-2, keepdim=True))),
        ("largest at least 0", "The largest score of a row is clamped at 0 before it is subtracted, and rows far "
         "below 0 vanish.", lambda s: exponentials(s - s.amax(-1, keepdim=True).clamp(min=0))),
        ("rows of zeros", "The largest of all scores is subtracted, and rows far below it become zeros; subtract that "
         "of the row.", lambda s: exponentials(s - s.max()).nan_to_num()),
        ("base 2", "The weights are powers of 2; a softmax has powers of e.",
         lambda s: (s * math.log(2)).softmax(-1)),
        ("one added", "A 1 is added to the sum of the exponentials, so the weights do not sum to 1.",
         lambda s: torch.nn.functional.pad(s, (0, 1)).softmax(-1)[..., :-1]),
        ("relu", "The weights are relu of the scores, divided by their sum; the exponential is missing.",
         lambda s: s.relu() / (s.relu().sum(-1, keepdim=True) + 1e-9)),
        ("half precision", "The scores are rounded to float16, which ends at 65504 and keeps 3 digits; stay in "
         "float32.", lambda s: s.half().softmax(-1).float()),
        ("dropout", "Dropout changes the weights at random; nothing is random here.",
         lambda s: torch.nn.functional.dropout(s.softmax(-1), 0.1)),
    ):  # fmt: skip
        yield name, says, {"normalize": normalize}


def clamped(right: Recipe) -> Found:
    """Scores kept between two numbers, so that those beyond become equal."""
    for most in (10.0, 50.0, 80.0, 100.0, 500.0, 1e3, 1e4, 1e5, 1e6):
        for low, high in ((-most, most), (None, most), (-most, None)):

            def normalize(s, low=low, high=high):
                return right.normalize(torch.where(s == -math.inf, s, s.clamp(low, high)))

            ends = " and ".join(f"{x:g}" for x in (low, high) if x is not None)
            says = "The scores are clamped, so that large ones become equal; the softmax needs no limit."
            yield f"clamped at {ends}", says, {"normalize": normalize}
    for most in (20.0, 30.0, 50.0):
        says = "The scores are capped by tanh, so that large ones become nearly equal; the softmax needs no limit."
        yield (
            f"capped at {most}",
            says,
            {"normalize": lambda s, m=most: right.normalize(m * (s / m).tanh())},
        )


def alone(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """The same mistakes, which are not looked for in pairs: that would cost too much where they are many."""
    return [Mistake(mistake.says, mistake.answer) for mistake in mistakes]
