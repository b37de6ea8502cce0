"""Exercise empty_row: a query that may read nothing."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.masks._told import Told, of_attention
from attncourse.grading.inputs import alternating, far_below_zero, seeded, sized_cases
from attncourse.grading.mistakes import ATTENTION, in_place, masks, mistakes_of, softmaxes, weights
from attncourse.grading.recipe import Given, Recipe, hide
from attncourse.grading.slips import alone, slips


def definition(query, key, value, mask):
    return spec.scaled_dot_product_attention(query, key, value, mask)


def cases(seed: int) -> list[Case]:
    holes = torch.rand(3, 1, 5, 7, generator=seeded(seed)) < 0.6
    holes[..., 0], holes[..., 2:4], holes[0, 0, 1] = False, True, True
    some = holes.clone()
    some[[0, 1, 1], 0, [1, 0, 4]] = some[2] = False
    calls = (  # what is special, b h n m d e, how loud, mask
        ("8 of 15 rows empty, all of sample 2 among them", (3, 2, 5, 7, 11, 13), 1, some),
        ("no row empty, scores near 768 and -768", (3, 2, 5, 7, 4, 6), alternating, holes),
        ("one mask for all, 2 of 5 rows empty, large scores", (2, 3, 5, 5, 3, 4), 400, some[1, 0, :, :5]),
        ("a hidden key has the largest scores", (2, 6, 3, 7, 4, 5), largest_hidden, holes[1, 0, :3]),
        ("1 head, 1 query, values 1 wide", (3, 1, 1, 5, 4, 1), 1, holes[:, :, :1, :5]),
        ("visible scores of 536870912 and beyond on both sides of 0, a hidden one of 0", (1, 1, 3, 3, 16, 4),
         very_far, torch.arange(3) < torch.tensor([[2], [0], [2]])),
    )  # fmt: skip
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def very_far(query, key):
    """Four times as far below 0 as `far_below_zero`, query 2 as far above; the score of the last key is 0."""
    far_below_zero(query, key)
    query *= 4
    query[..., 2, :] *= -1
    key[..., -1, :] = 0.0


def largest_hidden(query, key):
    """Make the scores of key 0 about 50, 150 and 1000 more than the others, those of query 0 about -200."""
    query[..., 0], key[..., 0], query[..., 0, 1], key[..., 1] = 1.0, 0.0, -20.0, 20.0
    key[:, :, 0, 0] = torch.tensor([100.0, 300.0, 2000.0]).repeat(2)


def zeroed(weights, x, axis=-1):
    return weights.masked_fill(~x.visible.any(axis, keepdim=True), 0.0)


def ratio(exponentials, least):
    return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=least)


def late(weights, x):
    return weights * x.visible


RIGHT = Recipe(Given, mask=lambda scores, x: zeroed(hide(scores, x), x), finish=zeroed)
NAN_REPLACED = Recipe(Given, finish=lambda weights, x: weights.nan_to_num())
ACCEPTED = Accepted(
    filled_before_and_after=RIGHT,
    nan_replaced_in_the_weights=NAN_REPLACED,
    large_number_then_mask_again=Recipe(Given, mask=partial(hide, fill=-1e9), finish=late),
    fused_output=lambda query, key, value, mask: (
        F.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        (query @ key.mT / query.size(-1) ** 0.5 + (mask.float() - 1) * 2e38).softmax(-1).where(mask, 0.0)),
)  # fmt: skip


@ACCEPTED.add
def by_hand_in_float64(query, key, value, mask):
    query, key, value = query.double(), key.double(), value.double()
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    largest = scores.masked_fill(~mask, -1e300).amax(-1, keepdim=True).detach()
    weights = ratio(torch.exp(scores.masked_fill(~mask, -torch.inf) - largest), 1e-300)
    return torch.einsum("bhnm,bhme->bhne", weights, value), weights


@ACCEPTED.add
def rows_one_by_one(query, key, value, mask):
    scores = query @ key.mT / query.size(-1) ** 0.5
    rows = zip(scores.flatten(0, 2), mask.expand_as(scores).flatten(0, 2), strict=True)
    weights = [torch.zeros_like(s).masked_scatter(v, s[v].softmax(0)) for s, v in rows]
    return torch.stack(weights).view_as(scores) @ value, torch.stack(weights).view_as(scores)


def added(scores, x):
    return scores + hide(torch.zeros(x.visible.shape), x)


unchanged = Recipe.finish
MISTAKES = Mistakes(mistakes_of(RIGHT, *ATTENTION, masks, weights, in_place))
MISTAKES += [Mistake(x.says, x.answer) for x in mistakes_of(NAN_REPLACED, softmaxes)]
FAR = (
    "Rows of scores far below 0 lose their weight, or hidden keys take it: hidden scores become a number such as -1e4, or get "
    "one added, or the number that is subtracted in a row is kept above one. Minus infinity is less than any."
)
MISTAKES += alone([RIGHT.but(FAR if "filled with -" in name else says, **steps, finish=late if "filled with" in name else unchanged)
             for name, says, steps in masks(RIGHT) if "finish" not in steps])  # fmt: skip
MISTAKES += [RIGHT.but(says, **{"finish": unchanged, **steps}) for says, steps in (
    ("The mask is read the other way round; True = may attend.",
     {"given": lambda q, k, v, mask: Given(q, k, v, ~mask), "finish": zeroed}),
    ("Axes of size 1 are squeezed away; keep all of them.",
     {"finish": zeroed, "answer": lambda o, w, s, x: (o.squeeze(), w.squeeze())}),
    ("An empty row is still NaN: the softmax of minus infinities is 0 / 0.", {"mask": hide}),
    ("An empty row is still NaN: the softmax of minus infinities is 0 / 0.", {"mask": added}),
    ("Minus infinity is added, and the softmax sees the empty row: its gradient is NaN.",
     {"mask": added, "finish": lambda w, x: w.nan_to_num()}),
    ("The output is repaired, but the weights of an empty row are still NaN.",
     {"mask": hide, "answer": lambda o, w, s, x: (o.nan_to_num(), w)}),
    ("Output and weights are repaired after the mix: the NaN stays in the graph, and the gradient is NaN.",
     {"mask": hide, "answer": lambda o, w, s, x: (o.nan_to_num(), w.nan_to_num())}),
    ("An empty row gives equal weights to all keys, as it does after a large negative number.", {}),
    ("The output of an empty row is 0, its weights are equal.", {"answer": lambda o, w, s, x: (zeroed(o, x), w)}),
    ("Every row with a hidden key is set to 0; only rows without any visible key are empty.",
     {"finish": lambda w, x: w * x.visible.all(-1, keepdim=True)}),
    ("Emptiness is looked for along the queries (dim=-2); a row runs along the keys (dim=-1).",
     {"mask": lambda s, x: zeroed(hide(s, x), x, -2), "finish": partial(zeroed, axis=-2)}),
    *((says, {"finish": zeroed, "given": lambda q, k, v, mask, more=more: Given(
        q, k, v, mask | (~mask.any(-1, keepdim=True) & more(mask)))}) for says, more in (
        ("An empty row reads key 0; it must read nothing.", lambda mask: torch.arange(mask.size(-1)) < 1),
        ("An empty row ignores the mask and reads every key; it must read nothing.", torch.ones_like))),
    ("The mask comes after the softmax, and an empty row is divided by its sum: 0 / 0.",
     {"mask": unchanged, "finish": lambda w, x: ratio(late(w, x), 0.0)}),
    ("The mask comes after the softmax: a hidden key with a large score has taken the weight already.",
     {"mask": unchanged, "finish": lambda w, x: ratio(late(w, x), 1e-9)}),
    ("The maximum is taken over all keys: next to a hidden key with a large score the visible ones round to 0.",
     {"mask": unchanged, "finish": lambda w, x: ratio(late(w, x), 1e-30),
      "normalize": lambda s: (s - s.amax(-1, keepdim=True)).exp()}),
    ("The largest score of a row is clamped at 0 before it is subtracted, and rows far below 0 vanish.",
     {"mask": hide, "normalize": lambda s: ratio((s - s.amax(-1, keepdim=True).clamp(min=0)).exp(), 1e-30)}),
)]  # fmt: skip
MISTAKES += alone(mistakes_of(RIGHT, slips, without=("overflow hidden",)))

EXERCISE = Exercise(
    name="empty_row",
    answer="attention",
    judge=Told(definition, cases, tells=of_attention),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
