"""Exercise one_mask_per_sample: a (batch, n, m) mask must not become one mask per head."""

import math
from itertools import product

import torch

from attncourse import spec
from attncourse.grading.compare import same
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, seeded
from attncourse.grading.inputs import alternating, far_from_zero, sized_cases


def definition(query, key, value, mask):
    """One sample after the other, each with its mask or the one for all."""
    sizes = *query.shape[:3], key.size(2)
    if mask.shape not in (sizes, (sizes[0], *sizes[2:]), sizes[2:]):
        raise ValueError("a mask is (n, m), (batch, n, m) or (batch, heads, n, m)")
    masks = mask if mask.dim() > 2 else [mask] * len(query)
    samples = zip(query.split(1), key.split(1), value.split(1), masks, strict=True)
    return torch.cat([spec.scaled_dot_product_attention(*x)[0] for x in samples])


CALLS = (  # what is special, b h n m d e, how loud, axes of the mask before (n, m)
    ("3 samples, 3 heads, one mask per sample", (3, 3, 5, 7, 4, 6), 1, (3,)),
    ("2 samples, 3 heads, one mask for all", (2, 3, 5, 7, 6, 4), 1, ()),
    ("4 samples, 4 heads, 4 queries, one mask for all", (4, 4, 4, 4, 5, 3), 2, ()),
    ("3 samples, 2 heads, one mask per head", (3, 2, 5, 4, 7, 6), 2, (3, 2)),
    ("1 query, values 1 wide", (2, 3, 1, 5, 4, 1), 2, (2,)),
    ("scores near 384 and -384", (2, 2, 5, 6, 4, 3), alternating, (2,)),
    ("scores far below and far above zero", (2, 3, 4, 5, 16, 6), far_from_zero, (2,)),
)


def cases(seed: int) -> list[Case]:
    generator, calls = seeded(seed), []
    for what, sizes, loud, axes in CALLS:
        visible = torch.rand(*axes, *sizes[2:4], generator=generator) < 0.5
        visible[..., sizes[3] // 2] = True  # no row is empty
        visible[..., 0, 0], visible[..., 0, 1] = True, False
        calls.append((what, sizes, loud, visible))
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


@Dataflow
def right(query, key, value, mask):
    mask = mask[:, None] if mask.dim() == 3 else mask
    scores = yield "the scaled scores", query @ key.mT / query.size(-1) ** 0.5
    weights = yield "the weights", scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights @ value


def whose(asked: Asked) -> str:
    """Whose mask does a head get, where each sample has one?"""
    for label, case, _, seen in asked.shaped:
        *inputs, mask = case.args
        tells = case.gradients and mask.dim() == 3  # scores are not large, where any mask may fit
        made = [right(*inputs, one) for one in mask] if tells else []
        for b, h in product(range(seen.size(0)), range(seen.size(1))):
            like = [k for k, x in enumerate(made) if same(x[b, h], seen[b, h])]
            if like and b not in like:
                who = f"head {h} of sample {b} gets the mask of sample {like[0]}"
                return f"In the call '{label}' {who}."
    return ""


EXERCISE = Exercise(
    name="one_mask_per_sample",
    answer="attention_per_sample",
    judge=Calls(definition, cases),
    right=right,
    explain=(whose,),
    axes=("b h n e",),
)
