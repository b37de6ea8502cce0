"""Exercise global_rule: a window, global tokens, padding and a causal mask, joined into one mask for a batch."""

import torch

from attncourse import spec
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.global_local._steps import Rules
from attncourse.grading.exercises.global_local._tables import Tables, ends, tables
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(is_global, lengths, left, right, causal):
    """The rule of the specification, of which padding and the future are taken away."""
    n = is_global.size(1)
    mask = spec.longformer_mask(is_global, left, right)
    for sample, length in zip(mask, lengths.tolist(), strict=True):
        sample[:, length:], sample[:, :, length:] = False, False
    return mask & spec.causal(n, n) if causal else mask


def kinds(expected, seen, is_global, lengths, left, right, causal):
    """Pairs that are read and should not be, and those that should be."""
    n = is_global.size(1)
    i, j = torch.arange(n)[:, None], torch.arange(n)
    query, key = is_global[:, None, :, None], is_global[:, None, None]
    length = lengths[:, None, None, None]
    yield "padding reads", seen & (i >= length)
    yield "padding is read", seen & (j >= length)
    yield "the future is read, though causal", seen & causal & (j > i)
    yield "keys are read that are further back than left", seen & (j < i)
    yield "keys are read that are further ahead than right", seen & (j > i)
    yield "a query does not read its own key", i == j
    yield "near keys before the query are not read", (i - left <= j) & (j < i)
    yield "near keys behind the query are not read", (i < j) & (j <= i + right)
    yield "global tokens far apart do not read each other", query & key
    yield "a global query does not read far keys", query & ~key
    yield "a global key is not read from far away", key & ~query


CALLS = (  # what is special; share of global tokens, lengths, n, left, right, causal
    ("3 samples of 9 positions, 1 left and 2 right", 0.25, (9, 6, 8), 9, 1, 2, False),
    ("the same, causal", 0.25, (9, 6, 8), 9, 2, 1, True),
    ("as many samples as positions, 2 left and 0 right", 0.3, (5, 2, 4, 3, 5), 5, 2, 0, False),
    ("1 sample, only padding", 0.5, (0,), 4, 1, 1, False),
    ("no global token, 0 left and 3 right", 0.0, (8, 5), 8, 0, 3, False),
    ("every token global, causal", 1.0, (6, 4), 7, 0, 0, True),
    ("a window wider than the sequence, causal", 0.2, (5, 6, 3, 1), 6, 40, 40, True),
)


def cases(seed: int) -> list[Case]:
    """Position 1 is global in sample 0 and not in sample 1, and so is the last one, which can be padding."""
    g, found = seeded(seed), []
    n, length, left, right = (
        int(torch.randint(*x, (), generator=g)) for x in ((18, 22), (12, 16), (5, 7), (8, 10))
    )
    drawn = "sizes drawn at random", 0.2, (n, length), n, left, right, False
    for what, share, lengths, n, *rest in (*CALLS, drawn):
        is_global = torch.rand(len(lengths), n, generator=g) < share
        if 0 < share < 1:
            is_global[0, [1, -1]], is_global[1:2, 1] = True, False
            is_global[1:, -1] = True
        found.append(Case(what, (is_global, torch.tensor(lengths), *rest), gradients=False))
    return found


visible = Rules()
ACCEPTED = Accepted(rules_joined=visible)


@ACCEPTED.add
def loops(is_global, lengths, left, right, causal):
    batch, n = is_global.shape
    mask = torch.zeros(batch, 1, n, n, dtype=torch.bool)
    for b in range(batch):
        for i in range(lengths[b]):
            for j in range(lengths[b] if not causal else i + 1):
                if is_global[b, i] or is_global[b, j] or -left <= j - i <= right:
                    mask[b, 0, i, j] = True
    return mask


@ACCEPTED.add
def rows_and_columns_painted(is_global, lengths, left, right, causal):
    n = is_global.shape[1]
    window = torch.ones(n, n).tril(right).triu(-left)
    masks = window.repeat(len(lengths), 1, 1)
    for mask, marks, length in zip(masks, is_global, lengths, strict=True):
        mask[marks] = 1
        mask[:, marks] = 1
        mask[length:] = mask[:, length:] = 0
    return (masks.tril() if causal else masks).bool().unsqueeze(1)


@ACCEPTED.add
def sums_of_ones(is_global, lengths, left, right, causal):
    at = torch.arange(is_global.size(-1))
    g, apart = is_global.long(), at - at.unsqueeze(1)
    alive = (at < lengths.view(-1, 1)).long()
    window = (apart.clamp(-left, right) == apart).long()
    total = (g[:, :, None] + g[:, None] + window) * alive[:, :, None] * alive[:, None]
    total = total * (apart <= 0) if causal else total
    return (total > 0)[:, None]


def in_place(is_global, lengths, left, right, causal):
    is_global &= torch.arange(is_global.size(1)) < lengths[:, None]
    return visible(is_global, lengths, left, right, causal)


def window(before, behind):
    """The step ``near`` with other ends."""
    near = Rules.near
    return lambda i, j, left, right: near(i, j, before(left, right), behind(left, right))


MISTAKES = Mistakes(visible.but(says, **steps) for says, steps in (
    ("Global tokens are read by all, but they read no more than a window; a global query reads every key.",
     {"hub": lambda i, j: j | torch.zeros_like(i)}),
    ("Global tokens read everything, but nobody far away reads them; a global key is read by every query.",
     {"hub": lambda i, j: i | torch.zeros_like(j)}),
    ("A far pair is visible only where query and key are both global; one of them is enough.", {"hub": torch.logical_and}),
    ("A far pair is visible only where exactly one of the two is global; two global tokens read each other as well.",
     {"hub": torch.logical_xor}),
    ("The global tokens are not used: only the window is left.", {"hub": lambda i, j: i & ~i & j}),
    ("The window is lost: only pairs with a global token are visible.", {"join": lambda near, hub: hub}),
    ("A pair must be near and have a global token here; one of the two is enough (or, not and).",
     {"join": torch.logical_and}),
    ("Global tokens lose their window: near pairs are visible, pairs with a global token are, those that are both are not.",
     {"join": torch.logical_xor}),
    ("The tokens that are not global are treated as global; is_global is True where one is.", {"marks": torch.logical_not}),
    ("All samples get the global tokens of the first one; each has its own.", {"marks": lambda g: g[:1].expand_as(g)}),
    ("A token that is global in one sample is global in all of them; each has its own.",
     {"marks": lambda g: g.any(0, keepdim=True).expand_as(g)}),
    ("The window goes around: keys at the other end of the sequence are read.",
     {"near": lambda i, j, left, right: ((j - i + left) % j.numel()) <= left + right}),
    ("The query itself is left out of the window; it reads its own key.",
     {"near": lambda i, j, left, right: (i - left <= j) & (j <= i + right) & (i != j)}),
    ("Padding is not hidden at all.", {"real": lambda i, j, length: (i < length + 99) & (j < length + 99)}),
    ("The keys of padding are hidden, but its queries read; padding reads nothing.",
     {"real": lambda i, j, length: (i < length + 99) & (j < length)}),
    ("The queries of padding read nothing, but others read its keys; it is read by nobody.",
     {"real": lambda i, j, length: (i < length) & (j < length + 99)}),
    ("A pair is hidden only where query and key are both padding; one of them is enough.",
     {"real": lambda i, j, length: (i < length) | (j < length)}),
    ("One position of padding too many is real: token i is real when i < length.",
     {"real": lambda i, j, length: (i <= length) & (j <= length)}),
    ("The last real token of each sample is hidden: token i is real when i < length.",
     {"real": lambda i, j, length: (i < length - 1) & (j < length - 1)}),
    ("Padding is taken to stand in front; it stands behind the real tokens.",
     {"real": lambda i, j, length: (i >= i.numel() - length) & (j >= i.numel() - length)}),
    ("Every sample gets the length of the first one.", {"real": lambda i, j, length: (i < length[:1]) & (j < length[:1])}),
    ("Every sample gets the length of the longest one.",
     {"real": lambda i, j, length: (i < length * 0 + length.max()) & (j < length.max())}),
    ("The padding part marks padding as visible; invert it.", {"real": lambda i, j, length: (i >= length) & (j >= length)}),
    ("causal is not used: queries read later keys.", {"past": lambda i, j: j <= i + 10**6}),
    ("The causal mask hides the query's own position; it reads up to itself.", {"past": lambda i, j: j < i}),
    ("The causal mask is turned around: it hides the past and shows the future.", {"past": lambda i, j: j >= i}),
    ("Each query reads one key too far ahead; with causal the last one is its own.", {"past": lambda i, j: j <= i + 1}),
    ("The shape is (b, n, n); without an axis for the heads it is one mask per head.", {"finish": lambda mask: mask[:, 0]}),
    ("The samples stand on the axis of the heads; the shape is (b, 1, n, n).", {"finish": lambda mask: mask.transpose(0, 1)}),
))  # fmt: skip
MISTAKES += [
    *ends(visible, "near", window), *tables(visible, "sample", "(b, 1, n, n)"),
    Mistake("Global tokens are set after padding was hidden, so that padding is read or reads; hide padding last.",
            lambda g, lengths, *rest: visible(g, 0 * lengths + g.size(1), *rest)
            & (visible(0 * g > 0, lengths, *rest) | visible(g, 0 * lengths + g.size(1), -1, -1, rest[2]))),
    Mistake("Global tokens are set after the causal mask, so that they read the future or are read from before.",
            lambda g, lengths, left, right, causal: visible(g, lengths, left, right, causal)
            | visible(g, lengths, -1, -1, False)),
    Mistake("Global queries read the future under the causal mask; they wait like all others.",
            lambda g, lengths, left, right, causal: visible(g, lengths, left, right, causal)
            | visible(g, lengths, left, right, False) & g[:, None, :, None]),
    Mistake("Global keys are read from before under the causal mask; nobody reads the future, not even of a global token.",
            lambda g, lengths, left, right, causal: visible(g, lengths, left, right, causal)
            | visible(g, lengths, left, right, False) & g[:, None, None]),
    Mistake("The causal mask is put in always; it belongs there only where causal is True.",
            lambda g, lengths, left, right, causal: visible(g, lengths, left, right, True)),
    Mistake("causal is read the other way round: the causal mask is put in where it is False.",
            lambda g, lengths, left, right, causal: visible(g, lengths, left, right, not causal)),
    Mistake("is_global is changed in place; its caller finds it changed.", in_place),
]  # fmt: skip

EXERCISE = Exercise(
    name="global_rule",
    answer="visible_pairs",
    judge=Tables(definition, cases, kinds=kinds),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
