"""attncourse: reference implementations of attention, and the tools of the course around them.

`attention` is five steps, and every variant replaces one of them. The figures are in
`attncourse.plots` and the checks of the exercises in `attncourse.grading`; neither is imported here.
"""

from attncourse import cost, masks, models, scores, spec, steps, tasks, train
from attncourse.heads import (
    CausalSelfAttention,
    CrossAttention,
    MultiHeadAttention,
    SelfAttention,
    merge_heads,
    split_heads,
)
from attncourse.models import AttentionOnly, Translator
from attncourse.steps import attention, scaled_dot_product_attention
from attncourse.variants.flash import flash_attention

__version__ = "0.1.0"

__all__ = [
    "AttentionOnly",
    "CausalSelfAttention",
    "CrossAttention",
    "MultiHeadAttention",
    "SelfAttention",
    "Translator",
    "attention",
    "cost",
    "flash_attention",
    "masks",
    "merge_heads",
    "models",
    "scaled_dot_product_attention",
    "scores",
    "spec",
    "split_heads",
    "steps",
    "tasks",
    "train",
]
