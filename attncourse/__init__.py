"""attncourse: reference implementations of attention, and the tools of the course around them.

`attention` is five steps, and every variant replaces one of them. The figures are in
`attncourse.show` and the checks of the exercises in `attncourse.grading`; neither is imported here.
"""

from attncourse import cost, lab, masks, positions, scores, spec, steps
from attncourse.cache import KVCache, cached_attention, decode
from attncourse.factory import ATTENTION_TYPES, get_attention
from attncourse.lab.models import AttentionOnly, Translator
from attncourse.layers import (
    CausalSelfAttention,
    CrossAttention,
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    SelfAttention,
    group_kv_heads,
    merge_heads,
    split_heads,
)
from attncourse.positions import rotary, sinusoidal
from attncourse.steps import attention, scaled_dot_product_attention
from attncourse.variants.bigbird import (
    BigBirdAttention,
    bigbird_attention,
    bigbird_mask,
    bigbird_plan,
)
from attncourse.variants.delta import DeltaAttention, GatedDeltaAttention, delta_rule
from attncourse.variants.differential import DifferentialAttention, differential_attention
from attncourse.variants.dilated import DilatedAttention
from attncourse.variants.disentangled import (
    DisentangledAttention,
    disentangled_attention,
)
from attncourse.variants.document_bias import DocumentBiasAttention
from attncourse.variants.flash import flash_attention
from attncourse.variants.gated import GatedLinearAttention, gated_linear_attention
from attncourse.variants.latent import LatentAttention
from attncourse.variants.linear import LinearAttention, LinearCache, linear_attention
from attncourse.variants.longformer import LongformerAttention, longformer_attention
from attncourse.variants.multi_token import MultiTokenAttention, convolve, multi_token_attention
from attncourse.variants.rolling import RollingKVCache
from attncourse.variants.sinks import (
    GatedAttention,
    SinkAttention,
    sink_attention,
    softmax_off_by_one,
    softmax_with_sink,
)
from attncourse.variants.streaming import SinkCache, streaming_attention
from attncourse.variants.talking_heads import TalkingHeadsAttention, talking_heads_attention
from attncourse.variants.window import SlidingWindowAttention, sliding_window_attention

# The only place: pyproject.toml and the first cell of the notebooks read it here.
__version__ = "0.7.0"

__all__ = [
    "ATTENTION_TYPES",
    "AttentionOnly",
    "BigBirdAttention",
    "CausalSelfAttention",
    "CrossAttention",
    "DeltaAttention",
    "DifferentialAttention",
    "DilatedAttention",
    "DisentangledAttention",
    "DocumentBiasAttention",
    "GatedAttention",
    "GatedDeltaAttention",
    "GatedLinearAttention",
    "GroupedQueryAttention",
    "KVCache",
    "LatentAttention",
    "LinearAttention",
    "LinearCache",
    "LongformerAttention",
    "MultiHeadAttention",
    "MultiQueryAttention",
    "MultiTokenAttention",
    "RollingKVCache",
    "SelfAttention",
    "SinkAttention",
    "SinkCache",
    "SlidingWindowAttention",
    "TalkingHeadsAttention",
    "Translator",
    "attention",
    "bigbird_attention",
    "bigbird_mask",
    "bigbird_plan",
    "cached_attention",
    "convolve",
    "cost",
    "decode",
    "delta_rule",
    "differential_attention",
    "disentangled_attention",
    "flash_attention",
    "gated_linear_attention",
    "get_attention",
    "group_kv_heads",
    "lab",
    "linear_attention",
    "longformer_attention",
    "masks",
    "merge_heads",
    "multi_token_attention",
    "positions",
    "rotary",
    "scaled_dot_product_attention",
    "scores",
    "sink_attention",
    "sinusoidal",
    "sliding_window_attention",
    "softmax_off_by_one",
    "softmax_with_sink",
    "spec",
    "split_heads",
    "steps",
    "streaming_attention",
    "talking_heads_attention",
]
