"""attncourse: reference implementations of attention, and the tools of the course around them.

`attention` is five steps, and every variant replaces one of them. Here are the steps, what fits into them, the
layers, the cache, what they cost, and every variant by its name. The rest is in modules of its own: one mechanism a
file in `attncourse.variants`, models and training in `attncourse.lab`, figures in `attncourse.show`, the checks of
the exercises in `attncourse.grading`.
"""

from attncourse import cost, masks, positions, scores, spec, steps
from attncourse.cache import KVCache, cached_attention
from attncourse.decoding import decode, new_cache
from attncourse.factory import ATTENTION_TYPES, get_attention
from attncourse.layers import (
    CausalSelfAttention,
    CrossAttention,
    MultiHeadAttention,
    SelfAttention,
    merge_heads,
    split_heads,
)
from attncourse.positions import rotary, sinusoidal
from attncourse.shared_heads import GroupedQueryAttention, MultiQueryAttention, group_kv_heads
from attncourse.steps import attention, scaled_dot_product_attention

# The only place: pyproject.toml and the first cell of the notebooks read it here.
__version__ = "0.8.0"

__all__ = [
    "ATTENTION_TYPES",
    "CausalSelfAttention",
    "CrossAttention",
    "GroupedQueryAttention",
    "KVCache",
    "MultiHeadAttention",
    "MultiQueryAttention",
    "SelfAttention",
    "attention",
    "cached_attention",
    "cost",
    "decode",
    "get_attention",
    "group_kv_heads",
    "masks",
    "merge_heads",
    "new_cache",
    "positions",
    "rotary",
    "scaled_dot_product_attention",
    "scores",
    "sinusoidal",
    "spec",
    "split_heads",
    "steps",
]
