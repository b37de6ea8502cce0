"""Exercise mask_polarity: four conventions, one meaning."""

import math

import torch

from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.observe import Case

VISIBLE = {
    "attend": lambda x: x,
    "hidden": lambda x: not x,
    "zero_hides": lambda x: x != 0,
    "additive": lambda x: x > -math.inf,
}

# Finite, so they hide nothing; each is the largest that some threshold takes as hidden.
LARGE_BIASES = {"-200": -200.0, "-1e4": -1e4, "-1e9": -1e9, "the lowest float": -torch.finfo().max}

# Names that are no convention; each is one for some careless comparison.
UNKNOWN = "True hides", "Attend", "hid", "zero", "additive ", ""


def definition(mask, convention):
    """One entry at a time."""
    if convention not in VISIBLE:
        raise ValueError(f"unknown convention {convention!r}")
    entries = [VISIBLE[convention](x) for x in mask.flatten().tolist()]
    return torch.tensor(entries).reshape(mask.shape)


def cases(seed: int) -> list[Case]:
    """Every convention on a shape of its own; integers and biases beyond 0 and 1."""
    g = torch.Generator().manual_seed(seed)
    attend = torch.rand(3, 5, generator=g) < 0.6
    hidden = torch.rand(2, 1, 5, 7, generator=g) < 0.4
    integers = torch.randint(-1, 3, (3, 7), generator=g)
    integers[0, :4] = torch.tensor([-1, 0, 1, 2])
    integers[1, :6] = torch.tensor([2**8, -(2**8), 2**16, -(2**16), 2**32, -(2**32)])
    floats = 5 * torch.randn(5, 11, generator=g)
    floats[torch.rand(5, 11, generator=g) < 0.3] = -math.inf
    floats[0, :4] = torch.tensor([-math.inf, 0.0, 2.5, -2.5])
    floats[1, :5] = torch.tensor([*LARGE_BIASES.values(), 1e9])
    masks = dict(zip(VISIBLE, (attend, hidden, integers, floats), strict=True))
    masks |= {name: attend if k else integers for k, name in enumerate(UNKNOWN)}
    return [Case(f'convention "{name}"', (x, name), gradients=False) for name, x in masks.items()]


ACCEPTED = Accepted()


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
def match_statement(mask, convention):
    match convention:
        case "attend" | "zero_hides":
            return mask.bool()
        case "hidden":
            return mask.logical_not()
        case "additive":
            return ~torch.isneginf(mask)
        case _:
            raise ValueError("unknown convention")


@ACCEPTED.add
def table_of_rules(mask, convention):
    rules = {
        "attend": lambda x: x.clone(),
        "hidden": lambda x: x == 0,
        "zero_hides": lambda x: x.ne(0),
        "additive": lambda x: x.isfinite(),
    }
    if convention not in rules:
        raise ValueError(convention)
    return rules[convention](mask)


@ACCEPTED.add
def what_is_hidden(mask, convention):
    if convention not in ("attend", "hidden", "zero_hides", "additive"):
        raise ValueError(convention)
    hidden = torch.zeros(mask.shape, dtype=torch.bool)
    hidden[mask == {"hidden": True, "additive": -math.inf}.get(convention, 0)] = True
    return torch.where(hidden, False, True)


@ACCEPTED.add
def error_of_its_own(mask, convention):
    class UnknownConvention(ValueError):
        pass

    if convention not in VISIBLE:
        raise UnknownConvention(convention)
    return definition(mask, convention)


def reading(rest=definition, **rules):
    """Other ``rules`` for some names; ``rest`` reads the mask under any other."""
    return lambda mask, name: rules[name](mask) if name in rules else rest(mask, name)


def instead_of_an_error(answer):
    """What is done with the mask and the name where the name is no convention."""
    return lambda mask, name: (definition if name in VISIBLE else answer)(mask, name)


def raising(error):
    def answer(mask, name):
        raise error(name)

    return answer


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ('Every mask is read by the rule "0 hides"; that is one convention of four.', lambda x, _: x != 0),
    ('The rule "0 hides" is applied to every known convention.', reading(**dict.fromkeys(VISIBLE, lambda x: x != 0))),
    ('"hidden" is not inverted: there True means that the pair is hidden.', reading(hidden=lambda x: x)),
    ('"attend" is inverted, although it already means what we want.', reading(attend=torch.logical_not)),
    ('"attend" and "hidden" are mixed up.', reading(attend=torch.logical_not, hidden=lambda x: x)),
    ('"zero_hides" is inverted: a pair with 0 is hidden.', reading(zero_hides=lambda x: x == 0)),
    ('"zero_hides": only 1 is taken as visible; every integer but 0 is.', reading(zero_hides=lambda x: x == 1)),
    ('"zero_hides": negative integers are taken as hidden; only 0 hides.', reading(zero_hides=lambda x: x > 0)),
    *((f'"zero_hides": {bits} bits are too few; {2**bits:,} becomes 0 there and is hidden.',
       reading(zero_hides=lambda x, kind=kind: x.to(kind).bool()))
      for bits, kind in ((8, torch.int8), (16, torch.int16), (32, torch.int32))),
    ('"zero_hides": the integers are returned as they are; return booleans.', reading(zero_hides=lambda x: x)),
    ("~ on integers flips bits: ~0 is -1 and ~1 is -2, so both count as True.",
     reading(zero_hides=lambda x: (~x).bool())),
    ('"additive": 0 is taken as hidden; adding 0 leaves a score alone, so the pair is visible.',
     reading(additive=lambda x: x != 0)),
    ('"additive": only 0 is taken as visible; a finite bias moves a score and hides nothing.',
     reading(additive=lambda x: x == 0)),
    ('"additive": negative biases are taken as hidden; only minus infinity hides.',
     reading(additive=lambda x: x >= 0)),
    *((f'"additive": a large negative number ({name}) is taken as hidden; only minus infinity hides.',
       reading(additive=lambda x, bias=bias: x > bias)) for name, bias in LARGE_BIASES.items()),
    ('"additive": large numbers of either sign are taken as hidden; only minus infinity hides.',
     reading(additive=lambda x: x.abs() < 1e6)),
    ('"additive": a large positive number is taken as hidden; only minus infinity hides.',
     reading(additive=lambda x: (x != -math.inf) & (x < 1e6))),
    ('"additive" is inverted: minus infinity hides.', reading(additive=torch.isinf)),
    ('"additive": the floats are returned as they are; return booleans.', reading(additive=lambda x: x)),
    ("The mask is inverted in place, which changes the caller's tensor.",
     reading(hidden=torch.Tensor.logical_not_)),
    *((f'An unknown convention is silently read as "{name}"; raise a ValueError.',
       instead_of_an_error(lambda x, _, name=name: definition(x, name))) for name in VISIBLE),
    ('"in" on a text finds parts of words: "hid", "zero" and "" pass as names. Compare with ==, or use a tuple.',
     instead_of_an_error(lambda x, name: x != 0 if name in " ".join(VISIBLE) else definition(x, name))),
    ('The name is tidied with lower() or strip(), so "Attend" or "additive " passes; take it as it is.',
     lambda x, name: definition(x, name.lower().strip())),
    ('A part of the name is enough, so "hid" or "zero" passes; compare whole names.',
     lambda x, name: definition(x, next((known for known in VISIBLE if known[:3] in name), name))),
    ("An unknown convention returns None; raise a ValueError.", instead_of_an_error(lambda *_: None)),
    *((f"An unknown convention raises {error.__name__}; the statement asks for a ValueError.",
       instead_of_an_error(raising(error))) for error in (KeyError, NotImplementedError)),
))  # fmt: skip

EXERCISE = Exercise(
    name="mask_polarity", answer="to_attend", title="Four conventions, one meaning", kind="Repair",
    points=2, difficulty=2, minutes=15, needs="section 'In the wild' of chapter 2",
    judge=Calls(definition, cases, gradients=False), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Ask of each convention: which entries hide? True, 0, minus infinity, or False.",
        'Two of the four need no logic at all, and "hidden" is the opposite of "attend".',
        'mask, ~mask, mask != 0, mask != -math.inf; and a final "raise ValueError(convention)".',
    ),
)  # fmt: skip
