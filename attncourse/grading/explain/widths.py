"""Does the width of the values change the weights?"""

from dataclasses import replace

import torch

from attncourse.grading.compare import difference, plain
from attncourse.grading.explain.asked import Asked


def value_width(asked: Asked) -> str:
    """One more feature of the values, which changes all the others of the output."""
    if "value" not in asked.arguments or asked.largest is None:
        return ""
    place, case = asked.arguments.index("value"), asked.largest
    value = case.args[place]
    wider = torch.cat([value, value[..., :1]], -1)
    more = replace(case, args=(*case.args[:place], wider, *case.args[place + 1 :]))
    (_, right, seen), (_, expected, found) = asked.again([case, more])
    right, seen, expected, found = (
        x[0] if isinstance(x, tuple) and x else x for x in (right, seen, expected, found)
    )
    shaped = plain(seen) and plain(found) and seen.shape == right.shape
    if not shaped or found.shape != expected.shape or right.size(-1) != value.size(-1):
        return ""
    if difference(right, expected[..., :-1]) or not difference(seen, found[..., :-1]):
        return ""
    return (
        "With one more feature in the values, all others of the output change: does the scale, or "
        "another part of the weights, depend on the width of the values?"
    )
