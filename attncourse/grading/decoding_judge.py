"""Judges steps of decoding, which return (output, keys, values): what they share, beside their cases."""

from dataclasses import dataclass

import torch
from torch.nn.functional import normalize, pad

from attncourse.grading.compare import difference, plain, same
from attncourse.grading.mistakes import Found, exponentials
from attncourse.grading.noticing import Noticing
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Recipe, dot, hide, triangle


def which_result(case: Case, expected: tuple, seen: tuple) -> str:
    """Which of the results are wrong; where only the output is, by how much its scores are too large."""
    query, bad = case.args[0], [difference(*both) for both in zip(expected, seen, strict=True)]
    wrong = [name for name, x in zip(("output", "keys", "values"), bad, strict=True) if x]
    if wrong != ["output"]:
        return (
            f"In the first call that is wrong, of the three results wrong are: {', '.join(wrong)}."
        )
    if "scores" in case.label:
        return (
            "Scores of ordinary size give what they should; with larger ones the output is wrong."
        )
    return "The keys and values are right, the output is not. " + of_output(
        query, expected, seen[0]
    )


def of_output(query: torch.Tensor, expected: tuple, output: torch.Tensor) -> str:
    """What can be said of a wrong output, the keys and values being right."""
    n, m, d = query.size(2), *expected[1].shape[2:]
    scores = (query.double() @ expected[1].mT).masked_fill(~triangle(n, m, m - n), -torch.inf)
    for width in (
        *query.shape,
        m,
        m - n,
        expected[2].size(3),
        query.size(1) * d,
        d * d,
        2 * d,
        1,
        64,
    ):
        for scale in (width**-1, width**-0.5, width**-0.25) if width else ():
            if abs(scale * d**0.5 - 1) > 1e-2 and same(
                (scores * scale).softmax(-1) @ expected[2].double(), output
            ):
                return f"Its scores are {scale * d**0.5:.4g} times as large as they should be: look at the scale."
    pairs = zip(expected[0].unbind(2), output.unbind(2), strict=True)
    rows = [difference(*both) for both in pairs]
    if all(rows):
        return f"With {n} new and {m - n} cached tokens it is wrong for every new token."
    at = " and ".join(str(i) for i, bad in enumerate(rows) if bad)
    return f"With {n} new and {m - n} cached tokens it is wrong for new token {at}, and right for others."


@dataclass(frozen=True)
class Decoding(Noticing):
    """Tells also how many tokens the returned keys have, where their number is wrong."""

    def notice(self, expected, seen, seed: int) -> str:
        return super().notice(expected, seen, seed) or tokens_returned(expected, seen)


def tokens_returned(expected: dict, seen: dict) -> str:
    """The length of the returned keys in the first call in which it is wrong."""
    for what, right in expected.items():
        found = seen.get(what)
        if (
            isinstance(right, tuple)
            and isinstance(found, tuple)
            and len(found) == 3
            and plain(found[1])
        ):
            m, k = right[1].size(2), found[1].size(2) if found[1].dim() == 4 else 0
            if k and k != m:
                return f"{m} keys are to be returned, the cached and the new ones; there are {k}."
    return ""


def caches(right: Recipe) -> Found:
    """Other uses of a cache, by any answer that takes one and returns (output, keys, values)."""
    for says, answer in (
        ("Only the new tokens are returned, so the cache does not grow; return all m.",
         lambda o, w, s, x: (o, x.key[:, :, -x.query.size(2) :], x.value[:, :, -x.query.size(2) :])),
        ("The old cache is returned; the new keys and values belong into it.",
         lambda o, w, s, x: (o, x.key[:, :, : -x.query.size(2)], x.value[:, :, : -x.query.size(2)])),
        ("Only the output is returned; return (output, keys, values).", lambda o, w, s, x: o),
        ("The order is (output, values, keys); return the keys first.", lambda o, w, s, x: (o, x.value, x.key)),
        ("Only the last new token asks; each of them does.", lambda o, w, s, x: (o[:, :, -1:], x.key, x.value)),
    ):  # fmt: skip
        yield says, says, {"answer": answer}
    for what, end in (("keys", 4), ("keys and values", 5)):
        says = f"The cached {what} are detached; gradients must flow to all five inputs."
        yield says, says, {"given": lambda *x, end=end: right.given(
            *x[:3], *(past.detach() for past in x[3:end]), *x[end:])}  # fmt: skip


RULES = (  # other causal masks behind a cache
    ("A single query needs no mask, but behind a cache a longer chunk gets one that is aligned to the first key.",
     lambda n, m, p: triangle(n, m, 0 if n > 1 else m)),
    ("There is a mask only when nothing is cached; a chunk behind a cache needs one, too.",
     lambda n, m, p: triangle(n, m, m if p else 0)),
    ("The mask is shifted by n; shift it by the past.", lambda n, m, p: triangle(n, m, n)),
    ("The cached tokens are hidden; a new query reads all of them.",
     lambda n, m, p: triangle(n, m, p) & (torch.arange(m) >= p)),
    ("Of the new tokens a query reads itself only; it also reads those before itself.",
     lambda n, m, p: (torch.arange(m) < p) | torch.eye(m, dtype=torch.bool)[p:]),
)  # fmt: skip
SELDOM = (  # not tried together with others
    ("Of the keys only the new ones are returned; return all.",
     {"answer": lambda o, w, s, x: (o, x.key[:, :, -x.query.size(2) :], x.value)}),
    ("The old keys are returned; the new ones belong into them.",
     {"answer": lambda o, w, s, x: (o, x.key[:, :, : -x.query.size(2)], x.value)}),
    ("The old values are returned; the new ones belong into them.",
     {"answer": lambda o, w, s, x: (o, x.key, x.value[:, :, : -x.query.size(2)])}),
    ("Only the last key and value are returned; return all.",
     {"answer": lambda o, w, s, x: (o, x.key[:, :, -1:], x.value[:, :, -1:])}),
    ("The keys are returned twice; the third result are the values.",
     {"answer": lambda o, w, s, x: (o, x.key, x.key)}),
    ("The weights are returned as well; return (output, keys, values).",
     {"answer": lambda o, w, s, x: (o, w, x.key, x.value)}),
    ("Output and weights are returned; return (output, keys, values).",
     {"answer": lambda o, w, s, x: (o, w)}),
    ("The weights are returned instead of the output.",
     {"answer": lambda o, w, s, x: (w, x.key, x.value)}),
    ("Keys and values are returned as one result; return (output, keys, values).",
     {"answer": lambda o, w, s, x: (o, (x.key, x.value))}),
    ("The returned keys and values are detached; gradients flow through them.",
     {"answer": lambda o, w, s, x: (o, x.key.detach(), x.value.detach())}),
    ("The returned keys are scaled; the scale belongs to the scores.",
     {"answer": lambda o, w, s, x: (o, x.key * x.width**-0.5, x.value)}),
    ("Hidden scores become a number such as -100 or -1e4, which is more than some scores; minus infinity is less than any.",
     {"mask": lambda s, x: hide(s, x, -50.0)}),
    ("Only the cached tokens are visible; a new query also reads new tokens up to itself.",
     {"rule": lambda n, m, p: torch.arange(m).expand(n, m) < p}),
    ("There is a mask only behind a cache; the first chunk needs one, too.",
     {"rule": lambda n, m, p: triangle(n, m, p if p else m)}),
    ("The queries' rows of the mask stand in the opposite order.", {"rule": lambda n, m, p: triangle(n, m, p).flip(0)}),
    ("The scores are the keys times the queries; rows are queries: query @ key.mT.",
     {"score": lambda x: x.key @ x.query.mT, "rule": lambda m, n, p: triangle(n, m, p)}),
    ("All keys, visible or not, get the same weight: neither scores nor mask are used.",
     {"normalize": lambda s: torch.full_like(s, 1 / s.size(-1))}),
    ("The values up to each query are added up, with no weights.",
     {"normalize": lambda s: s.isfinite().to(s.dtype)}),
    ("Hidden scores are filled with plus infinity; minus infinity hides.", {"mask": lambda s, x: hide(s, x, torch.inf)}),
    ("The sign is turned after the mask, so hidden scores become plus infinity.", {"normalize": lambda s: (-s).softmax(-1)}),
    ("The weights are divided by their sum over the queries as well; those of a query sum to 1.",
     {"finish": lambda w, x: w / w.sum(-2, keepdim=True)}),
    ("Negative scores are cut off at 0 and divided by their sum; the exponential is missing.",
     {"normalize": lambda s: s.relu() / s.relu().sum(-1, keepdim=True).clamp(min=1e-9)}),
    ("The scores are squared and divided by their sum; the exponential is missing.",
     {"normalize": lambda s: normalize(s.masked_fill(s == -torch.inf, 0) ** 2, p=1, dim=-1)}),
    ("The scores lose their sign before the softmax.", {"score": lambda x: dot(x).abs()}),
    ("The scores are distances, not dot products.", {"score": lambda x: -torch.cdist(x.query, x.key), "scale": lambda x: 1.0}),
    ("The softmax has a 1 more in its denominator; the weights of a query sum to 1.",
     {"normalize": lambda s: pad(s, (1, 0)).softmax(-1)[..., 1:]}),
    ("The powers are those of 2, not of e.", {"normalize": lambda s: (s * 0.6931471805599453).softmax(-1)}),
    ("One largest score is subtracted from all rows of a head, and those far below it vanish; subtract that of the row.",
     {"normalize": lambda s: exponentials(s - s.amax((-2, -1), keepdim=True))}),
    ("The outputs are divided by the number of heads; each head has its own.",
     {"mix": lambda w, x: w @ x.value / x.query.size(1)}),
    ("Every output is given length 1; return weights @ value as it is.",
     {"mix": lambda w, x: normalize(w @ x.value, dim=-1)}),
    ("The new values are added to the output; it is weights @ value alone.",
     {"mix": lambda w, x: w @ x.value + x.value[:, :, -x.query.size(2) :]}),
    ("The cached part of the weighted sum is left out.",
     {"mix": lambda w, x: w[..., -x.query.size(2) :] @ x.value[:, :, -x.query.size(2) :]}),
    ("Heads and positions of the output are exchanged by a reshape; transpose moves axes, reshape does not.",
     {"answer": lambda o, w, s, x: (o.reshape(len(o), o.size(2), o.size(1), -1), x.key, x.value)}),
)  # fmt: skip
