"""Exercise one_mask_per_sample: a (batch, n, m) mask must not become one mask per head."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec as definitions
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def spec(query, key, value, mask):
    """Each head of a sample uses the mask of its sample, or the one mask for all."""
    batch, heads, n, _ = query.shape
    m = key.size(2)
    full = torch.zeros(batch, heads, n, m, dtype=torch.bool)
    for b in range(batch):
        for h in range(heads):
            full[b, h] = {2: lambda: mask, 3: lambda b=b: mask[b], 4: lambda b=b, h=h: mask[b, h]}[
                mask.dim()
            ]()
    return definitions.scaled_dot_product_attention(query, key, value, full)[0]


def cases(seed: int) -> list[Case]:
    """As many samples as heads, more, fewer, one; masks with two, three and four axes."""
    g = torch.Generator().manual_seed(seed)

    def case(label, b, h, n, m, *mask_axes, e=4, loud=1.0):
        shapes = (b, h, n, 5), (b, h, m, 5), (b, h, m, e)
        mask = torch.rand(*mask_axes, n, m, generator=g) < 0.5
        mask[..., m // 2] = True  # no row is empty
        mask[..., 0, 0], mask[..., 0, 1] = True, False  # and masks are no all-or-nothing
        query, key, value = (torch.randn(s, generator=g) for s in shapes)
        return Case(label, (loud * query, key, value, mask))

    return [
        case("3 samples, 3 heads, one mask per sample", 3, 3, 5, 7, 3),
        case("2 samples, 3 heads, one mask per sample", 2, 3, 5, 7, 2),
        case("3 samples, 1 head, one mask per sample", 3, 1, 4, 4, 3),
        case("1 sample, 2 heads, one mask per sample", 1, 2, 3, 5, 1),
        case("2 samples, 3 heads, one mask for all", 2, 3, 5, 7),
        case("4 samples, 4 heads, 4 queries, one mask for all", 4, 4, 4, 4),
        case("3 samples, 2 heads, one mask per head", 3, 2, 5, 4, 3, 2),
        case("one query, values 1 wide", 2, 3, 1, 5, 2, e=1),
        case("large scores", 2, 2, 4, 6, 2, loud=144.0),
    ]


def attend(query, key, value, mask, fill=-math.inf):
    """Attention as found: the mask is broadcast as it comes."""
    scores = query @ key.mT / math.sqrt(query.size(-1))
    return torch.softmax(scores.masked_fill(~mask, fill), dim=-1) @ value


ACCEPTED = Accepted()


@ACCEPTED.add
def unsqueeze_when_three_axes(query, key, value, mask):
    if mask.dim() == 3:
        mask = mask.unsqueeze(1)
    return attend(query, key, value, mask)


@ACCEPTED.add
def fused(query, key, value, mask):
    mask = mask[:, None] if mask.ndim == 3 else mask
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@ACCEPTED.add
def repeated_for_each_head(query, key, value, mask):
    b, h, n, _ = query.shape
    if mask.dim() == 2:
        mask = mask.expand(b, n, -1)
    if mask.dim() == 3:
        mask = mask.repeat_interleave(h, dim=0).reshape(b, h, n, -1)
    return attend(query, key, value, mask, -1e9)


@ACCEPTED.add
def loop_over_samples(query, key, value, mask):
    masks = mask if mask.dim() > 2 else [mask] * len(query)
    pairs = zip(query, key, value, masks, strict=True)
    return torch.stack([attend(q, k, v, visible) for q, k, v, visible in pairs])


@ACCEPTED.add
def einsum_in_float64(query, key, value, mask):
    query, key, value = query.double(), key.double(), value.double()
    bias = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    bias = bias.view(len(query), 1, *mask.shape[1:]) if mask.dim() == 3 else bias
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / query.size(-1) ** 0.5
    return torch.einsum("bhnm,bhme->bhne", (scores + bias).softmax(-1), value)


MISTAKES = Mistakes()


def per_sample(query, key, value, mask, change):
    """Right for masks with two and four axes; ``change`` makes four of three."""
    return attend(query, key, value, change(mask) if mask.dim() == 3 else mask)


@MISTAKES.add("The (batch, n, m) mask is read as one mask per head; it needs an axis for heads.")
def as_found(query, key, value, mask):
    return attend(query, key, value, mask)


@MISTAKES.add(
    "Only masks with four axes are left alone; one with two axes is for all and needs no axis either."
)
def always_unsqueezed(query, key, value, mask):
    return attend(query, key, value, mask if mask.dim() == 4 else mask.unsqueeze(1))


@MISTAKES.add("A mask with two axes gets an axis too; add one only for three axes.")
def every_mask_unsqueezed(query, key, value, mask):
    return attend(query, key, value, mask.unsqueeze(1))


@MISTAKES.add("An axis is put into masks with four axes as well; they already fit.")
def four_axes_unsqueezed(query, key, value, mask):
    return attend(query, key, value, mask.unsqueeze(1) if mask.dim() > 2 else mask)


@MISTAKES.add(
    "The axis is put in only where the shapes do not fit; with as many samples as heads they fit "
    "and the result is wrong."
)
def only_when_it_fails(query, key, value, mask):
    if mask.dim() == 3 and mask.size(0) not in (1, query.size(1)):
        mask = mask.unsqueeze(1)
    return attend(query, key, value, mask)


@MISTAKES.add("The axis is put in only where there are as many samples as heads.")
def only_when_equal(query, key, value, mask):
    return per_sample(
        query, key, value, mask, lambda x: x[:, None] if len(x) == query.size(1) else x
    )


@MISTAKES.add("The axis stands behind the queries: (batch, n, 1, m); it belongs behind the batch.")
def axis_behind_queries(query, key, value, mask):
    return per_sample(query, key, value, mask, lambda x: x.unsqueeze(2))


@MISTAKES.add("The axis stands behind the keys: (batch, n, m, 1); it belongs behind the batch.")
def axis_behind_keys(query, key, value, mask):
    return per_sample(query, key, value, mask, lambda x: x.unsqueeze(3))


@MISTAKES.add("Every sample gets the mask of the first one.")
def first_mask(query, key, value, mask):
    return per_sample(query, key, value, mask, lambda x: x[0])


@MISTAKES.add(
    "The masks of all samples are joined into one; a pair is visible if any sample allows it."
)
def any_sample(query, key, value, mask):
    return per_sample(query, key, value, mask, lambda x: x.any(0))


@MISTAKES.add(
    "The masks of all samples are joined into one; a pair is visible if all samples allow it."
)
def all_samples(query, key, value, mask):
    return per_sample(query, key, value, mask, lambda x: x.all(0))


@MISTAKES.add(
    "The masks are repeated in the wrong order: repeat gives m0 m1 m0 m1, the heads of one sample "
    "need m0 m0 m1 m1 (repeat_interleave)."
)
def repeated_in_wrong_order(query, key, value, mask):
    h = query.size(1)
    return per_sample(
        query, key, value, mask, lambda x: x.repeat(h, 1, 1).view(-1, h, *x.shape[1:])
    )


@MISTAKES.add("A mask per head is cut down to that of head 0.")
def head_zero(query, key, value, mask):
    return unsqueeze_when_three_axes(query, key, value, mask[:, :1] if mask.dim() == 4 else mask)


@MISTAKES.add("The mask is read the other way round; True = may attend.")
def inverted(query, key, value, mask):
    return unsqueeze_when_three_axes(query, key, value, ~mask)


@MISTAKES.add("The mask is not used.")
def unmasked(query, key, value, mask):
    return attend(query, key, value, torch.ones(1, 1, dtype=torch.bool))


@MISTAKES.add("Only masks with three axes are used; those with two or four are ignored.")
def others_ignored(query, key, value, mask):
    mask = mask[:, None] if mask.dim() == 3 else torch.ones_like(mask)
    return attend(query, key, value, mask)


@MISTAKES.add("The scores are not divided by sqrt(head_dim).")
def unscaled(query, key, value, mask):
    return unsqueeze_when_three_axes(query * math.sqrt(query.size(-1)), key, value, mask)


@MISTAKES.add("The softmax runs over the queries (dim=-2); it runs over the keys.")
def over_queries(query, key, value, mask):
    mask = mask[:, None] if mask.dim() == 3 else mask
    scores = query @ key.mT / math.sqrt(query.size(-1))
    return torch.softmax(scores.masked_fill(~mask, -1e9), dim=-2) @ value


EXERCISE = Exercise(
    name="one_mask_per_sample",
    answer="attention_per_sample",
    title="One mask per sample",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'Where it breaks' of chapter 2",
    judge=Calls(spec, cases),
    hints=(
        "Broadcasting aligns axes from the right. Write (b, n, m) under (b, h, n, m) and look.",
        "A mask with three axes needs a fourth, of size 1, at the place of the heads.",
        "if mask.dim() == 3: mask = mask[:, None]. Masks with two or four axes stay as they are.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
