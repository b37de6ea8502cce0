"""Claims about one call: its shape, its numbers, its error."""

import re
from typing import Any

from fresh.claims import NUMBER, claim, near, number
from fresh.evidence import Evidence, pairs

LABEL = r"^(?P<label>.*), output: (?:result (?P<part>\d+) of \d+: )?"


def _part(found: re.Match, evidence: Evidence) -> tuple[Any, Any] | None:
    """Right and seen result that a finding is about."""
    call = evidence.labelled(found["label"])
    if call is None or isinstance(call.seen, BaseException):
        return None
    both = list(pairs(call))
    k = int(found["part"]) - 1 if found["part"] else 0
    return both[k] if k < len(both) else None


@claim(LABEL + r"expected shape \(([\d, ]*)\), got \(([\d, ]*)\)")
def _shape(found, evidence):
    both = _part(found, evidence)
    shapes = [tuple(int(x) for x in re.findall(r"\d+", text)) for text in found.groups()[-2:]]
    return both and [tuple(getattr(x, "shape", ())) for x in both] == shapes


@claim(
    LABEL
    + rf"(?P<n>\d+) of (?P<m>\d+) numbers differ; at \[(?P<at>[\d, ]*)\] expected {NUMBER}, got {NUMBER}"
)
def _differ(found, evidence):
    if not (both := _part(found, evidence)):
        return None
    at = tuple(int(x) for x in re.findall(r"\d+", found["at"]))
    there = [float(x[at]) for x in both]
    told = [number(x) for x in found.groups()[-2:]]
    return both[1].numel() == int(found["m"]) and all(map(near, there, told))


@claim(r"^(?P<label>.*), output: raised (?P<kind>\w+)(?:: (?P<says>.*))?")
def _raised(found, evidence):
    call = evidence.labelled(found["label"])
    if call is None:
        return None
    if found["kind"] not in {kind.__name__ for kind in type(call.seen).__mro__}:
        return False
    # Torch words the same error in another way where gradients are asked for.
    return (found["says"] or "")[:40] in str(call.seen) or None


@claim(
    r"^Two tensors meet whose axes differ in size|^torch\.cat joins along dim|^torch\.stack makes a"
    r"|^An index (?:is|points)|^An axis is named that the tensor|^The sizes asked for hold"
    r"|^view cannot read|^A whole tensor is asked|^A name is used that|^A variable is read before"
    r"|^Something is divided by 0|^The function calls itself|^A (?:tensor|tuple) is called as if"
)
def _some_error(found, evidence):
    return any(isinstance(call.seen, BaseException) for call in evidence.calls)
