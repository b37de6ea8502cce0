"""Masks and masked attention, with a sentence on what is wrong where no known mistake explains it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.exercise import Calls, cases_of


@dataclass(frozen=True)
class Told(Calls):
    """`Calls` that looks at the first wrong output itself.

    Args:
        tells: (arguments of the call, expected, seen) -> a true sentence, or ''.
    """

    tells: Callable[[tuple, Any, Any], str] = lambda *_: ""

    def notice(self, expected: dict, seen: dict, seed: int) -> str:
        return next(
            (said for call in self.wrong(expected, seen, seed) if (said := self.tells(*call))), ""
        )

    def wrong(self, expected: dict, seen: dict, seed: int) -> Iterator[tuple[tuple, Any, Any]]:
        """Arguments, expected and seen, of the calls with a wrong output."""
        for case in cases_of(self, seed):
            what = f"{case.label}, output"
            if what in seen and difference(expected[what], seen[what]):
                yield case.args, expected[what], seen[what]


def wrong_pair(arguments: tuple, expected: Tensor, seen: Any) -> str:
    """The first pair that a boolean mask judges wrongly."""
    if not plain(seen) or seen.shape != expected.shape or seen.dtype != torch.bool:
        return ""
    wrong = seen != expected
    *sample, i, j = wrong.nonzero()[0].tolist()
    where = (
        f"sample {sample[0]}, which has {int(arguments[0][sample[0]])} tokens: " if sample else ""
    )
    count = f"Of {wrong.numel()} pairs {int(wrong.sum())} differ"
    if seen[*sample, i, j]:
        why = "comes later" if j > i else "is padding"
        return (
            f"{count}, for example in {where}query {i} reads key {j}, which {why}."
            if sample
            else (f"{count}: query {i} reads key {j}, which {why}.")
        )
    says = f"query {i} does not read key {j}, and should"
    return f"{count}, for example in {where}{says}." if sample else f"{count}: {says}."


def of_attention(arguments: tuple, expected: Any, seen: Any) -> str:
    """What the weights of masked attention break: (output, weights)."""
    query, key, _, mask = arguments
    if not (isinstance(seen, tuple) and len(seen) == 2 and all(map(plain, seen))):
        return ""
    if any(s.shape != e.shape for e, s in zip(expected, seen, strict=True)):
        return ""
    weights = seen[1].double()
    empty = ~mask.any(-1, keepdim=True).expand(*weights.shape[:-1], 1)
    hidden = ~mask.expand_as(weights)
    if not weights.isfinite().all():
        where = "an empty row" if (~weights.isfinite() & empty).any() else "a row that is not empty"
        return f"The weights have NaN or infinity in {where}."
    if (weights * empty).abs().max() > 1e-4:
        return "An empty row has weights that are not 0; a query that may read nothing gives weights of 0."
    if (taken := (weights * hidden).abs().max()) > 1e-4:
        return f"A hidden key has weight, up to {taken:.2g}; its weight is 0."
    sums = weights.sum(-1, keepdim=True)[~empty]
    if len(sums) and (off := (sums - 1).abs()).max() > 1e-3:
        return f"The weights of a row that is not empty sum to {sums[off.argmax()]:.3g}, not to 1."
    if not difference(expected[1], seen[1]):
        return "The weights are right, the output is not: it is the weights times the values."
    return "Hidden keys and empty rows have weight 0, and the weights sum to 1; but they are not shared as scores ask."


def by_axes(expected: dict, seen: dict, seed: int, judge: Calls) -> str:
    """For which masks the output is right, by the number of their axes."""
    right, wrong = set(), set()
    for case in cases_of(judge, seed):
        what = f"{case.label}, output"
        (wrong if difference(expected[what], seen.get(what)) else right).add(case.args[3].dim())
    names = {2: "(n, m)", 3: "(batch, n, m)", 4: "(batch, heads, n, m)"}
    if not wrong or right & wrong or not right:
        return ""
    listed = [" and ".join(names[x] for x in sorted(kind)) for kind in (right, wrong)]
    return f"With masks of shape {listed[0]} the output is right, with those of shape {listed[1]} it is not."


@dataclass(frozen=True)
class ByAxes(Calls):
    """`Calls` with masks of several shapes."""

    def notice(self, expected: dict, seen: dict, seed: int) -> str:
        return by_axes(expected, seen, seed, self)


def conventions(expected: dict, seen: dict, seed: int, judge: Calls) -> str:
    """What each convention gets wrong, and the unknown names."""
    told = []
    for case in cases_of(judge, seed):
        mask, name = case.args
        what = f"{case.label}, output"
        e, s = expected[what], seen.get(what, expected[what])
        if not difference(e, s):
            continue
        if not isinstance(e, Tensor):
            told.append("an unknown name does not raise a ValueError")
        elif not plain(s):
            told.append(f'"{name}" does not return a tensor')
        elif s.shape != e.shape:
            told.append(
                f'"{name}" returns shape {tuple(s.shape)} for a mask of shape {tuple(e.shape)}'
            )
        elif s.dtype != torch.bool:
            told.append(f'"{name}" returns {s.dtype} instead of torch.bool')
        else:
            at = tuple((s != e).nonzero()[0].tolist())
            kept = "hidden" if e[at] else "visible"
            told.append(f'"{name}" takes {mask[at].item():g} as {kept}' if mask.dtype != torch.bool else
                        f'"{name}" takes {mask[at].item()} as {kept}')  # fmt: skip
    told = list(dict.fromkeys(told))
    return "; ".join(told)[:1].upper() + "; ".join(told)[1:] + "." if told else ""


@dataclass(frozen=True)
class Conventions(Calls):
    """`Calls` with a mask and the name of its convention."""

    def notice(self, expected: dict, seen: dict, seed: int) -> str:
        return conventions(expected, seen, seed, self)
