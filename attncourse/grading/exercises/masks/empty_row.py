"""Exercise empty_row: a query that may read nothing."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.families import (
    ATTENTION,
    in_place,
    masks,
    mistakes_of,
    outputs,
    softmaxes,
    weights,
)
from attncourse.grading.inputs import alternating, sized_cases
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe, hide


def definition(query, key, value, mask):
    return spec.scaled_dot_product_attention(query, key, value, mask)


def cases(seed: int) -> list[Case]:
    holes = torch.rand(3, 1, 5, 7, generator=torch.Generator().manual_seed(seed)) < 0.6
    holes[..., 0], holes[..., 2:4], holes[0, 0, 1] = False, True, True
    some = holes.clone()
    some[[0, 1, 1], 0, [1, 0, 4]] = some[2] = False
    calls = (  # what is special, b h n m d e, how loud, mask
        ("8 of 15 rows empty, all of sample 2 among them", (3, 2, 5, 7, 11, 13), 1, some),
        ("no row empty, scores near 768 and -768", (3, 2, 5, 7, 4, 6), alternating, holes),
        ("one mask for all, 2 of 5 rows empty, large scores", (2, 3, 5, 5, 3, 4), 400, some[1, 0, :, :5]),
        ("a hidden key has the largest scores", (2, 6, 3, 7, 4, 5), largest_hidden, holes[1, 0, :3]),
        ("1 head, 1 query, values 1 wide", (3, 1, 1, 5, 4, 1), 1, holes[:, :, :1, :5]),
        ("visible scores of -536870912 and below", (1, 1, 2, 3, 16, 4), lowest,
         torch.tensor([[True, True, False], [False, False, False]])),
    )  # fmt: skip
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def largest_hidden(query, key):
    """Make the scores of key 0 about 50, 150 and 1000 more than the others, those of query 0 about -200."""
    query[..., 0], key[..., 0], query[..., 0, 1], key[..., 1] = 1.0, 0.0, -20.0, 20.0
    key[:, :, 0, 0] = torch.tensor([100.0, 300.0, 2000.0]).repeat(2)


def lowest(query, key):
    """Make the scores -2**29, -2**29 - 64 and 0, exactly: -1e9 is below them, -1e8 is not."""
    query.fill_(-(2.0**13))
    key.fill_(2.0**14)
    key[..., 1, 0] += 2.0**-5
    key[..., 2, :] = 0.0


def zeroed(weights, x, axis=-1):
    return weights.masked_fill(~x.visible.any(axis, keepdim=True), 0.0)


def harmless(scores, x, axis=-1):
    return zeroed(hide(scores, x), x, axis)


def ratio(exponentials, least):
    return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=least)


def late(weights, x):
    return weights * x.visible


RIGHT = Recipe(Given, mask=harmless, finish=zeroed)
NAN_REPLACED = Recipe(Given, finish=lambda weights, x: weights.nan_to_num())
ACCEPTED = Accepted(
    filled_before_and_after=RIGHT,
    nan_replaced_in_the_weights=NAN_REPLACED,
    large_number_then_mask_again=Recipe(Given, mask=partial(hide, fill=-1e9), finish=late),
)


@ACCEPTED.add
def by_hand_in_float64(query, key, value, mask):
    query, key, value = query.double(), key.double(), value.double()
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    largest = scores.masked_fill(~mask, -1e300).amax(-1, keepdim=True).detach()
    weights = ratio(torch.exp(scores.masked_fill(~mask, -torch.inf) - largest), 1e-300)
    return torch.einsum("bhnm,bhme->bhne", weights, value), weights


@ACCEPTED.add
def fused_output(query, key, value, mask):
    bias = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(query.dtype).min)
    weights = (query @ key.mT / query.size(-1) ** 0.5 + bias).softmax(-1).where(mask, 0.0)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask), weights


@ACCEPTED.add
def rows_one_by_one(query, key, value, mask):
    scores = query @ key.mT / query.size(-1) ** 0.5
    rows = zip(scores.flatten(0, 2), mask.expand_as(scores).flatten(0, 2), strict=True)
    weights = [torch.zeros_like(s).masked_scatter(v, s[v].softmax(0)) for s, v in rows]
    weights = torch.stack(weights).view_as(scores)
    return weights @ value, weights


def added(scores, x):
    return scores + hide(torch.zeros(x.visible.shape), x)


MISTAKES = Mistakes(mistakes_of(RIGHT, *ATTENTION, masks, weights, in_place))
MISTAKES += [Mistake(x.says, x.answer) for x in mistakes_of(NAN_REPLACED, softmaxes)]
SAYS = {name: says for name, says, _ in (*masks(RIGHT), *outputs(RIGHT))}
unchanged = Recipe.finish
as_found, unmasked = (partial(RIGHT.but, mask=mask, finish=unchanged) for mask in (hide, unchanged))
MISTAKES += [
    *(RIGHT.but(says, **steps, finish=late if name.startswith("filled with") else unchanged)
      for name, says, steps in masks(RIGHT) if "finish" not in steps),
    RIGHT.but(SAYS["mask inverted"], given=lambda q, k, v, mask: Given(q, k, v, ~mask)),
    RIGHT.but("Axes of size 1 are squeezed out of the mask, and its samples are then taken for heads.",
              given=lambda q, k, v, mask: Given(q, k, v, mask.squeeze())),
    RIGHT.but(SAYS["squeezed"], answer=lambda o, w, s, x: (o.squeeze(), w.squeeze())),
    *(RIGHT.but("An empty row is still NaN: the softmax of minus infinities is 0 / 0.", mask=mask, finish=unchanged)
      for mask in (hide, added)),
    as_found("The output is repaired, but the weights of an empty row are still NaN.",
             answer=lambda o, w, s, x: (o.nan_to_num(), w)),
    as_found("Output and weights are repaired after the mix: the NaN weights stay in the graph, and the gradient "
             "is NaN.", answer=lambda o, w, s, x: (o.nan_to_num(), w.nan_to_num())),
    Mistake("The weights are changed in place, but the softmax needs them for its gradient; use masked_fill or "
            "torch.where.", Recipe(Given, finish=lambda w, x: w.masked_fill_(w.isnan(), 0.0))),
    RIGHT.but("Minus infinity is added, and the softmax sees the empty row: its backward pass sends NaN to "
              "queries and keys.", mask=added, finish=lambda w, x: w.nan_to_num()),
    RIGHT.but("An empty row gives equal weights to all keys, as it does after a large negative number; it must "
              "read nothing.", finish=unchanged),
    RIGHT.but("The output of an empty row is 0, but its weights are still equal shares.", finish=unchanged,
              answer=lambda o, w, s, x: (zeroed(o, x), w)),
    *(RIGHT.but(says, given=lambda q, k, v, mask, m=m: Given(q, k, v, mask | ~mask.any(-1, keepdim=True) & m(mask)))
      for says, m in (
        ("An empty row reads key 0; it must read nothing.", lambda mask: torch.arange(mask.size(-1)) < 1),
        ("An empty row reads its own key; it must read nothing.", lambda mask: torch.eye(*mask.shape[-2:]) > 0),
        ("An empty row ignores the mask and reads every key; it must read nothing.", torch.ones_like))),
    RIGHT.but("Every row with a hidden key is set to 0; only rows without any visible key are empty.",
              finish=lambda w, x: w * x.visible.all(-1, keepdim=True)),
    RIGHT.but("Emptiness is looked for along the queries (dim=-2); a row runs along the keys (dim=-1).",
              mask=partial(harmless, axis=-2), finish=partial(zeroed, axis=-2)),
    unmasked("The mask comes after the softmax, and an empty row is divided by its sum: 0 / 0.",
             finish=lambda w, x: ratio(late(w, x), 0.0)),
    *(unmasked("The mask comes after the softmax: a hidden key with a large score has taken the weight already, and "
               "dividing by a sum that is never 0 does not bring it back.", finish=finish) for finish in (
                   lambda w, x: late(w, x) / (late(w, x).sum(-1, keepdim=True) + 1e-6),
                   lambda w, x: ratio(late(w, x), 1e-9))),
    unmasked("The maximum is taken over all keys: next to a hidden key with a large score all visible "
             "exponentials round to 0. Take it over the visible keys.", finish=lambda w, x: ratio(late(w, x), 1e-30),
             normalize=lambda s: (s - s.amax(-1, keepdim=True)).exp()),
    *(style.but("The largest score of a row is clamped at 0 before it is subtracted, and rows far below 0 vanish; "
                "subtract the largest as it is.", normalize=lambda s, least=least: ratio(
                    (s - s.amax(-1, keepdim=True).clamp(min=0)).exp(), least))
      for style in (RIGHT, NAN_REPLACED) for least in (0.0, 1e-30)),
]  # fmt: skip

EXERCISE = Exercise(
    name="empty_row", answer="attention", title="The empty row", kind="Repair",
    points=3, difficulty=3, minutes=20, needs="section 'The empty row' of chapter 2",
    judge=Calls(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Find the empty rows before the softmax: ~mask.any(dim=-1, keepdim=True).",
        "Repair the row at the latest in the weights, before they meet the values. Safest: give the "
        "softmax a harmless row.",
        "Fill the scores of empty rows with 0.0 before the softmax, and their weights with 0.0 after it.",
    ),
)  # fmt: skip
