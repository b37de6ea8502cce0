"""Exercise mask_polarity: four conventions, one meaning."""

import math
from functools import partial

import torch

from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.masks._told import Conventions
from attncourse.grading.inputs import seeded

VISIBLE = {
    "attend": lambda x: x, "hidden": lambda x: not x,
    "zero_hides": lambda x: x != 0, "additive": lambda x: x > -math.inf,
}  # fmt: skip

# Finite, so they hide nothing; each is the largest that some threshold takes as hidden.
LARGE_BIASES = {"-200": -200.0, "-1e4": -1e4, "-1e9": -1e9, "the lowest float": -torch.finfo().max}
# Names that are no convention; each is one for some careless comparison.
UNKNOWN = "True hides", "Attend", "hid", "zero", "additive ", ""


def definition(mask, convention):
    """One entry at a time."""
    if convention not in VISIBLE:
        raise ValueError(f"unknown convention {convention!r}")
    return torch.tensor([VISIBLE[convention](x) for x in mask.flatten().tolist()]).view(mask.shape)


def cases(seed: int) -> list[Case]:
    """Every convention on a shape of its own; integers and biases beyond 0 and 1, shuffled."""
    g = seeded(seed)
    attend, hidden = (torch.rand(shape, generator=g) < 0.5 for shape in ((3, 5), (2, 1, 5, 7)))
    integers = torch.tensor([-1, 0, 1, 2, *(s * 2**k for k in (8, 16, 32) for s in (1, -1))])
    biases = torch.tensor([-math.inf, 0.0, 2.5, -2.5, 1.0, 1e9, *LARGE_BIASES.values()])
    integers, biases = (x[torch.randperm(10, generator=g)] for x in (integers, biases))
    masks = dict(zip(VISIBLE, (attend, hidden, integers, biases.view(2, 5)), strict=True))
    masks |= {name: attend if k else integers for k, name in enumerate(UNKNOWN)}
    found = [Case(f'convention "{name}"', (x, name), gradients=False) for name, x in masks.items()]
    nothing_hidden = torch.tensor([-3.0, 0.0, 0.5])
    return [
        *found,
        Case("biases that are all finite", (nothing_hidden, "additive"), gradients=False),
    ]


def reading(unknown=definition, **rules):
    """Other ``rules`` for some names; ``unknown`` gets the mask and a name that is no convention."""
    others = {name: partial(definition, convention=name) for name in VISIBLE} | rules
    return lambda mask, name: others[name](mask) if name in others else unknown(mask, name)


def raising(error):
    raise error


ACCEPTED = Accepted(
    place_in_a_list=lambda mask, convention: mask != (0, 1, 0, -math.inf)[
        ["attend", "hidden", "zero_hides", "additive"].index(convention)],
    error_of_its_own=reading(lambda _, name: raising(type("UnknownConvention", (ValueError,), {})(name))),
)  # fmt: skip


@ACCEPTED.add
def one_branch_each(mask, convention):
    if convention == "attend":
        return mask
    if convention == "hidden":
        return ~mask
    if convention == "zero_hides":
        return mask != 0
    if convention == "additive":
        return mask != -math.inf
    raise ValueError(f"unknown convention {convention!r}")


@ACCEPTED.add
def table_of_rules(mask, convention):
    rules = {"attend": torch.clone, "hidden": torch.logical_not, "additive": torch.isfinite}
    if convention not in (*rules, "zero_hides"):
        raise ValueError(convention)
    return rules.get(convention, lambda x: x.ne(0))(mask)


@ACCEPTED.add
def what_is_hidden(mask, convention):
    if convention not in ("attend", "hidden", "zero_hides", "additive"):
        raise ValueError(convention)
    return ~(mask == {"hidden": True, "additive": -math.inf}.get(convention, 0))


FINITE = {  # what is taken as hidden -> by which rule
    "negative biases are": lambda x: x >= 0,
    **{f"a large negative number ({name}) is": lambda x, b=b: x > b for name, b in LARGE_BIASES.items()},
    "large numbers of either sign are": lambda x: x.abs() < 1e6,
    "a large positive number is": lambda x: (x != -math.inf) & (x < 1e6),
}  # fmt: skip
MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ('Numbers are compared with 0 by > or >=; in "zero_hides" only 0 hides, in "additive" only minus infinity.',
     reading(zero_hides=lambda x: x > 0, additive=lambda x: x >= 0)),
    ('Numbers are compared with 0 by > or >=; in "zero_hides" only 0 hides, in "additive" only minus infinity.',
     reading(lambda x, _: x >= 0, zero_hides=lambda x: x > 0, additive=lambda x: x >= 0)),
    ('Every mask is read by the rule "0 hides"; that is one convention of four.', lambda x, _: x != 0),
    ('The rule "0 hides" is applied to all conventions.', reading(**dict.fromkeys(VISIBLE, lambda x: x != 0))),
    ('"hidden" is not inverted: there True means that the pair is hidden.', reading(hidden=lambda x: x)),
    ('"attend" is inverted, although it means what we want.', reading(attend=torch.logical_not)),
    ('"attend" and "hidden" are mixed up.', reading(attend=torch.logical_not, hidden=lambda x: x)),
    ('"zero_hides" is inverted: a pair with 0 is hidden.', reading(zero_hides=lambda x: x == 0)),
    ('"zero_hides": only 1 is taken as visible; every integer but 0 is.', reading(zero_hides=lambda x: x == 1)),
    ('"zero_hides": negative integers are taken as hidden; only 0 hides.', reading(zero_hides=lambda x: x > 0)),
    *((f'"zero_hides": {bits} bits are too few; {2**bits:,} becomes 0 there and is hidden.',
       reading(zero_hides=lambda x, bits=bits: x % 2**bits != 0)) for bits in (8, 16, 32)),
    ('"zero_hides": the integers are returned as they are; return booleans.', reading(zero_hides=lambda x: x)),
    ("~ flips bits of integers: ~0 is -1, ~1 is -2, both are True.", reading(zero_hides=lambda x: (~x).bool())),
    ('"additive": 0 is taken as hidden; adding 0 leaves a score alone.', reading(additive=lambda x: x != 0)),
    ('"additive": only 0 is taken as visible; a finite bias hides nothing.', reading(additive=lambda x: x == 0)),
    *((f'"additive": {what} taken as hidden; only minus infinity hides.', reading(additive=rule))
      for what, rule in FINITE.items()),
    ('"additive" is inverted: minus infinity hides.', reading(additive=torch.isinf)),
    ('"additive": the floats are returned as they are; return booleans.', reading(additive=lambda x: x)),
    ("The caller's mask is inverted in place.", reading(hidden=torch.Tensor.logical_not_)),
    *((f'An unknown convention is silently read as "{name}"; raise a ValueError.',
       reading(lambda x, _, name=name: definition(x, name))) for name in VISIBLE),
    ('"in" on a text finds parts of words: "hid", "zero" and "" pass as names. Compare with ==, or use a tuple.',
     reading(lambda x, name: x != 0 if name in " ".join(VISIBLE) else definition(x, name))),
    ('The name is tidied with lower() or strip(), so "Attend" or "additive " passes; take it as it is.',
     lambda x, name: definition(x, name.lower().strip())),
    ('A part of the name is enough, so "hid" or "zero" passes; compare whole names.',
     lambda x, name: definition(x, next((known for known in VISIBLE if known[:3] in name), name))),
    ("An unknown convention returns None; raise a ValueError.", reading(lambda *_: None)),
    *((f"An unknown convention raises {error.__name__}; the statement asks for a ValueError.",
       reading(lambda _, name, error=error: raising(error(name)))) for error in (KeyError, NotImplementedError)),
))  # fmt: skip

EXERCISE = Exercise(
    name="mask_polarity",
    answer="to_attend",
    judge=Conventions(definition, cases, gradients=False),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
