"""Exercise toeplitz_test: a test that tells a table of relative biases from an absolute one."""

from typing import Any

import torch

from attncourse.grading.bias_inputs import ROUNDING, drawn
from attncourse.grading.exercise import Asked, Calls, Case, Exercise, plain

WORDS = {True: "relative", False: "absolute"}
RELATIVE = "All that is relative is known, but more passes."
ABSOLUTE = "All that is absolute is found, but more is refused."


def definition(bias):
    """Entry by entry: all that stand on one diagonal agree."""
    found = []
    for table in bias.tolist():
        diagonals = {}
        for i, row in enumerate(table):
            for j, x in enumerate(row):
                diagonals.setdefault(i - j, []).append(x)
        ends = [(min(x), max(x)) for x in diagonals.values()]
        found.append(all(low == high or high - low < ROUNDING for low, high in ends))
    return torch.tensor(found)


def cases(seed: int) -> list[Case]:
    return [
        Case(f"{len(heads)} heads, {n} queries, {m} keys", (bias,), gradients=False)
        for n, m, heads, bias in drawn(seed)
    ]


def verdicts(found: Any) -> Any:
    """Truth values as a tensor, from a list, a tuple or an array; all else as it is."""
    if type(found).__name__ == "ndarray":
        found = found.tolist()
    if isinstance(found, list | tuple):
        bare = [x.item() if getattr(x, "ndim", 1) == 0 else x for x in found]
        if not all(isinstance(x, bool | int | float) for x in bare):
            return found
        found = torch.tensor(bare)
    truths = plain(found) and found.dim() == 1 and bool(((found == 0) | (found == 1)).all())
    return found.bool() if truths else found


def right(bias):
    """Each number of a diagonal beside the first."""
    n, m = bias.shape[1:]
    diagonals = [bias.diagonal(k, 1, 2) for k in range(1 - n, m)]
    same = [torch.isclose(x, x[:, :1], rtol=0, atol=1e-4).all(1) for x in diagonals]
    return torch.stack(same).all(0)


def misjudged(asked: Asked) -> str:
    """What the tables are that are told wrong, the first three of them."""
    if len(asked.shaped) < len(asked.wrong) or not asked.wrong:
        return ""
    told = [x.seen.tolist() for x in asked.calls]
    if len({*sum(told, [])}) == 1:
        return f"Every head of every table is called {WORDS[told[0][0]]}."
    if all(len({*x}) == 1 for x in told):
        return "In every call all heads get the same verdict; each has a table of its own."
    wrong = {True: [], False: []}
    for (_, _, heads, _), call, seen in zip(drawn(asked.seed), asked.calls, told, strict=False):
        for name, found, asks in zip(heads, seen, call.expected.tolist(), strict=True):
            wrong[found] += [name] * (found != asks)
    lists = [
        f"Called {WORDS[found]}, though {WORDS[not found]}: {'; '.join(names[:3])}."
        for found, names in wrong.items()
        if names
    ]
    alone = ABSOLUTE if not wrong[True] else RELATIVE if not wrong[False] else ""
    return f"{alone} {' '.join(lists)}".strip()


EXERCISE = Exercise(
    name="toeplitz_test",
    answer="is_relative",
    judge=Calls(definition, cases, gradients=False, reads=verdicts),
    right=right,
    axes=("h",),
    explain=(misjudged,),
)
