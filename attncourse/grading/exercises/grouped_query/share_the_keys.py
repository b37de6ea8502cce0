"""Exercise share_the_keys: a layer groups its heads, and every head keeps keys of its own."""

from torch import nn

from attncourse import spec
from attncourse.grading.exercise import Case, Exercise, Given
from attncourse.grading.layer_recipe import LayerRecipe, merge, split
from attncourse.grading.layers_judge import Layers, far_apart

SIZES = (  # special, embed_dim and heads and KV heads, samples and tokens, how loud
    ("", (30, 6, 2), (3, 4), 1),
    ("", (15, 5, 1), (2, 4), 1),
    (", 1 token", (12, 4, 4), (2, 1), 0.5),
    (", large scores", (12, 4, 2), (1, 4), 12),
    (", scores near 2**27 and -2**27", (4, 4, 2), (1, 5), far_apart),
)


def parts(layer, embed_dim, num_heads, num_kv_heads):
    layer.num_heads, layer.num_kv_heads = num_heads, num_kv_heads
    layer.head_dim = embed_dim // num_heads
    layer.q_proj, layer.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in "qo")
    width = num_kv_heads * layer.head_dim
    layer.k_proj, layer.v_proj = (nn.Linear(embed_dim, width) for _ in "kv")


def projected(layer, x):
    """Queries, keys and values, however many heads each has."""
    projections = layer.q_proj, layer.k_proj, layer.v_proj
    return (split(p(x), p.out_features // layer.head_dim) for p in projections)


def repeated(x, layer):
    return x.repeat_interleave(layer.num_heads // x.size(1), 1)


def given(layer, x, is_causal=False):
    q, *kv = projected(layer, x)
    return Given(q, *(repeated(t, layer) for t in kv), 0 if is_causal else None, rest=layer)


RIGHT = LayerRecipe(given, answer=lambda o, w, s, x: x.rest.out_proj(merge(o)), parts=parts)


class Definition(RIGHT.layer):
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
        drawn=lambda g, r, d: (g * r * d, g * r, g),
        calls=lambda n, seed: [Case(", causal", (), {"is_causal": True}), Case("", ())],
    ),
    right=RIGHT,
    axes=("b t d",),
    asks_for="layer",
    measures=("gradients", "parameters"),
)
