"""Exercise pseudo_tokens: the layer of document 000 that makes tokens of slices, repaired."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.multi_query._pseudo_tokens_judge import Layers, Projections

ACCEPTED = Accepted()


@ACCEPTED.add
class HeadAxisOfSizeOne(Projections):
    pass


@ACCEPTED.add
class NarrowProjectionOldReshape(Projections):
    def forward(self, x, attn_mask=None):
        shape = len(x), 1, -1, self.head_dim
        k, v = (t.reshape(shape) for t in self.keys_and_values(x))
        k, v = (t.expand(-1, self.num_heads, -1, -1) for t in (k, v))
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


@ACCEPTED.add
class HeadsFoldedIntoQueries(Projections):
    def forward(self, x, attn_mask=None):
        k, v = self.keys_and_values(x)
        mask = None if attn_mask is None else attn_mask.repeat(self.num_heads, 1)
        heads, weights = self.attend(self.queries(x).flatten(1, 2), k, v, mask)
        shape = self.num_heads, x.size(1)
        return self.join(heads.unflatten(1, shape)), weights.unflatten(1, shape)


@ACCEPTED.add
class FusedOutput(Projections):
    def forward(self, x, attn_mask=None):
        q, (k, v) = self.queries(x), self.keys_and_values(x)
        k, v = k.unsqueeze(1), v.unsqueeze(1)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask, enable_gqa=True)
        return self.join(heads), self.attend(q, k, v, attn_mask)[1]


@ACCEPTED.add
class HeadByHead(Projections):
    def forward(self, x, attn_mask=None):
        k, v = F.linear(x, self.kv_proj.weight, self.kv_proj.bias).split(self.head_dim, dim=-1)
        queries = self.q_proj(x).chunk(self.num_heads, dim=-1)
        heads = [self.attend(q, k, v, attn_mask) for q in queries]
        outputs, weights = zip(*heads, strict=True)
        return self.out_proj(torch.cat(outputs, dim=-1)), torch.stack(weights, dim=1)


@ACCEPTED.add
class EinsumInDouble(Projections):
    def forward(self, x, attn_mask=None):
        k, v = (t.double() for t in self.keys_and_values(x))
        s = torch.einsum("bhnd,bmd->bhnm", self.queries(x).double(), k) / math.sqrt(self.head_dim)
        s = s if attn_mask is None else torch.where(attn_mask, s, -1e9)
        heads = torch.einsum("bhnm,bmd->bnhd", s.softmax(-1), v).flatten(2).float()
        return self.out_proj(heads), s.softmax(-1)


MISTAKES = Mistakes()


class Wide(Projections):
    """kv_proj as found: all heads of keys and values."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads, rows=2 * num_heads)

    def slices(self, x):
        """(b, n, h, d) of keys and of values."""
        return (t.unflatten(-1, (self.num_heads, -1)) for t in self.keys_and_values(x))


@MISTAKES.add(
    "This is the code as found: kv_proj is as wide as all heads, and the reshape makes a token of "
    "every slice. One key head is head_dim wide."
)
class AsFound(Wide):
    def forward(self, x, attn_mask=None):
        k, v = (t.flatten(1, 2)[:, None] for t in self.slices(x))
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


@MISTAKES.add(
    "The mask was made wider until it fits the slices; the slices should not be tokens at all."
)
class MaskMadeWider(Wide):
    def forward(self, x, attn_mask=None):
        k, v = (t.flatten(1, 2)[:, None] for t in self.slices(x))
        if attn_mask is not None:
            attn_mask = attn_mask.repeat_interleave(self.num_heads, dim=1)
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


@MISTAKES.add(
    "The weights of the slices are added up, which hides the slices: they are still tokens inside."
)
class SlicesAddedUp(Wide):
    def forward(self, x, attn_mask=None):
        k, v = (t.flatten(1, 2)[:, None] for t in self.slices(x))
        if attn_mask is not None:
            attn_mask = attn_mask.repeat_interleave(self.num_heads, dim=1)
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights.unflatten(-1, (x.size(1), -1)).sum(-1)


@MISTAKES.add(
    "The keys are split into heads: that is multi-head attention. All heads share one key."
)
class MultiHead(Wide):
    def forward(self, x, attn_mask=None):
        k, v = (t.transpose(1, 2) for t in self.slices(x))
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


@MISTAKES.add(
    "kv_proj is as wide as before and only its first slice is used; make kv_proj smaller."
)
class FirstSlice(Wide):
    def forward(self, x, attn_mask=None):
        k, v = (t[:, None, :, 0] for t in self.slices(x))
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


@MISTAKES.add("kv_proj is as wide as before and its slices are averaged; make kv_proj smaller.")
class AveragedSlices(Wide):
    def forward(self, x, attn_mask=None):
        k, v = (t.mean(2)[:, None] for t in self.slices(x))
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


@MISTAKES.add("Key and value have projections of their own; keep one kv_proj that makes both.")
class TwoProjections(Projections):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.k_proj, self.v_proj = (nn.Linear(embed_dim, self.head_dim) for _ in range(2))
        del self.kv_proj

    def keys_and_values(self, x):
        return self.k_proj(x), self.v_proj(x)


@MISTAKES.add("kv_proj holds one head only: it makes a key and a value, so it is two heads wide.")
class OneHeadForBoth(Projections):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads, rows=1)

    def forward(self, x, attn_mask=None):
        shape = len(x), 1, -1, self.head_dim
        k, v = (t.reshape(shape) for t in self.keys_and_values(x))
        heads, weights = self.attend(self.queries(x), k, v, attn_mask)
        return self.join(heads), weights


def wrong(says, rows=2, bias=True, **steps):
    """A mistake that is the right layer with some steps replaced."""

    class Answer(Projections):
        def __init__(self, embed_dim, num_heads):
            super().__init__(embed_dim, num_heads, rows, bias)

    for name, step in steps.items():
        setattr(Answer, name, step)
    MISTAKES.add(says)(Answer)


def shown(change):
    """A forward that returns changed weights beside the right output."""

    def forward(self, x, attn_mask=None):
        output, weights = Projections.forward(self, x, attn_mask)
        return output, change(weights)

    return forward


def masked_by(change):
    return lambda self, x, mask=None: Projections.forward(self, x, change(mask))


def scaled_by(scale):
    return lambda self, q, k, v, mask=None: Projections.attend(self, q, k, v, mask, scale(q))


wrong(
    "One projection serves as key and as value; kv_proj holds both, head_dim numbers each.",
    rows=1,
    keys_and_values=lambda self, x: (self.kv_proj(x), self.kv_proj(x)),
)
wrong(
    "The values are taken first; the first head_dim rows of kv_proj make the key.",
    keys_and_values=lambda self, x: self.kv_proj(x).chunk(2, dim=-1)[::-1],
)
wrong(
    "Keys and values are interleaved; the first head_dim rows of kv_proj make the key.",
    keys_and_values=lambda self, x: (self.kv_proj(x)[..., 0::2], self.kv_proj(x)[..., 1::2]),
)
wrong("kv_proj has lost its bias.", bias=False)
wrong("attn_mask is ignored.", forward=masked_by(lambda mask: None))
wrong(
    "attn_mask is turned around; True means may attend.",
    forward=masked_by(lambda mask: mask if mask is None else ~mask),
)
wrong(
    "attn_mask is taken for a causal one, whatever it says; use its entries.",
    forward=masked_by(lambda mask: mask if mask is None else torch.ones_like(mask).tril()),
)
wrong(
    "attn_mask is turned around in place, which changes the caller's mask.",
    forward=masked_by(lambda mask: mask if mask is None else ~mask.logical_not_()),
)
wrong(
    "attn_mask has no default; the signature is forward(x, attn_mask=None).",
    forward=lambda self, x, attn_mask: Projections.forward(self, x, attn_mask),
)
wrong("The scores are not divided by the square root of head_dim.", attend=scaled_by(lambda q: 1.0))
wrong(
    "The scale uses embed_dim; it is the square root of head_dim.",
    attend=scaled_by(lambda q: (q.size(1) * q.size(-1)) ** -0.5),
)
wrong(
    "The heads are merged without a transpose, so positions mix.",
    join=lambda self, x: self.out_proj(x.reshape(len(x), x.size(2), -1)),
)
wrong("The output projection is missing.", join=lambda self, x: x.transpose(1, 2).flatten(2))
wrong(
    "The query heads ask the same question; only key and value are shared.",
    queries=lambda self, x: Projections.queries(self, x)[:, :1].expand(-1, self.num_heads, -1, -1),
)
wrong(
    "The weights are averaged over the heads; return (batch, num_heads, n, n).",
    forward=shown(lambda weights: weights.mean(1)),
)
wrong(
    "The weights come with the wrong axis order; return (batch, num_heads, n, n).",
    forward=shown(lambda weights: weights.transpose(1, 2)),
)
wrong(
    "Only the output is returned; return (output, weights).",
    forward=lambda self, x, mask=None: Projections.forward(self, x, mask)[0],
)
wrong(
    "The order is (weights, output); return (output, weights).",
    forward=lambda self, x, mask=None: Projections.forward(self, x, mask)[::-1],
)
for says, detached in (
    ("No gradient reaches the rows of the key; keys are detached.", 0),
    ("No gradient reaches the rows of the value; values are detached.", 1),
):
    wrong(says, keys_and_values=lambda self, x, which=detached: [
        t.detach() if k == which else t for k, t in enumerate(self.kv_proj(x).chunk(2, dim=-1))
    ])  # fmt: skip
wrong("No gradient reaches keys and values; they are detached.",
      keys_and_values=lambda self, x: self.kv_proj(x).detach().chunk(2, dim=-1))  # fmt: skip


EXERCISE = Exercise(
    name="pseudo_tokens",
    answer="RepairedAttention",
    title="Slices are not tokens",
    kind="Repair",
    points=2,
    difficulty=3,
    minutes=15,
    needs="section 'What the source documents say' of chapter 5",
    judge=Layers(),
    hints=(
        "How wide is one key head? How wide is what kv_proj makes of it?",
        "The -1 in the reshape counts whatever is there. With kv_proj as wide as two heads, one for the "
        "key and one for the value, it counts the n tokens.",
        "self.kv_proj = torch.nn.Linear(embed_dim, 2 * self.head_dim); the rest may stay.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
