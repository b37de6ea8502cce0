"""Exercise empty_row: a query that may read nothing."""

import torch

from attncourse import spec
from attncourse.grading.compare import same
from attncourse.grading.exercise import Asked, Calls, Case, Exercise
from attncourse.grading.explain.loud import only_loud
from attncourse.grading.inputs import alternating, far_below_zero, seeded, sized_cases
from attncourse.grading.recipe import Given, Recipe, hide


def definition(query, key, value, mask):
    return spec.scaled_dot_product_attention(query, key, value, mask)


def cases(seed: int) -> list[Case]:
    holes = torch.rand(3, 1, 5, 7, generator=seeded(seed)) < 0.6
    holes[..., 0], holes[..., 2:4], holes[0, 0, 1] = False, True, True
    some = holes.clone()
    some[[0, 1, 1], 0, [1, 0, 4]] = some[2] = False
    far = torch.arange(3) < torch.tensor([[2], [0], [2]])
    calls = (  # what is special, b h n m d e, how loud, mask
        ("8 of 15 rows empty, all of sample 2 among them", (3, 2, 5, 7, 11, 13), 1, some),
        ("no row empty, scores near 768 and -768", (3, 2, 5, 7, 4, 6), alternating, holes),
        ("one mask for all, 2 of 5 rows empty, large scores", (2, 3, 5, 5, 3, 4), 400,
         some[1, 0, :, :5]),
        ("a hidden key has the largest scores", (2, 6, 3, 7, 4, 5), largest_hidden,
         holes[1, 0, :3]),
        ("1 head, 1 query, values 1 wide", (3, 1, 1, 5, 4, 1), 1, holes[:, :, :1, :5]),
        ("visible scores of 536870912 and beyond on both sides of 0, a hidden one of 0",
         (1, 1, 3, 3, 16, 4), very_far, far),
    )  # fmt: skip
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def very_far(query, key):
    """Four times as far below 0 as `far_below_zero`, query 2 as far above; the last key has 0."""
    far_below_zero(query, key)
    query *= 4
    query[..., 2, :] *= -1
    key[..., -1, :] = 0.0


def largest_hidden(query, key):
    """Make the scores of key 0 about 50, 150, 1000 more than the others, of query 0 about -200."""
    query[..., 0], key[..., 0], query[..., 0, 1], key[..., 1] = 1.0, 0.0, -20.0, 20.0
    key[:, :, 0, 0] = torch.tensor([100.0, 300.0, 2000.0]).repeat(2)


def zeroed(weights, x, axis=-1):
    return weights.masked_fill(~x.visible.any(axis, keepdim=True), 0.0)


RIGHT = Recipe(Given, mask=lambda scores, x: zeroed(hide(scores, x), x), finish=zeroed)


def of_rows(asked: Asked) -> str:
    """Empty rows alone are wrong: they have NaN, or weights."""
    for call in asked.shaped:
        weights = call.seen[1].double()
        empty = ~call.case.args[3].any(-1, keepdim=True).expand(*weights.shape[:-1], 1)
        rest = (call.expected[1].masked_fill(empty, 0), weights.masked_fill(empty, 0))
        if not same(*rest) or same(call.expected[1], weights):
            continue
        if not weights.isfinite().all():
            return "The weights of an empty row have NaN or infinity; the others are right."
        return "An empty row has weights that are not 0; a query that may read nothing has only 0."
    return ""


EXERCISE = Exercise(
    name="empty_row",
    answer="attention",
    judge=Calls(definition, cases),
    right=RIGHT,
    explain=(of_rows, only_loud),
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    measures=("gradients",),
    ideas=[
        RIGHT.but("Output and weights are repaired after the mix: the NaN stays in the graph, and "
                  "the gradient is NaN.", mask=hide, finish=Recipe.finish,
                  answer=lambda o, w, s, x: (o.nan_to_num(), w.nan_to_num())),
        RIGHT.but("Emptiness is looked for along the queries (dim=-2); a row runs along the keys "
                  "(dim=-1).", mask=lambda s, x: zeroed(hide(s, x), x, -2),
                  finish=lambda w, x: zeroed(w, x, -2)),
    ],
)  # fmt: skip
