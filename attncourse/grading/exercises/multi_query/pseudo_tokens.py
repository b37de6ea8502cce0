"""Exercise pseudo_tokens: a layer that makes tokens of slices of its keys and values, repaired."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Case, Exercise, Mistake
from attncourse.grading.heads import merge, split
from attncourse.grading.layers_judge import Layers, draw, far_apart

SIZES = (  # special, embed_dim and num_heads, samples and tokens, how loud
    ("", (20, 4), (3, 6), 1),
    ("", (10, 2), (1, 4), 0.5),
    ("", (6, 1), (2, 4), 1),
    (", scores near 2**27 and -2**27", (4, 4), (1, 5), far_apart),
)


class Right(torch.nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj = torch.nn.Linear(embed_dim, embed_dim)
        self.kv_proj = torch.nn.Linear(embed_dim, 2 * self.head_dim)
        self.out_proj = torch.nn.Linear(embed_dim, embed_dim)

    def halves(self, x):
        return self.kv_proj(x)[:, None].chunk(2, dim=-1)

    def forward(self, x, attn_mask=None):
        query, (key, value) = split(self.q_proj(x), self.num_heads), self.halves(x)
        scores = query @ key.mT / self.head_dim**0.5
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        weights = scores.softmax(-1)
        return self.out_proj(merge(weights @ value)), weights


class Exchanged(Right):
    def halves(self, x):
        return super().halves(x)[::-1]


class Definition(Right):
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
        Case(", causal", (), {"attn_mask": torch.ones(n, n, dtype=torch.bool).tril()}),
        Case(", no mask", ()),
    ]


EXERCISE = Exercise(
    name="pseudo_tokens",
    answer="RepairedAttention",
    judge=Layers(Definition, "embed_dim num_heads", SIZES, lambda h, _, d: (h * d, h), calls),
    right=Right,
    axes=("b n d", "b h n m"),
    results=("the output", "the weights"),
    asks_for="layer",
    ideas=[
        Mistake("The values are taken first; the first head_dim rows of kv_proj make the key.",
                Exchanged),
    ],
)  # fmt: skip
