"""Exercise one_mask_per_sample: a (batch, n, m) mask must not become one mask per head."""

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistakes
from attncourse.grading.exercises.masks._told import ByAxes
from attncourse.grading.inputs import alternating, far_below_zero, seeded, sized_cases
from attncourse.grading.mistakes import ATTENTION, in_place, masks, mistakes_of
from attncourse.grading.recipe import Given, Recipe
from attncourse.grading.slips import alone, slips


def definition(query, key, value, mask):
    """One sample after the other, each with its mask or the one for all."""
    masks = mask if mask.dim() > 2 else [mask] * len(query)
    samples = zip(query.split(1), key.split(1), value.split(1), masks, strict=True)
    return torch.cat([spec.scaled_dot_product_attention(*x)[0] for x in samples])


CALLS = (  # what is special, b h n m d e, how loud, axes of the mask before (n, m)
    ("3 samples, 3 heads, one mask per sample", (3, 3, 5, 7, 4, 6), 1, (3,)),
    ("3 samples, 1 head, one mask per sample", (3, 1, 4, 4, 5, 2), 2, (3,)),
    ("2 samples, 3 heads, one mask for all", (2, 3, 5, 7, 6, 4), 1, ()),
    ("4 samples, 4 heads, 4 queries, one mask for all", (4, 4, 4, 4, 5, 3), 2, ()),
    ("3 samples, 2 heads, one mask per head", (3, 2, 5, 4, 7, 6), 2, (3, 2)),
    ("1 query, values 1 wide", (2, 3, 1, 5, 4, 1), 2, (2,)),
    ("large scores", (2, 2, 4, 6, 5, 3), 144, (2,)),
    ("scores near 768 and -768", (2, 2, 5, 6, 4, 3), alternating, (2,)),
    ("scores far below and far above zero", (2, 3, 4, 5, 16, 6),
     lambda q, k: far_below_zero(q, k) or q[..., ::2, :].neg_(), (2,)),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    generator, calls = seeded(seed), []
    for what, sizes, loud, axes in CALLS:
        visible = torch.rand(*axes, *sizes[2:4], generator=generator) < 0.5
        visible[..., sizes[3] // 2] = True  # no row is empty
        visible[..., 0, 0], visible[..., 0, 1] = True, False
        calls.append((what, sizes, loud, visible))
    return sized_cases(seed, "b h n m d e", "b h n d, b h m d, b h m e", calls)


def aligned(mask, query):
    """The mask, made to broadcast to the scores."""
    return mask[:, None] if mask.dim() == 3 else mask


def reading(align):
    return lambda q, k, v, mask: Given(q, k, v, align(mask, q))


RIGHT = Recipe(reading(aligned), answer=lambda output, weights, scores, x: output)
ACCEPTED = Accepted(
    unsqueezed_when_three_axes=RIGHT,
    fused=lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=aligned(mask, q)),
    loop_over_samples=lambda query, key, value, mask: torch.stack([
        (q @ k.mT * q.size(-1) ** -0.5).where(visible, -torch.inf).softmax(-1) @ v for q, k, v, visible
        in zip(query, key, value, mask if mask.dim() > 2 else [mask] * len(query), strict=True)]),
)  # fmt: skip


@ACCEPTED.add
def repeated_for_each_head(query, key, value, mask):
    b, h, n, d = query.shape
    mask = mask.expand(b, n, -1) if mask.dim() == 2 else mask
    mask = mask if mask.dim() == 4 else mask.repeat_interleave(h, dim=0).reshape(b, h, n, -1)
    scores = (query @ key.mT / d**0.5).masked_fill(~mask, -1e9)
    return torch.softmax(scores, dim=-1) @ value


@ACCEPTED.add
def einsum_in_float64(query, key, value, mask):
    query, key, value = query.double(), key.double(), value.double()
    bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    bias = bias.view(len(query), 1, *mask.shape[1:]) if mask.dim() == 3 else bias
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    return torch.einsum("bhnm,bhme->bhne", (scores + bias).softmax(-1), value)


MISTAKES = Mistakes(mistakes_of(RIGHT, *ATTENTION, masks, in_place))
MISTAKES += [RIGHT.but(says, given=reading(lambda x, q, f=align: f(x, q.size(1)) if x.dim() == 3 else x))
             for says, align in (  # what becomes of a mask x with three axes; h is the number of heads
    ("The (batch, n, m) mask is read as one mask per head; it needs an axis for heads.", lambda x, h: x),
    ("The axis is put in only where the shapes do not fit; with as many samples as heads they fit.",
     lambda x, h: x if len(x) in (1, h) else x[:, None]),
    ("The axis is put in only with as many samples as heads.", lambda x, h: x[:, None] if len(x) == h else x),
    ("The axis stands behind the queries; it belongs behind the batch.", lambda x, h: x[:, :, None]),
    ("The axis stands behind the keys; it belongs behind the batch.", lambda x, h: x[..., None]),
    ("Every sample gets the mask of the first one.", lambda x, h: x[0]),
    ("Every sample gets the mask of the last one.", lambda x, h: x[-1]),
    ("The masks of all samples are joined: a pair is visible if any of them allows it.", lambda x, h: x.any(0)),
    ("The masks of all samples are joined: a pair is visible if all of them allow it.", lambda x, h: x.all(0)),
    ("The masks are repeated in the wrong order: repeat gives m0 m1 m0 m1, the heads of one sample need m0 m0 "
     "m1 m1 (repeat_interleave).", lambda x, h: x.repeat(h, 1, 1).unflatten(0, (-1, h))),
)] + [RIGHT.but(says, given=reading(align)) for says, align in (  # of a mask x with any axes; q is the query
    ("Only masks with four axes are left alone; one with two axes is for all and needs no axis either.",
     lambda x, q: x if x.dim() == 4 else x.unsqueeze(1)),
    ("A mask with two axes gets an axis too; add one only for three axes.", lambda x, q: x.unsqueeze(1)),
    ("An axis is put into masks with four axes; they fit.", lambda x, q: x.unsqueeze(1) if x.dim() > 2 else x),
    ("The axis is put in wherever the first axis is as long as the batch; count the axes.",
     lambda x, q: x.unsqueeze(1) if len(x) == len(q) else x),
    ("A mask per head is cut down to that of head 0.", lambda x, q: aligned(x[:, :1] if x.dim() == 4 else x, q)),
    ("Only masks with three axes are used; those with two or four are ignored.",
     lambda x, q: x[:, None] if x.dim() == 3 else torch.ones_like(x)),
)] + [RIGHT.but(says, answer=wrong) for says, wrong in (
    ("The weights are returned as well; return the output only.", lambda o, w, s, x: (o, w)),
    ("The weights are returned instead of the output.", lambda o, w, s, x: w),
)]  # fmt: skip
MISTAKES += alone(mistakes_of(RIGHT, slips, without=("detached for the mix",)))
MISTAKES += alone([RIGHT.but(
    "The mask comes after the softmax: a hidden key with a large score has taken the weight already.",
    mask=lambda s, x: s, finish=lambda w, x, e=e: w * x.visible / (w * x.visible).sum(-1, keepdim=True).clamp(min=e),
) for e in (0.0, 1e-9)] + [RIGHT.but(says, given=reading(align)) for says, align in (
    ("A causal mask is added to the one that is given.", lambda x, q: aligned(x & torch.ones_like(x).tril(), q)),
    ("All queries get the mask of query 0; each has its own row.", lambda x, q: aligned(x, q)[..., :1, :]),
    ("The rows of the mask are joined; each query has its own row.", lambda x, q: aligned(x, q).any(-2, keepdim=True)),
    ("The samples get each other's masks.", lambda x, q: aligned(x.roll(1, 0) if x.dim() == 3 else x, q)),
    ("The mask is inverted where it has three axes; True = may attend.",
     lambda x, q: ~x[:, None] if x.dim() == 3 else x),
)])  # fmt: skip

EXERCISE = Exercise(
    name="one_mask_per_sample",
    answer="attention_per_sample",
    judge=ByAxes(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
