"""What can be read off a wrong answer: the weights that unit values show, and what all wrong calls have in common."""

import torch

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.linear._summed import UNIT
from attncourse.grading.compare import same


def _size(rest) -> int:
    return rest[0] if rest and type(rest[0]) is int else 0


LIMITED = (
    "Ordinary features give the right result. With some near 0 or far from it the result is wrong: a lower or an upper limit, a small number that is "
    "added, or a low precision."
)
TRAITS = (  # of a call: query, key, value, and what else is given
    ("with several samples", lambda q, k, v, *rest: len(q) > 1),
    ("with several heads", lambda q, k, v, *rest: q.size(1) > 1),
    ("with several samples and heads", lambda q, k, v, *rest: min(q.shape[:2]) > 1),
    ("with several tokens", lambda q, k, v, *rest: k.size(2) > 1),
    ("with a state", lambda q, k, v, *rest: rest[:1] and torch.is_tensor(rest[0])),
    ("without a state", lambda q, k, v, *rest: rest[:1] and rest[0] is None),
    ("with a state and several tokens", lambda q, k, v, *rest: rest[:1] and torch.is_tensor(rest[0]) and k.size(2) > 1),
    ("with is_causal=True", lambda q, k, v, *rest: rest[:1] and rest[0] is True),
    ("with is_causal=False", lambda q, k, v, *rest: rest[:1] and rest[0] is False),
    ("with other lengths of queries and keys", lambda q, k, v, *rest: q.size(2) != k.size(2)),
    ("with values of another width than the keys", lambda q, k, v, *rest: k.size(-1) != v.size(-1)),
    ("with several chunks", lambda q, k, v, *rest: 0 < _size(rest) < k.size(2)),
    ("with three chunks or more", lambda q, k, v, *rest: 0 < 2 * _size(rest) < k.size(2)),
    ("with chunks of several tokens", lambda q, k, v, *rest: _size(rest) > 1 < k.size(2)),
    ("with several chunks of several tokens", lambda q, k, v, *rest: 1 < _size(rest) < k.size(2)),
    ("whose last chunk is shorter", lambda q, k, v, *rest: _size(rest) and k.size(2) % _size(rest)),
    ("with several chunks, the last of them shorter",
     lambda q, k, v, *rest: 0 < _size(rest) < k.size(2) and k.size(2) % _size(rest)),
)  # fmt: skip


class Reads(Calls):
    """`Calls` for linear attention, one of whose cases has unit values."""

    def notice(self, expected, seen, seed: int) -> str:
        calls = [
            (c, *(x.get(f"{c.label}, output") for x in (expected, seen)))
            for c in cases_of(self, seed)
        ]
        raised = [isinstance(got, Raised) for *_, got in calls]
        if any(raised):
            return common(calls, raised, "An error comes from") if not all(raised) else ""
        if not all(_comparable(right, got) for _, right, got in calls):
            return ""
        if says := next(filter(None, (_grown(*call) for call in calls)), ""):
            return says
        if all(same(_first(right), _first(got)) for _, right, got in calls):
            return next(filter(None, (_parts(right, got) for _, right, got in calls)), "")
        wrong = [case.label for case, right, got in calls if not same(right, got)]
        if wrong and all("features" in label for label in wrong):
            return LIMITED
        tables = [(_first(right), _first(got)) for c, right, got in calls if UNIT in c.label]
        found = next(filter(None, (_weights(*both) for both in tables)), "")
        wrong = [not same(right, got) for _, right, got in calls]
        return found or common(calls, wrong, "Wrong are") or _right_parts(calls)


def _first(x):
    return x[0] if isinstance(x, tuple) else x


def _comparable(right, got) -> bool:
    if isinstance(right, tuple):
        several = isinstance(got, tuple) and len(got) == len(right)
        return several and all(map(_comparable, right, got))
    return plain(got) and got.is_floating_point() and got.shape == right.shape


def _grown(case, right, got) -> str:
    """Of an output, a state and a total: by which features of the key the total has grown."""
    if not isinstance(right, tuple) or len(right) < 3 or same(right[2], got[2]):
        return ""
    key, total = case.args[1], case.args[-1]
    apart = (got[2] - right[2]).abs() > 1e-3 * (1 + right[2].abs())
    if not apart.any():
        return ""
    at = _place(apart)
    grown, asked = (x[2][at].double().item() - total[at].item() for x in (got, right))
    return (
        f"{case.label}: at {list(at)} the number of the key is {key[at].item():.3g} and its feature {asked:.3g}; the total that is handed "
        f"on is {grown:.3g} more than the one that came in."
    )


def _parts(right, got) -> str:
    """Of an output and a state: what is said where only the state is wrong."""
    if not isinstance(right, tuple) or not same(right[0], got[0]) or same(right, got):
        return ""
    wrong = [name for name, a, b in zip(("output", "state", "total"), right, got, strict=False) if not same(a, b)]  # fmt: skip
    return f"The output of a call is right, but the {' and the '.join(wrong)} handed on is not what it should be." if wrong else ""  # fmt: skip


def _right_parts(calls) -> str:
    """Of several results: which are right in all calls, where some are."""
    if not isinstance(calls[0][1], tuple):
        return ""
    names = ("output", "state", "total")[: len(calls[0][1])]
    right = [name for k, name in enumerate(names) if all(same(e[k], s[k]) for _, e, s in calls)]
    wrong = [name for name in names if name not in right]
    return f"Right in all calls: {', '.join(right)}. Wrong: {', '.join(wrong)}." if right and wrong else ""  # fmt: skip


def common(calls, wrong: list[bool], says: str) -> str:
    """The trait that the wrong calls have and no other call has, in words."""
    for trait, has in TRAITS:
        if any(wrong) and not all(wrong) and [bool(has(*case.args)) for case, *_ in calls] == wrong:
            return f"{says} the calls {trait}, and only these."
    return ""


def _weights(right: torch.Tensor, got: torch.Tensor) -> str:
    """What is wrong with a table of weights, of one that may be read off the output."""
    show = "Values that are rows of the unit matrix show the weights:"
    right, got = right.double(), got.double()
    if (bad := ~got.isfinite()).any():
        return f"{show} at query {_place(bad)[2]} stands no finite number."
    wide = right.size(-1)
    if (bad := (right == 0) & (got.abs() > 1e-6)).any():
        at = _place(bad)
        return f"{show} query {at[2]} gives {got[at].item():.3g} to key {at[3]} of {wide}, which comes later."
    if (bad := (got < -1e-6)).any():
        at = _place(bad)
        return f"{show} query {at[2]} gives key {at[3]} a weight below 0, {got[at].item():.3g}."
    if (bad := (right > 1e-3) & (got.abs() < 1e-6)).any():
        at = _place(bad)
        return f"{show} query {at[2]} gives no weight to key {at[3]}, which it should read."
    sums, shares = got.sum(-1, keepdim=True), got / got.sum(-1, keepdim=True)
    only = (shares - right).abs().max() < 1e-3
    if (bad := (sums - 1).abs() > 1e-3).any():
        at = _place(bad)
        but = " The weights of a row are right but for this factor." if only else ""
        return f"{show} those of query {at[2]} sum to {sums[at].item():.4g}, and not to 1.{but}"
    ratio = got / right.where(right > 0, 1.0)
    if (bad := (right > 1e-3) & ((ratio - 1).abs() > 5e-3)).any():
        at = _place(bad)
        return (
            f"{show} each row sums to 1, but query {at[2]} gives key {at[3]} {got[at].item():.3g} and should give "
            f"{right[at].item():.3g}."
        )
    return ""


def _place(bad: torch.Tensor) -> tuple[int, ...]:
    return tuple(bad.nonzero()[0].tolist())
