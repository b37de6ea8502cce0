"""Exercise share_the_keys: a layer whose heads keep keys of their own, made to share them."""

import math

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.exercise import Case, Exercise
from attncourse.grading.heads import merge, split
from attncourse.grading.layers_judge import Layers, far_apart

SIZES = (  # special, embed_dim and heads and KV heads, samples and tokens, how loud
    ("", (30, 6, 2), (3, 4), 1),
    ("", (15, 5, 1), (2, 4), 1),
    (", 1 token", (12, 4, 4), (2, 1), 0.5),
    (", scores near 2**27 and -2**27", (4, 4, 2), (1, 5), far_apart),
)


class Right(nn.Module):
    def __init__(self, embed_dim, num_heads, num_kv_heads):
        super().__init__()
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_dim = embed_dim // num_heads
        width = num_kv_heads * self.head_dim
        self.q_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in "qo")
        self.k_proj, self.v_proj = (nn.Linear(embed_dim, width) for _ in "kv")

    def projected(self, x):
        """Queries, keys and values, each with as many heads as it has."""
        projections = self.q_proj, self.k_proj, self.v_proj
        return (split(p(x), p.out_features // self.head_dim) for p in projections)

    def forward(self, x, is_causal=False):
        query, *kv = self.projected(x)
        key, value = (t.repeat_interleave(self.num_heads // self.num_kv_heads, 1) for t in kv)
        scores = query @ key.mT / self.head_dim**0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = (scores.masked_fill(later, -math.inf) if is_causal else scores).softmax(-1)
        return self.out_proj(merge(weights @ value))


class Definition(Right):
    """The loops of the course."""

    def forward(self, x, is_causal=False):
        params = {name: p.double() for name, p in self.named_parameters()}
        x, sizes = x.double(), (self.num_heads, None, is_causal, self.num_kv_heads)
        return spec.multi_head_attention(x, x, x, params, *sizes)[0]


EXERCISE = Exercise(
    name="share_the_keys",
    answer="GroupedLayer",
    judge=Layers(
        Definition,
        "embed_dim num_heads num_kv_heads",
        SIZES,
        drawn=lambda groups, each, dim: (groups * each * dim, groups * each, groups),
        calls=lambda n, seed: [Case(", causal", (), {"is_causal": True}), Case("", ())],
    ),
    right=Right,
    axes=("b t d",),
    asks_for="layer",
)
