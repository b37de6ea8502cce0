"""What can be read off a wrong table of weights: what is hidden, whether the future counts, how far a score reaches."""

import torch

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.multi_token._convolved import future
from attncourse.grading.compare import same

TRAITS = (  # of a call
    ("with fewer queries than keys", lambda table, kernel: table.size(2) < table.size(3)),
    (
        "with several queries and still more keys",
        lambda table, kernel: 1 < table.size(2) < table.size(3),
    ),
    ("with as many queries as keys", lambda table, kernel: table.size(2) == table.size(3)),
    ("with several samples", lambda table, kernel: len(table) > 1),
    ("with several heads", lambda table, kernel: len(kernel) > 1),
    ("with a kernel of several rows", lambda table, kernel: kernel.size(1) > 1),
    ("with a kernel of several columns", lambda table, kernel: kernel.size(2) > 1),
    ("with a kernel wider than the table", lambda table, kernel: kernel.size(2) > table.size(3)),
    ("with a kernel higher than the table", lambda table, kernel: kernel.size(1) > table.size(2)),
    ("with an even number of rows in the kernel", lambda table, kernel: kernel.size(1) % 2 == 0),
)
PLACES = (  # of a weight: sample, head, query, key, arguments
    ("in row 0", lambda b, h, i, j, table, kernel: i == 0),
    ("in the first c_q - 1 rows", lambda b, h, i, j, table, kernel: i < kernel.size(1) - 1),
    ("in rows from c_q - 1 on", lambda b, h, i, j, table, kernel: i >= kernel.size(1) - 1),
    ("in the last row", lambda b, h, i, j, table, kernel: i == table.size(2) - 1),
    ("in heads after the first", lambda b, h, i, j, table, kernel: h > 0),
    ("in samples after the first", lambda b, h, i, j, table, kernel: b > 0),
)  # fmt: skip


class Tables(Calls):
    """`Calls` for tables of weights, whose first two cases differ only in scores of the future."""

    def notice(self, expected, seen, seed: int) -> str:
        calls = [
            (c, *(x.get(f"{c.label}, output") for x in (expected, seen)))
            for c in cases_of(self, seed)
        ]
        raised = [isinstance(got, Raised) for *_, got in calls]
        if not all(raised) and (says := common(calls, raised, "An error comes from")):
            return says
        shaped = [call for call in calls if numbers_like(call[1], call[2])]
        if not shaped or len(shaped) + sum(raised) < len(calls):
            return ""
        told = (tells(shaped) for tells in (hidden, leaked, reached, shared, placed))
        return next(filter(None, told), "")


def numbers_like(right: torch.Tensor, got) -> bool:
    """Can the two be compared number by number?"""
    return plain(got) and got.is_floating_point() and got.shape == right.shape


def hidden(calls) -> str:
    """What can be told of any table of weights."""
    for case, right, got in calls:
        for says, wrong in (
            ("stands no finite number", ~got.isfinite()),
            ("a later key has weight", future(*right.shape[2:]) & (got.abs() > 1e-6)),
            ("a weight is below 0", got < -1e-6),
            ("begins a row whose weights do not sum to 1", (got.sum(-1, keepdim=True) - 1).abs() > 1e-3),
        ):  # fmt: skip
            if wrong.any():
                return f"{case.label}: at {wrong.nonzero()[0].tolist()} {says}."
    return ""


def leaked(calls) -> str:
    """Two calls that differ only in scores of the future."""
    first, second = (got for *_, got in calls[:2])
    if first.shape != second.shape:
        return ""
    moved = ~torch.isclose(first, second, rtol=1e-3, atol=1e-4)
    if not moved.any():
        return ""
    at = moved.nonzero()[0].tolist()
    return (
        f"The first two calls have the same scores, but for those of the future. Yet the weight at {at} is "
        f"{first[tuple(at)].item():.4g} in one and {second[tuple(at)].item():.4g} in the other: the future gets in."
    )


def changes(table: torch.Tensor) -> torch.Tensor:
    """By how much the score of each place differs from that of most of its row."""
    found = torch.zeros_like(table[0, 0], dtype=torch.float64)
    for i, row in enumerate(table[0, 0].double()):
        logs = row[row > 0].log()
        if len(logs):
            found[i, row > 0] = logs - logs.mul(1e3).round().mode().values / 1e3
    return found.where(found.abs() > 0.01, 0.0)


def reached(calls) -> str:
    """Which places a single score of 1 changes, and by how much."""
    for case, right, got in calls:
        if "single" in case.label and not same(right, got):
            return change(case, changes(right), changes(got))
    return ""


def change(case, right: torch.Tensor, got: torch.Tensor) -> str:
    """The place or the number that first differs, in words."""
    spans = []
    for table in (right, got):
        if not table.any():
            return "A single score of 1 changes nothing: all weights of a row are equal."
        i, j = table.nonzero().unbind(1)
        spans.append(f"queries {i.min()} to {i.max()} and keys {j.min()} to {j.max()}")
    i, j = case.args[0][0, 0].nonzero()[0].tolist()
    where = f"A single score of 1, at query {i} and key {j},"
    if spans[0] != spans[1]:
        return f"{where} should change {spans[0]}; here it changes {spans[1]}."
    at = tuple((right - got).abs().gt(0.01).nonzero()[0].tolist())
    factor = (got[at] / right[at]).item()
    if torch.allclose(got, factor * right, atol=0.02):
        return f"{where} changes all scores {factor:.3g} times as much as it should."
    return (
        f"{where} changes the places that it should; but that of query {at[0]} and key {at[1]} by {got[at].item():.3g}, "
        f"and the kernel's number for it is {right[at].item():.3g}."
    )


def shared(calls) -> str:
    """What the wrong calls have in common and the right ones do not have."""
    return common(calls, [not same(right, got) for _, right, got in calls], "Wrong are")


def common(calls, wrong: list[bool], says: str) -> str:
    """The trait that the wrong calls have and no other call has, in words."""
    for trait, has in TRAITS:
        if any(wrong) and [has(*case.args) for case, *_ in calls] == wrong:
            return f"{says} the calls {trait}, and only these."
    return ""


def placed(calls) -> str:
    """Where all wrong weights are, of all calls."""
    left, count = dict(PLACES), 0
    for case, right, got in calls:
        axes = (~torch.isclose(got, right.to(got.dtype), rtol=1e-3, atol=1e-4)).nonzero().unbind(1)
        count += len(axes[0])
        left = {says: there for says, there in left.items() if there(*axes, *case.args).all()}
    return f"All weights that are wrong stand {next(iter(left))}." if left and count else ""
