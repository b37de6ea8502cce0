"""Exercise pseudo_tokens: a layer that makes tokens of slices of its keys and values, repaired."""

import torch

from attncourse import spec
from attncourse.grading.exercise import Case, Exercise, Given
from attncourse.grading.layer_recipe import LayerRecipe, merge, split
from attncourse.grading.layers_judge import Layers, draw, far_apart
from attncourse.grading.recipe import triangle

SIZES = (  # special, embed_dim and num_heads, samples and tokens, how loud
    ("", (20, 4), (3, 6), 1),
    ("", (10, 2), (1, 4), 0.5),
    ("", (6, 1), (2, 4), 1),
    (", large scores", (15, 5), (1, 4), 12),
    (", scores near 2**27 and -2**27", (4, 4), (1, 5), far_apart),
)


def parts(layer, embed_dim, num_heads):
    layer.num_heads, layer.head_dim = num_heads, embed_dim // num_heads
    layer.q_proj = torch.nn.Linear(embed_dim, embed_dim)
    layer.kv_proj = torch.nn.Linear(embed_dim, 2 * layer.head_dim)
    layer.out_proj = torch.nn.Linear(embed_dim, embed_dim)


def halves(layer, x):
    return layer.kv_proj(x).chunk(2, dim=-1)


def given(layer, x, attn_mask=None, kv=halves):
    k, v = (t[:, None] for t in kv(layer, x))
    return Given(split(layer.q_proj(x), layer.num_heads), k, v, attn_mask, rest=layer)


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


EXERCISE = Exercise(
    name="pseudo_tokens",
    answer="RepairedAttention",
    judge=Layers(Definition, "embed_dim num_heads", SIZES, lambda h, _, d: (h * d, h), calls),
    right=RIGHT,
    axes=("b n d", "b h n m"),
    results=("the output", "the weights"),
    asks_for="layer",
    measures=("gradients", "parameters"),
    ideas=[
        RIGHT.but("The values are taken first; the first head_dim rows of kv_proj make the key.",
                  **RIGHT.reads(kv=lambda layer, x: halves(layer, x)[::-1])),
    ],
)  # fmt: skip
