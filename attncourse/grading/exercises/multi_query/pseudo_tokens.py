"""Exercise pseudo_tokens: a layer that makes tokens of slices of its keys and values, repaired."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import difference
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistakes
from attncourse.grading.layers_judge import LayerRecipe, Layers, draw, far_apart, merge, split
from attncourse.grading.mistakes import (
    dots,
    gradients,
    heads,
    masks,
    mistakes_of,
    mixes,
    outputs,
    scales,
    softmaxes,
    weights,
)
from attncourse.grading.noticing import shaped, weights_of
from attncourse.grading.recipe import Given, triangle
from attncourse.grading.slips import alone
from attncourse.grading.symptoms import symptom

SIZES = (
    ("", (20, 4), (3, 6), 1), ("", (10, 2), (1, 4), 0.5), ("", (6, 1), (2, 4), 1),
    (", large scores", (15, 5), (1, 4), 12), (", scores near 2**27 and -2**27", (4, 4), (1, 5), far_apart),
)  # fmt: skip


def parts(layer, embed_dim, num_heads, width=lambda h: 2, names=("kv_proj",), bias=True):
    """``width`` gives the heads of keys and values together."""
    layer.num_heads, layer.head_dim = num_heads, embed_dim // num_heads
    layer.q_proj = torch.nn.Linear(embed_dim, embed_dim)
    for name in names:
        out = width(num_heads) * layer.head_dim // len(names)
        layer.add_module(name, torch.nn.Linear(embed_dim, out, bias))
    layer.out_proj = torch.nn.Linear(embed_dim, embed_dim)


def halves(layer, x):
    return layer.kv_proj(x).chunk(2, dim=-1)


def given(layer, x, attn_mask=None, kv=halves, mask=lambda m, heads: m, query=lambda q: q):
    q, (k, v) = query(split(layer.q_proj(x), layer.num_heads)), kv(layer, x)
    visible = None if attn_mask is None else mask(attn_mask, layer.num_heads)
    k, v = (t if t.dim() == 4 else t[:, None] for t in (k, v))
    return Given(q, k, v, visible, rest=layer)


def answer(output, weights, scores, x):
    return x.rest.out_proj(merge(output)), weights


RIGHT = LayerRecipe(given, answer=answer, parts=parts)


class Definition(RIGHT.layer):
    """The loops of the course, with one key/value head."""

    def forward(self, x, attn_mask=None):
        params = {name: p.double() for name, p in self.named_parameters()}
        for part in ("weight", "bias"):
            k, v = params[f"kv_proj.{part}"].chunk(2)
            params |= {f"k_proj.{part}": k, f"v_proj.{part}": v}
        x = x.double()
        return spec.multi_head_attention(x, x, x, params, self.num_heads, attn_mask, num_kv_heads=1)


def calls(n, seed):
    pattern = (draw("mask", (n, n), seed, str(n)) > 0) | torch.eye(n, dtype=torch.bool)
    return [
        Case(", a mask", (pattern,)),
        Case(", causal", (), {"attn_mask": triangle(n, n, 0)}),
        Case(", no mask", ()),
    ]


@dataclass(frozen=True)
class Told(Layers):
    """Layers that tell which of (output, weights) is wrong, and how."""

    def notice(self, expected, seen, seed: int) -> str:
        if says := symptom(expected, seen):
            return says
        stored = [what for what in expected if what.endswith("parameters") or ", shape of " in what]
        if any(what in seen and difference(expected[what], seen[what]) for what in stored):
            return (
                "The layer stores other numbers than it should; look at what the constructor makes."
            )
        for what, right in expected.items():
            if (
                isinstance(right, tuple)
                and shaped(right, seen.get(what))
                and difference(right, seen[what])
            ):
                return weights_of("outputs")(None, right, seen[what])
        return ""


ACCEPTED = Accepted(HeadAxisOfSizeOne=RIGHT.layer)


@ACCEPTED.add
class NarrowProjectionOldReshape(RIGHT.layer):
    def forward(self, x, attn_mask=None):
        k, v = (t.reshape(len(x), 1, -1, self.head_dim) for t in self.kv_proj(x).chunk(2, dim=-1))
        k, v = (t.expand(-1, self.num_heads, -1, -1) for t in (k, v))
        scores = split(self.q_proj(x), self.num_heads) @ k.transpose(2, 3) / self.head_dim**0.5
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


@ACCEPTED.add
class HeadsFoldedIntoQueries(RIGHT.layer):
    def forward(self, x, attn_mask=None):
        k, v = self.kv_proj(x).chunk(2, dim=-1)
        rows = split(self.q_proj(x), self.num_heads).flatten(1, 2) * self.head_dim**-0.5
        hidden = ~torch.ones(x.size(1), x.size(1)).bool() if attn_mask is None else ~attn_mask
        weights = (rows @ k.mT).masked_fill(hidden.repeat(self.num_heads, 1), -1e9).softmax(-1)
        shape = self.num_heads, x.size(1)
        return self.out_proj(merge((weights @ v).unflatten(1, shape))), weights.unflatten(1, shape)


@ACCEPTED.add
class FusedOutput(RIGHT.layer):
    def forward(self, x, attn_mask=None):
        q, (k, v) = split(self.q_proj(x), self.num_heads), halves(self, x)
        eye = torch.eye(x.size(1)).expand(len(x), 1, -1, -1)
        mixed, weights = (
            F.scaled_dot_product_attention(q, k[:, None], values, attn_mask, enable_gqa=True)
            for values in (v[:, None], eye)
        )
        return self.out_proj(merge(mixed)), weights


@ACCEPTED.add
class HeadByHead(RIGHT.layer):
    def forward(self, x, attn_mask=None):
        k, v = F.linear(x, self.kv_proj.weight, self.kv_proj.bias).split(self.head_dim, dim=-1)
        tables = []
        for q in self.q_proj(x).chunk(self.num_heads, dim=-1):
            scores = q @ k.mT / math.sqrt(q.size(-1))
            scores = scores if attn_mask is None else scores + torch.log(attn_mask.float())
            tables.append(scores.softmax(-1))
        return self.out_proj(torch.cat([w @ v for w in tables], dim=-1)), torch.stack(tables, dim=1)


@ACCEPTED.add
class EinsumInDouble(RIGHT.layer):
    def forward(self, x, attn_mask=None):
        q, (k, v) = split(self.q_proj(x), self.num_heads), halves(self, x)
        s = torch.einsum("bhnd,bmd->bhnm", q.double(), k.double()) / math.sqrt(self.head_dim)
        s = s if attn_mask is None else torch.where(attn_mask, s, -1e9)
        heads = torch.einsum("bhnm,bmd->bnhd", s.softmax(-1), v.double()).flatten(2).float()
        return self.out_proj(heads), s.softmax(-1)


def returned(change):
    """``change`` makes what is returned of (heads, weights, layer)."""
    return {"answer": lambda o, w, s, x: change(o, w, x.rest)}


def wide(slices, **changed):
    """kv_proj as found, with all heads of keys and values: (b, n, heads, head_dim) -> keys or values."""
    return RIGHT.stores(width=lambda h: 2 * h) | RIGHT.reads(
        kv=lambda layer, x: [
            slices(t.unflatten(-1, (layer.num_heads, -1))) for t in halves(layer, x)
        ],
        **changed,
    )


TOKENS = wide(lambda t: t.flatten(1, 2))
MADE_WIDER = wide(
    lambda t: t.flatten(1, 2), mask=lambda m, heads: m.repeat_interleave(heads, dim=1)
)
MISTAKES = Mistakes([
    *mistakes_of(RIGHT, scales, softmaxes, masks, without=("scaled by values", "scaled by queries")),
    *alone(mistakes_of(RIGHT, dots, mixes, outputs, gradients, heads, weights, without=(
        "weights returned detached", "output averaged", "output added", "positions first", "heads merged", "squeezed"))),
])  # fmt: skip
MISTAKES += alone(RIGHT.but(says, **steps) for says, steps in (
    ("This is the code as found: kv_proj is as wide as all heads, and the reshape makes a token of every slice. "
     "One KV head is head_dim wide.", TOKENS),
    ("The mask was made wider until it fits the slices; the slices should not be tokens at all.", MADE_WIDER),
    ("The weights of the slices are added up, which hides the slices: they are still tokens inside.",
     MADE_WIDER | returned(lambda o, w, layer: (layer.out_proj(merge(o)), w.unflatten(-1, (w.size(2), -1)).sum(-1)))),
    ("The keys are split into heads: that is multi-head attention. All heads share one key.",
     wide(lambda t: t.transpose(1, 2))),
    ("kv_proj is as wide as before and only its first slice is used; make kv_proj smaller.", wide(lambda t: t[:, :, 0])),
    ("kv_proj is as wide as before and its slices are averaged; make kv_proj smaller.", wide(lambda t: t.mean(2))),
    ("Key and value have projections of their own; keep one kv_proj that makes both.",
     RIGHT.stores(width=lambda h: 2, names=("k_proj", "v_proj")) | RIGHT.reads(kv=lambda layer, x: (layer.k_proj(x), layer.v_proj(x)))),
    ("kv_proj holds one head only: it makes a key and a value, so it is two heads wide.",
     RIGHT.stores(width=lambda h: 1) | RIGHT.reads(kv=lambda layer, x: (t.reshape(len(x), -1, layer.head_dim) for t in halves(layer, x)))),
    ("One projection serves as key and as value; kv_proj holds both, head_dim numbers each.",
     RIGHT.stores(width=lambda h: 1) | RIGHT.reads(kv=lambda layer, x: (layer.kv_proj(x), layer.kv_proj(x)))),
    ("kv_proj has lost its bias.", RIGHT.stores(width=lambda h: 2, bias=False)),
    ("The values are taken first; the first head_dim rows of kv_proj make the key.",
     RIGHT.reads(kv=lambda layer, x: halves(layer, x)[::-1])),
    ("Keys and values are interleaved; the first head_dim rows of kv_proj make the key.",
     RIGHT.reads(kv=lambda layer, x: (layer.kv_proj(x)[..., 0::2], layer.kv_proj(x)[..., 1::2]))),
    ("No gradient reaches keys and values; they are detached.",
     RIGHT.reads(kv=lambda layer, x: (t.detach() for t in halves(layer, x)))),
    ("attn_mask is taken for a causal one, whatever it says; use its entries.",
     RIGHT.reads(mask=lambda m, heads: torch.ones_like(m).tril())),
    ("attn_mask is not read: the layer is always causal.", {"given": lambda layer, x, attn_mask=None: given(
        layer, x, triangle(x.size(1), x.size(1), 0))}),
    ("attn_mask is turned around in place, which changes the caller's mask.",
     RIGHT.reads(mask=lambda m, heads: ~m.logical_not_())),
    ("attn_mask is transposed; its rows are queries.", RIGHT.reads(mask=lambda m, heads: m.T)),
    ("The heads of the queries are cut out by a reshape, which mixes positions; split the width, then transpose.",
     RIGHT.reads(query=lambda q: q.transpose(1, 2).reshape(q.shape))),
    ("All samples read the keys and values of sample 0.",
     RIGHT.reads(kv=lambda layer, x: (t[:1].expand_as(t) for t in halves(layer, x)))),
    ("attn_mask has no default; the signature is forward(x, attn_mask=None).",
     {"given": lambda layer, x, attn_mask: given(layer, x, attn_mask)}),
    ("The returned weights are those without the mask; return those that made the output.",
     {"answer": lambda o, w, s, x: answer(o, (x.query @ x.key.mT * x.width**-0.5).softmax(-1), s, x)}),
    ("The heads are merged without a transpose, so positions mix.",
     returned(lambda o, w, layer: (layer.out_proj(o.reshape(len(o), o.size(2), -1)), w))),
    ("The output projection is missing.", returned(lambda o, w, layer: (merge(o), w))),
    ("The weights come with the wrong axis order; return (batch, num_heads, n, n).",
     returned(lambda o, w, layer: (layer.out_proj(merge(o)), w.transpose(1, 2)))),
))  # fmt: skip

EXERCISE = Exercise(
    name="pseudo_tokens",
    answer="RepairedAttention",
    judge=Told(Definition, "embed_dim num_heads", SIZES, lambda h, _, d: (h * d, h), calls),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
