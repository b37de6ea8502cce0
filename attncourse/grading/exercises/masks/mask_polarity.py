"""Exercise mask_polarity: four conventions, one meaning."""

import math

import torch

from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes

VISIBLE = {
    "attend": lambda x: x,
    "hidden": lambda x: not x,
    "zero_hides": lambda x: x != 0,
    "additive": lambda x: x > -math.inf,
}


# Finite, so they hide nothing; each is the largest that some threshold takes as hidden.
LARGE_BIASES = -200.0, -1e4, -1e9, torch.finfo(torch.float32).min

# Names that are no convention; each is one for some careless comparison.
UNKNOWN = "True hides", "Attend", "hid", "zero", "additive ", ""


def spec(mask, convention):
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
    integers[1, :2] = 256  # 0 in eight bits
    floats = 5 * torch.randn(5, 11, generator=g)
    floats[torch.rand(5, 11, generator=g) < 0.3] = -math.inf
    floats[0, :4] = torch.tensor([-math.inf, 0.0, 2.5, -2.5])
    floats[1, :5] = torch.tensor([*LARGE_BIASES, 1e9])
    masks = dict(zip(VISIBLE, (attend, hidden, integers, floats), strict=True))
    calls = [*((x, name) for name, x in masks.items()), *((attend, name) for name in UNKNOWN)]
    return [Case(f'convention "{name}"', (x, name), gradients=False) for x, name in calls]


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
    return spec(mask, convention)


MISTAKES = Mistakes()


def translate(mask, convention, **changed):
    """The right translation, except where a mistake changes the rule of one convention."""
    if convention in changed:
        return changed[convention](mask)
    return one_branch_each(mask, convention)


@MISTAKES.add('Every mask is read by the rule "0 hides"; that is one convention of four.')
def as_found(mask, convention):
    return mask != 0


@MISTAKES.add('The rule "0 hides" is applied to every known convention.')
def as_found_with_names(mask, convention):
    return translate(mask, convention, **dict.fromkeys(VISIBLE, lambda x: x != 0))


@MISTAKES.add('"hidden" is not inverted: there True means that the pair is hidden.')
def hidden_not_inverted(mask, convention):
    return translate(mask, convention, hidden=lambda x: x)


@MISTAKES.add('"attend" is inverted, although it already means what we want.')
def attend_inverted(mask, convention):
    return translate(mask, convention, attend=lambda x: ~x)


@MISTAKES.add('"attend" and "hidden" are mixed up.')
def mixed_up(mask, convention):
    return translate(mask, convention, attend=lambda x: ~x, hidden=lambda x: x)


@MISTAKES.add('"zero_hides" is inverted: a pair with 0 is hidden.')
def zero_shows(mask, convention):
    return translate(mask, convention, zero_hides=lambda x: x == 0)


@MISTAKES.add('"zero_hides": only 1 is taken as visible; every integer but 0 is.')
def only_one_shows(mask, convention):
    return translate(mask, convention, zero_hides=lambda x: x == 1)


@MISTAKES.add('"zero_hides": negative integers are taken as hidden; only 0 hides.')
def negative_hides(mask, convention):
    return translate(mask, convention, zero_hides=lambda x: x > 0)


@MISTAKES.add('"zero_hides": eight bits are too few; 256 becomes 0 there and is hidden.')
def in_eight_bits(mask, convention):
    return translate(mask, convention, zero_hides=lambda x: x.to(torch.int8).bool())


@MISTAKES.add('"zero_hides": the integers are returned as they are; return booleans.')
def integers_returned(mask, convention):
    return translate(mask, convention, zero_hides=lambda x: x)


@MISTAKES.add("~ on integers flips bits: ~0 is -1 and ~1 is -2, so both count as True.")
def bitwise_not(mask, convention):
    return translate(mask, convention, zero_hides=lambda x: (~x).bool())


@MISTAKES.add(
    '"additive": 0 is taken as hidden; adding 0 leaves a score alone, so the pair is visible.'
)
def zero_bias_hides(mask, convention):
    return translate(mask, convention, additive=lambda x: x != 0)


@MISTAKES.add(
    '"additive": only 0 is taken as visible; a finite bias moves a score and hides nothing.'
)
def bias_hides(mask, convention):
    return translate(mask, convention, additive=lambda x: x == 0)


@MISTAKES.add('"additive": negative biases are taken as hidden; only minus infinity hides.')
def negative_bias_hides(mask, convention):
    return translate(mask, convention, additive=lambda x: x >= 0)


def hiding_from(largest_hidden):
    """Every bias up to this one is taken as hidden."""

    def read(mask, convention):
        return translate(mask, convention, additive=lambda x: x > largest_hidden)

    return read


for bias, name in zip(LARGE_BIASES, ("-200", "-1e4", "-1e9", "the smallest float"), strict=True):
    MISTAKES.add(
        f'"additive": a large negative number ({name}) is taken as hidden; only minus infinity hides.'
    )(hiding_from(bias))


@MISTAKES.add(
    '"additive": large numbers of either sign are taken as hidden; only minus infinity hides.'
)
def large_hides(mask, convention):
    return translate(mask, convention, additive=lambda x: x.abs() < 1e6)


@MISTAKES.add('"additive": a large positive number is taken as hidden; only minus infinity hides.')
def large_positive_hides(mask, convention):
    return translate(mask, convention, additive=lambda x: (x != -math.inf) & (x < 1e6))


@MISTAKES.add('"additive" is inverted: minus infinity hides.')
def infinity_shows(mask, convention):
    return translate(mask, convention, additive=torch.isinf)


@MISTAKES.add('"additive": the floats are returned as they are; return booleans.')
def floats_returned(mask, convention):
    return translate(mask, convention, additive=lambda x: x)


@MISTAKES.add("The mask is inverted in place, which changes the caller's tensor.")
def in_place(mask, convention):
    return translate(mask, convention, hidden=lambda x: x.logical_not_())


@MISTAKES.add('An unknown convention is silently read as "attend"; raise a ValueError.')
def unknown_is_attend(mask, convention):
    return translate(mask, convention if convention in VISIBLE else "attend")


@MISTAKES.add('An unknown convention is silently read as "hidden"; raise a ValueError.')
def unknown_is_hidden(mask, convention):
    return translate(mask, convention if convention in VISIBLE else "hidden")


@MISTAKES.add(
    '"in" on a text finds parts of words: "hid", "zero" and "" pass as names. Compare with ==, or use '
    "a tuple."
)
def part_of_a_text(mask, convention):
    if convention not in "attend hidden zero_hides additive":
        raise ValueError(convention)
    return spec(mask, convention) if convention in VISIBLE else mask != 0


@MISTAKES.add(
    'The name is tidied with lower() or strip(), so "Attend" or "additive " passes; take it as it is.'
)
def tidied(mask, convention):
    return translate(mask, convention.lower().strip())


def beginning(mask, convention):
    for part, name in (("att", "attend"), ("hid", "hidden"), ("zero", "zero_hides")):
        if part in convention:
            return spec(mask, name)
    return translate(mask, convention)


MISTAKES.add('A part of the name is enough, so "hid" or "zero" passes; compare whole names.')(
    beginning
)


@MISTAKES.add("An unknown convention returns None; raise a ValueError.")
def unknown_is_none(mask, convention):
    return translate(mask, convention) if convention in VISIBLE else None


@MISTAKES.add("An unknown convention raises a KeyError; the statement asks for a ValueError.")
def unknown_is_key_error(mask, convention):
    return spec(mask, convention) if VISIBLE[convention] else None


@MISTAKES.add(
    "An unknown convention raises NotImplementedError; the statement asks for a ValueError."
)
def unknown_is_not_implemented(mask, convention):
    if convention not in VISIBLE:
        raise NotImplementedError(convention)
    return translate(mask, convention)


EXERCISE = Exercise(
    name="mask_polarity",
    answer="to_attend",
    title="Four conventions, one meaning",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=15,
    needs="section 'In the wild' of chapter 2",
    judge=Calls(spec, cases, gradients=False),
    hints=(
        "Ask of each convention: which entries hide? True, 0, minus infinity, or False.",
        'Two of the four need no logic at all, and "hidden" is the opposite of "attend".',
        'mask, ~mask, mask != 0, mask != -math.inf; and a final "raise ValueError(convention)".',
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
