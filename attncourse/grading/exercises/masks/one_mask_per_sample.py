"""Exercise one_mask_per_sample: a (batch, n, m) mask must not become one mask per head."""

import torch

from attncourse import spec
from attncourse.grading.compare import difference
from attncourse.grading.exercise import Asked, Calls, Case, Exercise, Given, Recipe
from attncourse.grading.explain.loud import only_loud
from attncourse.grading.inputs import alternating, far_below_zero, seeded, sized_cases


def definition(query, key, value, mask):
    """One sample after the other, each with its mask or the one for all."""
    masks = mask if mask.dim() > 2 else [mask] * len(query)
    samples = zip(query.split(1), key.split(1), value.split(1), masks, strict=True)
    return torch.cat([spec.scaled_dot_product_attention(*x)[0] for x in samples])


def far_on_both_sides(query, key):
    far_below_zero(query, key)
    query[..., ::2, :].neg_()


CALLS = (  # what is special, b h n m d e, how loud, axes of the mask before (n, m)
    ("3 samples, 3 heads, one mask per sample", (3, 3, 5, 7, 4, 6), 1, (3,)),
    ("3 samples, 1 head, one mask per sample", (3, 1, 4, 4, 5, 2), 2, (3,)),
    ("2 samples, 3 heads, one mask for all", (2, 3, 5, 7, 6, 4), 1, ()),
    ("4 samples, 4 heads, 4 queries, one mask for all", (4, 4, 4, 4, 5, 3), 2, ()),
    ("3 samples, 2 heads, one mask per head", (3, 2, 5, 4, 7, 6), 2, (3, 2)),
    ("1 query, values 1 wide", (2, 3, 1, 5, 4, 1), 2, (2,)),
    ("large scores", (2, 2, 4, 6, 5, 3), 144, (2,)),
    ("scores near 768 and -768", (2, 2, 5, 6, 4, 3), alternating, (2,)),
    ("scores far below and far above zero", (2, 3, 4, 5, 16, 6), far_on_both_sides, (2,)),
)


def cases(seed: int) -> list[Case]:
    generator, calls = seeded(seed), []
    for what, sizes, loud, axes in CALLS:
        visible = torch.rand(*axes, *sizes[2:4], generator=generator) < 0.5
        visible[..., sizes[3] // 2] = True  # no row is empty
        visible[..., 0, 0], visible[..., 0, 1] = True, False
        calls.append((what, sizes, loud, visible))
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def reading(align):
    """The step ``given`` of a recipe that aligns the mask in its own way."""
    return lambda q, k, v, mask: Given(q, k, v, align(mask, q.size(1)))


def aligned(mask, heads=0):
    """The mask, made to broadcast to the scores."""
    return mask[:, None] if mask.dim() == 3 else mask


def per_sample(says, align):
    """A mistake in what becomes of a mask with three axes."""
    given = reading(lambda mask, h: align(mask, h) if mask.dim() == 3 else mask)
    return RIGHT.but(says, given=given)


def by_axes(asked: Asked) -> str:
    """For which masks is the output right, by the number of their axes?"""
    names = {2: "(n, m)", 3: "(batch, n, m)", 4: "(batch, heads, n, m)"}
    axes = {False: set(), True: set()}
    for call in asked.calls:
        axes[bool(difference(call.expected, call.seen))].add(call.case.args[3].dim())
    if axes[False] & axes[True] or not (axes[False] and axes[True]):
        return ""
    right, wrong = (" and ".join(names[x] for x in sorted(axes[k])) for k in (False, True))
    return f"The output is right with masks of shape {right}, but not with those of {wrong}."


RIGHT = Recipe(reading(aligned), answer=lambda output, weights, scores, x: output)
EXERCISE = Exercise(
    name="one_mask_per_sample",
    answer="attention_per_sample",
    judge=Calls(definition, cases),
    right=RIGHT,
    explain=(by_axes, only_loud),
    axes=("b h n e",),
    measures=("gradients",),
    ideas=[
        per_sample(says, align)
        for says, align in (
            ("The (batch, n, m) mask is read as one mask per head; it needs an axis for heads.",
             lambda mask, h: mask),
            ("The axis is put in only where shapes do not fit; as many samples as heads fit.",
             lambda mask, h: mask if len(mask) in (1, h) else mask[:, None]),
            ("repeat gives m0 m1 m0 m1, but the heads of one sample need m0 m0 m1 m1.",
             lambda mask, h: mask.repeat(h, 1, 1).unflatten(0, (-1, h))),
        )
    ],
)  # fmt: skip
