"""What the output of attention tells of its steps: where the values are wider than there are keys, the weights that mixed
them can be computed from it, and from these the scores up to a constant for each query.

It is asked where no known mistake explains an answer, and says what was found, not what was written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.exercise import Calls, Counts
from attncourse.grading.symptoms import COARSE

NEAR = 2e-3  # of outputs and weights; float32 and a pseudo-inverse are between
NO_SOFTMAX = (
    "The weights of a query add up to 1, but they are no softmax of query times key, whatever the scale: look at what "
    "becomes of the scores on the way to the softmax, and of the weights behind it."
)
ONLY_LOUD = (
    "Ordinary scores give the right result, large ones do not. Something depends on their size: an exponential without the "
    "largest score of the row subtracted, a clamp, a small number that is added, or a low precision."
)


def only_loud(expected: dict[str, Any], seen: dict[str, Any]) -> str:
    """`ONLY_LOUD` where that is so, of cases that are called "... scores ...", else ''."""
    wrong = [what for what in expected if what in seen and difference(expected[what], seen[what])]
    outputs = [what for what in wrong if what.endswith(", output")]
    return ONLY_LOUD if outputs and all("scores" in what for what in outputs) else ""


def told(
    query: Tensor, key: Tensor, value: Tensor, output: Tensor, weights: Tensor | None = None
) -> str:
    """What is wrong with an output of grouped-query attention without a mask, in one or two sentences, or ''.

    Args:
        query: (b, H, n, d); key: (b, G, m, d); value: (b, G, m, e) with e >= m.
        output: (b, H, n, e), as it was returned; weights: (b, H, n, m), where they were returned as well.
    """  # fmt: skip
    query, key, value, output = (x.double() for x in (query, key, value, output))
    reads = [h // (query.size(1) // key.size(1)) for h in range(query.size(1))]
    mixing, mixed = _mixed(value, output, reads)
    if None in mixed:
        return _no_mixture(mixed)
    made = torch.stack([mixing[:, g, h] for h, g in enumerate(mixed)], 1)
    if weights is not None and not _near(made, weights.double()):
        right = softmax_of(query, key[:, reads])
        if _near(made, right):
            return "The output is right, but the returned weights are not. " + _of_weights(
                query, key, weights.double(), reads
            )
        also = "The returned weights are others than those that mix the values."
    else:
        also = ""
    return " ".join(filter(None, (_of_weights(query, key, made, reads, mixed), also.strip())))


def softmax_of(query: Tensor, key: Tensor) -> Tensor:
    """The right weights."""
    return (query @ key.mT / query.size(-1) ** 0.5).softmax(-1)


def _near(a: Tensor, b: Tensor, margin: float = NEAR) -> bool:
    return a.shape == b.shape and bool((a - b).abs().max() <= margin * (1 + b.abs().max()))


def _mixed(value: Tensor, output: Tensor, reads: Sequence[int]) -> tuple[Tensor, list[int | None]]:
    """Weights (b, G, H, n, m) that would make each head of each KV head's values, and whose values it mixes."""
    value, output = value[:, :, None], output[:, None]
    weights = output @ torch.linalg.pinv(value)
    fits = ((weights @ value - output).abs() <= NEAR * (1 + output.abs())).all(-1).all(-1).all(0)
    return weights, [_first(fits[:, h].tolist(), g) for h, g in enumerate(reads)]


def _first(fits: list[bool], preferred: int) -> int | None:
    """The preferred place if it fits, else the first that does."""
    found = [k for k, fit in enumerate(fits) if fit]
    return preferred if preferred in found else (found or [None])[0]


def _no_mixture(mixed: list[int | None]) -> str:
    which = "An output head" if None not in mixed[:1] else "Output head 0"
    return f"{which} is no weighted sum of the values of any one KV head: look at what is mixed, and whether heads are added or torn apart."


def _order(sentence: str, found: list[int], right: Sequence[int]) -> str:
    words = (", ".join(map(str, x)) for x in (found, right))
    return "" if found == list(right) else sentence.format(len(right) - 1, *words)


def _of_weights(
    query: Tensor, key: Tensor, weights: Tensor, reads: list[int], mixed: list[int] | None = None
) -> str:
    """What is wrong with weights (b, H, n, m) that mix the values of these KV heads, or ''."""
    mixed = mixed or reads
    values = _order(
        "Output heads 0 to {} mix the values of KV heads {}; they should be {}.", mixed, reads
    )
    sums = weights.sum(-1)
    if (sums - 1).abs().max() > 5 * NEAR:
        worst = float(sums.flatten()[(sums - 1).abs().argmax()])
        return f"{values} The weights of a query should add up to 1; here some add up to {worst:.3g}.".strip()
    if weights.min() < -5 * NEAR:
        return f"{values} No softmax gives a negative weight; here one is {float(weights.min()):.3g}.".strip()
    heads = [_asked(query, key, weights[:, h], h, g) for h, g in enumerate(reads)]
    if None in heads or _hidden(weights):
        return f"{values} {_hidden(weights) or NO_SOFTMAX}".strip()
    asked, met, factors = map(list, zip(*heads, strict=True))
    if met == mixed:
        values = _order("Query heads 0 to {} read KV heads {}; they should read {}.", met, reads)
    says = [
        _order("Output heads 0 to {} ask the questions of query heads {}; they should be {}.", asked, range(len(asked))),
        values,
        "" if met == mixed else
        _order("Query heads 0 to {} meet the keys of KV heads {}; they should be {}.", met, reads),
        _factor(factors),
    ]  # fmt: skip
    return " ".join(filter(None, says))


def _hidden(weights: Tensor) -> str:
    hidden = (weights.abs() < 1e-7).all(0).all(0)  # (n, m)
    if not hidden.any():
        return ""
    i = int(hidden.any(-1).nonzero()[0])
    keys = ", ".join(map(str, hidden[i].nonzero()[:, 0].tolist()))
    return f"In every head query {i} gives no weight to keys {keys}, though every query may read every key."


def _asked(query, key, weights: Tensor, h: int, g: int) -> tuple[int, int, float] | None:
    """Whose question, whose keys and which factor on the right scores make these weights (b, n, m)."""
    there = weights > 1e-4  # of the others float32 has not kept the logarithm
    logs = _centred(weights.clamp(min=1e-4).log(), there)
    pairs = [(a, b) for a in range(query.size(1)) for b in range(key.size(1))]
    for asks, answers in sorted(pairs, key=lambda pair: (pair != (h, g), pair[0] != h)):
        scores = _centred(query[:, asks] @ key[:, answers].mT / query.size(-1) ** 0.5, there)
        factor = float((logs * scores).sum() / scores.square().sum())
        off = (logs - factor * scores).square().sum()
        if abs(factor) > 1e-3 and off <= 1e-3 * logs.square().sum():
            return asks, answers, factor
    return None


def _centred(x: Tensor, there: Tensor) -> Tensor:
    """Less the mean of its row, where it is there; 0 elsewhere."""
    return (
        x - (x * there).sum(-1, keepdim=True) / there.sum(-1, keepdim=True).clamp(min=1)
    ) * there


def _factor(factors: list[float]) -> str:
    if max(abs(f - 1) for f in factors) < 0.01:
        return ""
    if max(factors) - min(factors) > 0.01 * abs(factors[0]):
        return "The scores have another scale in each head."
    times = f"{factors[0]:.3g} times"
    return f"The scores that reach the softmax are {times} what they should be: look at the scale."


def told_by(label: str, expected: dict[str, Any], seen: dict[str, Any], arguments: tuple) -> str:
    """`told` of one call, where the other shapes are right."""
    right, found = (x.get(f"{label}, output") for x in (expected, seen))
    two = isinstance(right, tuple)
    found = found if two else (found,)
    if not isinstance(found, tuple) or len(found) != 1 + two:
        return ""
    right = right if two else (right,)
    if any(
        not plain(y) or y.shape != x.shape or not y.isfinite().all()
        for x, y in zip(right, found, strict=True)
    ):
        return ""
    if all(_near(x.double(), y.double(), COARSE) for x, y in zip(right, found, strict=True)):
        return ""
    return told(*arguments, *found)


@dataclass(frozen=True)
class Several(Calls):
    """`Calls` that return several results.

    Args:
        names: what the results are called.
    """

    names: tuple[str, ...] = ()

    def notice(self, expected: dict[str, Any], seen: dict[str, Any], seed: int) -> str:
        return of_several(self.names, expected, seen)


@dataclass(frozen=True)
class SeveralCounts(Counts):
    """`Counts` that return several numbers, as `Several`."""

    names: tuple[str, ...] = ()

    def notice(self, expected: dict[str, Any], seen: dict[str, Any], seed: int) -> str:
        return of_several(self.names, expected, seen)


def of_several(names: Sequence[str], expected: dict[str, Any], seen: dict[str, Any]) -> str:
    """Which of several results are right in all calls, and how the others are wrong."""
    labels = [
        what for what in expected if what.endswith(", output") and isinstance(expected[what], tuple)
    ]
    calls = [(what.removesuffix(", output"), expected[what], seen.get(what)) for what in labels]
    if not calls or not all(isinstance(s, tuple) and len(s) == len(e) for _, e, s in calls):
        return ""
    if any(
        isinstance(x, Tensor) and (not plain(y) or x.shape != y.shape)
        for _, e, s in calls
        for x, y in zip(e, s, strict=True)
    ):
        return ""
    right, wrong = [], []
    for k, name in enumerate(names):
        pairs = [(label, e[k], s[k]) for label, e, s in calls if difference(e[k], s[k])]
        wrong += [f"{name} {_how(pairs, len(calls))}"] if pairs else []
        right += [] if pairs else [name]
    good = f"Right in all calls: {' and '.join(right)}. " if right else ""
    return f"{good}Not right: {'; '.join(wrong)}." if wrong else ""


def _how(pairs: list[tuple[str, Any, Any]], calls: int) -> str:
    """In how many calls it is wrong, and by which factor, if by one."""
    few = f"in {len(pairs)} of {calls} calls, the first is '{pairs[0][0]}'"
    where = "in all calls" if len(pairs) == calls else few
    if not all(isinstance(x, Tensor) and x.isfinite().all() for _, *both in pairs for x in both):
        return where
    pairs = [(e.double(), s.double()) for _, e, s in pairs]
    factor = float(
        sum((e * s).sum() for e, s in pairs)
        / sum(e.square().sum() for e, _ in pairs).clamp(min=1e-30)
    )
    scaled = abs(factor - 1) > 0.02 and all(_near(s, factor * e) for e, s in pairs)
    return f"{where}{f', {factor:.3g} times what it should be' * scaled}"
