"""Exercise share_the_keys: a layer groups its heads, and every head keeps keys and values of its own."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistakes
from attncourse.grading.exercises.grouped_query._noticed import GroupedLayers
from attncourse.grading.exercises.grouped_query._sharing import apart, averaged, sharing
from attncourse.grading.layers_judge import LayerRecipe, far_apart, merge, split
from attncourse.grading.mistakes import (
    dots,
    gradients,
    heads,
    masks,
    mistakes_of,
    mixes,
    outputs,
    rules,
    scales,
    softmaxes,
)
from attncourse.grading.recipe import Given
from attncourse.grading.slips import alone

SIZES = (
    ("", (30, 6, 2), (3, 4), 1), ("", (15, 5, 1), (2, 4), 1), (", 1 token", (12, 4, 4), (2, 1), 0.5),
    (", large scores", (12, 4, 2), (1, 4), 12),
    (", scores near 2**27 and -2**27", (4, 4, 2), (1, 5), far_apart),
)  # fmt: skip


def parts(layer, embed_dim, num_heads, num_kv_heads, of=lambda H, G: (H, G, G, H), biases="qkvo"):
    """``of`` gives the heads of the four projections."""
    layer.num_heads, layer.num_kv_heads = num_heads, num_kv_heads
    layer.head_dim = embed_dim // num_heads
    *inner, outer = (count * layer.head_dim for count in of(num_heads, num_kv_heads))
    for name, width in zip("qkv", inner, strict=True):
        layer.add_module(f"{name}_proj", torch.nn.Linear(embed_dim, width, name in biases))
    layer.out_proj = torch.nn.Linear(outer, embed_dim, "o" in biases)


def projected(layer, x):
    """Queries, keys and values, however many heads each has."""
    projections = layer.q_proj, layer.k_proj, layer.v_proj
    return (split(p(x), p.out_features // layer.head_dim) for p in projections)


def repeated(x, layer):
    return x.repeat_interleave(layer.num_heads // x.size(1), 1)


def given(layer, x, is_causal=False, project=projected, kv=repeated):
    q, k, v = project(layer, x)
    visible = 0 if is_causal else None
    return Given(repeated(q, layer), kv(k, layer), kv(v, layer), visible, rest=layer)


RIGHT = LayerRecipe(given, answer=lambda o, w, s, x: x.rest.out_proj(merge(o)), parts=parts)


class Definition(RIGHT.layer):
    """The loops of the course."""

    def forward(self, x, is_causal=False):
        params = {name: p.double() for name, p in self.named_parameters()}
        x, sizes = x.double(), (self.num_heads, None, is_causal, self.num_kv_heads)
        return spec.multi_head_attention(x, x, x, params, *sizes)[0]


JUDGE = GroupedLayers(
    Definition, "embed_dim num_heads num_kv_heads", SIZES, drawn=lambda g, r, d: (g * r * d, g * r, g),
    calls=lambda n, seed: [Case(", causal", (), {"is_causal": True}), Case("", ())],
)  # fmt: skip
ACCEPTED = Accepted(RepeatedKeys=RIGHT.layer)


@ACCEPTED.add
class FusedAndGrouped(RIGHT.layer):
    def forward(self, x, is_causal=False):
        q, k, v = projected(self, x)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
        return self.out_proj(merge(heads))


@ACCEPTED.add
class GroupAxisInDouble(RIGHT.layer):
    def forward(self, x, is_causal=False):
        q, k, v = (t.double() for t in projected(self, x))
        q = q.unflatten(1, (self.num_kv_heads, -1))
        s = torch.einsum("bgrnd,bgmd->bgrnm", q, k) / q.size(-1) ** 0.5
        if is_causal:
            s = torch.where(torch.ones(s.shape[-2:]).tril() > 0, s, -1e9)
        heads = torch.einsum("bgrnm,bgme->bngre", s.softmax(-1), v)
        return self.out_proj(heads.flatten(2).float())


@ACCEPTED.add
class HeadByHead(RIGHT.layer):
    def forward(self, x, is_causal=False):
        d, projections = self.head_dim, (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (p(x).split(d, dim=-1) for p in projections)
        r, one = len(q) // len(k), partial(F.scaled_dot_product_attention, is_causal=is_causal)
        return self.out_proj(torch.cat([one(q[h], k[h // r], v[h // r]) for h in range(len(q))], -1))  # fmt: skip


@ACCEPTED.add
class RowsOfTheMatricesRepeated(RIGHT.layer):
    """The matrices are widened when they are used; what is stored stays narrow."""

    def forward(self, x, is_causal=False):
        def wide(p):
            parts = (t.unflatten(0, (1, -1, self.head_dim)) for t in (p.weight, p.bias))
            w, b = (repeated(t, self).flatten(0, 2) for t in parts)
            return split(F.linear(x, w, b), self.num_heads)

        q, k, v = (wide(p) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT / self.head_dim**0.5
        if is_causal:
            scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
        return self.out_proj(merge(scores.softmax(-1) @ v))


def wide(kv):
    """k_proj and v_proj make all heads, of which ``kv(heads, G)`` makes G again."""
    few = RIGHT.reads(kv=lambda x, layer: repeated(kv(x, layer.num_kv_heads), layer))
    return RIGHT.stores(of=lambda H, G: (H, H, H, H)) | few


def returned(change):
    """``change`` makes the output of (heads, layer)."""
    return {"answer": lambda o, w, s, x: change(o, x.rest)}


MISTAKES = Mistakes(mistakes_of(
    RIGHT, scales, rules, partial(sharing, count=lambda x: x.rest.num_kv_heads), without=(
        "scaled by values", "scaled by queries", "top left", "bottom right", "square mask",
        "one output a group, averaged", "one output a group, added"),
))  # fmt: skip
MISTAKES += alone(mistakes_of(RIGHT, dots, softmaxes, mixes, outputs, gradients, heads, masks, without=(
    "mask unused", "output averaged", "output added", "positions first", "heads merged", "squeezed",
)))  # fmt: skip
STILL = "k_proj and v_proj still make H heads, {}. Make the projections narrower.".format
MISTAKES += alone([RIGHT.but(says, **steps) for says, steps in (
    ("This is the code as found: k_proj and v_proj make H heads, so nothing is shared. They must make G heads.",
     RIGHT.stores(of=lambda H, G: (H, H, H, H))),
    (STILL("and only the first G of them are used"), wide(lambda x, g: x[:, :g])),
    (STILL("and one head of each group is used"), wide(lambda x, g: apart(x, g)[:, :, 0])),
    (STILL("which are averaged within a group"), wide(averaged)),
    ("The values still have H heads; v_proj must make G heads too.", RIGHT.stores(of=lambda H, G: (H, G, H, H))),
    ("The keys still have H heads; k_proj must make G heads too.", RIGHT.stores(of=lambda H, G: (H, H, G, H))),
    ("num_kv_heads is taken for the size of a group: k_proj and v_proj make H / G heads. They must make G.",
     RIGHT.stores(of=lambda H, G: (H, H // G, H // G, H))),
    ("k_proj and v_proj make a single head, whatever num_kv_heads says; they must make G.",
     RIGHT.stores(of=lambda H, G: (H, 1, 1, H))),
    ("The queries were made narrow too: q_proj must keep all H heads.", RIGHT.stores(of=lambda H, G: (G, G, G, H))),
    ("One output is left for each group, and out_proj is narrower; all H heads belong into the output.",
     RIGHT.stores(of=lambda H, G: (H, G, G, G))
     | returned(lambda o, layer: layer.out_proj(merge(apart(o, layer.num_kv_heads).mean(2))))),
    ("k_proj and v_proj have lost their biases.", RIGHT.stores(biases="qo")),
    ("All four projections have lost their biases.", RIGHT.stores(biases="")),
    ("The heads of keys and values are interleaved: head g is rows g * head_dim and following.",
     RIGHT.reads(project=lambda layer, x: (split(layer.q_proj(x), layer.num_heads), *(
         split(p(x), layer.head_dim).transpose(1, 3) for p in (layer.k_proj, layer.v_proj))))),
    ("k_proj and v_proj make G heads, but forward still splits their outputs into H.",
     RIGHT.reads(project=lambda layer, x: (
         split(p(x), layer.num_heads) for p in (layer.q_proj, layer.k_proj, layer.v_proj)))),
    ("The heads are split without a transpose, so each head holds several positions.",
     RIGHT.reads(project=lambda layer, x: (
         t.transpose(1, 2).reshape(len(x), -1, x.size(1), layer.head_dim) for t in projected(layer, x)))),
    ("Keys and values are detached, so k_proj and v_proj do not learn.",
     RIGHT.reads(kv=lambda x, layer: repeated(x.detach(), layer))),
    ("x is detached, so nothing before this layer can learn.",
     RIGHT.reads(project=lambda layer, x: projected(layer, x.detach()))),
    ("The layer is causal even when it should not be: is_causal is False unless it is given.",
     {"given": lambda layer, x, is_causal=False: given(layer, x, True)}),
    ("is_causal is turned around: True means that position i reads positions 0 to i.",
     {"given": lambda layer, x, is_causal=False: given(layer, x, not is_causal)}),
    ("The scale uses the width of k_proj; it is the square root of head_dim, the width of one head.",
     {"scale": lambda x: x.rest.k_proj.out_features**-0.5}),
    ("The groups still stand before the positions when the heads are joined, so positions mix.",
     returned(lambda o, layer: layer.out_proj(
         apart(o, layer.num_kv_heads).transpose(2, 3).reshape(len(o), o.size(2), -1)))),
    ("The heads are joined without a transpose, so positions mix.",
     returned(lambda o, layer: layer.out_proj(o.reshape(len(o), o.size(2), -1)))),
    ("The output projection is missing.", returned(lambda o, layer: merge(o))),
    ("The bias of out_proj is not added.", returned(lambda o, layer: F.linear(merge(o), layer.out_proj.weight))),
    ("The weight of out_proj is used transposed.",
     returned(lambda o, layer: F.linear(merge(o), layer.out_proj.weight.mT, layer.out_proj.bias))),
    ("out_proj is applied twice.", returned(lambda o, layer: layer.out_proj(layer.out_proj(merge(o))))),
    ("Something is added to what out_proj returns, namely its input; this layer has no residual.",
     returned(lambda o, layer: layer.out_proj(merge(o)) + merge(o))),
    ("Negative outputs are cut off; nothing follows out_proj.", returned(lambda o, layer: layer.out_proj(merge(o)).relu())),
    ("The heads are interleaved in the output: their features take turns. Head h owns features h * head_dim and following.",
     returned(lambda o, layer: layer.out_proj(o.permute(0, 2, 3, 1).flatten(2)))),
    ("Heads are split into features that take turns; head h owns features h * head_dim and following.",
     RIGHT.reads(project=lambda layer, x: (
         p(x).unflatten(-1, (layer.head_dim, -1)).permute(0, 3, 1, 2)
         for p in (layer.q_proj, layer.k_proj, layer.v_proj)))),
    ("The heads are returned apart; merge them and apply out_proj.", returned(lambda o, layer: o)),
    ("A tuple is returned; return the output alone.", returned(lambda o, layer: (layer.out_proj(merge(o)), None))),
)])  # fmt: skip

EXERCISE = Exercise(
    name="share_the_keys", answer="GroupedLayer", judge=JUDGE, accepted=ACCEPTED, mistakes=MISTAKES
)
