"""Steps of decoding, which return (output, keys, values): what is cached, and who reads whom?

Values that are rows of the identity, the cached ones first, make the output the map of the step.
"""

from dataclasses import replace

import torch

from attncourse.grading.compare import difference
from attncourse.grading.explain.asked import Asked
from attncourse.grading.explain.places import apart
from attncourse.grading.explain.steps import ALL_MADE, missing_step
from attncourse.grading.explain.weights import AS_FAR, says_of_map
from attncourse.grading.observe import Case

CACHED = (1, "keys"), (2, "values")
MOST = 6  # calls that are asked again


def decoded(asked: Asked) -> str:
    """Which returned keys or values are wrong; where none is, whom the queries read."""
    names = asked.arguments
    steps = asked.cases and {"query", "value", "past_value"} <= set(names)
    if not steps or asked.only_loud or len(asked.shaped) < len(asked.wrong):
        return ""
    for call in asked.wrong:
        past = call.case.args[names.index("past_value")].size(2)
        for k, what in CACHED:
            wrong = apart(call.expected[k], call.seen[k]).any(3).any(1).any(0).nonzero().flatten()
            if rows := wrong.tolist():
                some = ", ".join(map(str, rows[:6])) + " ..." * (len(rows) > 6)
                came = "; cached ones come back as they came in" if rows[0] < past else ""
                told = f"In the call '{call.label}' wrong {what} are returned: number {some}, where"
                told = f"{told} the first {past} are the cached ones{came}."
                step = "" if came else missing_step(asked)
                return f"{told} {'' if step.endswith(ALL_MADE) else step}".strip()
    cases = [_with_identity(x.case, names) for x in asked.wrong[:MOST]]
    for case, right, seen in asked.again(cases):
        if difference(right[0], seen[0]):
            query = case.args[names.index("query")]
            says = says_of_map(case.label, right[0], seen[0], query, right[1])
            return f"Keys and values are right. {AS_FAR}{says[0].lower()}{says[1:]}"
    return ""


def _with_identity(case: Case, names: list[str]) -> Case:
    """As many features as there are tokens; each value has a 1 in a place of its own."""
    new, past = (case.args[names.index(name)] for name in ("value", "past_value"))
    rows = torch.eye(past.size(2) + new.size(2)).expand(*new.shape[:2], -1, -1)
    kept, came = (x.contiguous() for x in rows.split([past.size(2), new.size(2)], 2))
    put = {names.index("value"): came, names.index("past_value"): kept}
    args = tuple(put.get(k, x) for k, x in enumerate(case.args))
    label = f"{case.label}, and for values the identity, {rows.size(-1)} wide"
    return replace(case, label=label, args=args, gradients=False)
