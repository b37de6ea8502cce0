"""Claims about gradients, about inputs, and that the results are right."""

import re

from fresh.claims import claim
from fresh.evidence import Evidence


def _reach(evidence: Evidence, name: str) -> list[tuple[bool, bool]]:
    """In each call: is there a gradient by the definition, and one of the answer?"""
    both = [evidence.gradients(call) for call in evidence.calls]
    there = lambda x: x is not None and bool(x.abs().nan_to_num().max() > 1e-7)  # noqa: E731
    return [(there(a.get(name)), there(b.get(name))) for a, b in both if name in a]


@claim(r"no gradient flows back to ([\w, ]+?)\.")
def _no_gradient(found, evidence):
    names = re.split(r" and |, ", found[1])
    reach = [_reach(evidence, name) for name in names]
    return all(not any(seen for _, seen in x) for x in reach) if all(reach) else None


@claim(r"(?:an input is|inputs are) changed in place: ([\w ]+)\.")
def _changed(found, evidence):
    changed = {name for call in evidence.calls for name in call.changed}
    return changed == set(found[1].split(" and "))


@claim(r"^The results are right\b|^All results are right\b")
def _results_right(found, evidence):
    if "in another order" in found.string:
        return None
    return not any(call.wrong for call in evidence.calls)
