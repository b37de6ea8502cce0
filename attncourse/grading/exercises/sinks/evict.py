"""Exercise evict: what stays in a cache with sinks when new tokens come."""

from functools import partial

import torch

from attncourse.grading.exercise import Asked, Calls, Exercise, sized_cases


def definition(keys, values, new_keys, new_values, num_sinks, window):
    """Token by token: asked of each whether it is one of the first, or one of the last."""
    end, found = keys.size(2) + new_keys.size(2), []
    for old, new in (keys, new_keys), (values, new_values):
        rows = [*old.unbind(2), *new.unbind(2)]
        stay = [row for j, row in enumerate(rows) if j < num_sinks or end - j <= window]
        found.append(torch.stack(stay, dim=2))
    return tuple(found)


CALLS = (  # special about the call, b h m n d e, loud, num_sinks, window
    ("2 sinks, a window of 4: a full cache and 1 new token", (2, 3, 6, 1, 5, 7), 1, 2, 4),
    ("3 sinks, a window of 5: 4 tokens are there, 2 come", (1, 2, 4, 2, 3, 5), 1, 3, 5),
    ("4 sinks, a window of 6: nothing is there, 3 come", (2, 1, 0, 3, 4, 5), 1, 4, 6),
    ("1 sink, a window of 3: nothing is there, 6 come", (1, 2, 0, 6, 3, 4), 1, 1, 3),
    ("2 sinks, a window of 3: a full cache and 7 new tokens", (2, 3, 5, 7, 4, 6), 1, 2, 3),
    ("no sinks, a window of 4: a full cache and 2 new tokens", (3, 2, 4, 2, 6, 5), 1, 0, 4),
    ("2 sinks, a window of 5: 6 are there, 1 comes and fills it", (1, 3, 6, 1, 2, 4), 1, 2, 5),
    ("3 sinks, a window of 4: 5 tokens are there, 6 come", (2, 1, 5, 6, 3, 4), 1, 3, 4),
    ("1 sink, a window of 1: a full cache and 1 new token", (1, 2, 2, 1, 3, 4), 1, 1, 1),
    ("3 sinks, a window of 2: 1 token is there, 6 come", (2, 3, 1, 6, 4, 5), 1, 3, 2),
)
SHAPES = "b h m d, b h m e, b h n d, b h n e"
CASES = partial(sized_cases, letters="b h m n d e", shapes=SHAPES, calls=CALLS)


def right(keys, values, new_keys, new_values, num_sinks, window):
    end = keys.size(2) + new_keys.size(2)
    stay = [j for j in range(end) if j < num_sinks or j >= end - window]
    pairs = (keys, new_keys), (values, new_values)
    return tuple(torch.cat(pair, dim=2)[:, :, stay] for pair in pairs)


def numbers(found, every) -> list:
    """Which of all tokens these are; "?" is none of them."""
    same = (found[:, :, :, None] == every[:, :, None]).flatten(4).all(-1).all(0).all(0)
    return [int(row.int().argmax()) if row.any() else "?" for row in same]


def tokens_there(asked: Asked) -> str:
    """Which tokens stayed in the first two wrong calls, and which should have: two show a rule."""
    told = []
    for label, case, right, seen in asked.wrong:
        keys, values, new_keys, new_values, *_ = case.args
        every = torch.cat([keys, new_keys], 2), torch.cat([values, new_values], 2)
        for name, asks, found, all_of in zip(("keys", "values"), right, seen, every, strict=True):
            should, are = numbers(asks.float(), all_of), numbers(found, all_of)
            if are != should:
                says = f"tokens {should} should stay; the {name} are those of {are}"
                told.append(f"In the call '{label}' {says}.")
                break
    return " ".join(told[:2])


EXERCISE = Exercise(
    name="evict",
    judge=Calls(definition, CASES, gradients=False),
    right=right,
    axes=("b h t d", "b h t e"),
    results=("the keys", "the values"),
    explain=(tokens_there,),
)
