"""The definitions as literal Python loops: slow, obvious, and sharing no code with the rest.

Every fast function of the course is held to one of these, outputs and gradients, in float64.

- `attncourse.spec.dense`: attention and its layers, positions, the causal mask and padding, the transformer.
- `attncourse.spec.sparse`: windows, global tokens, blocks, sinks and gates: attention that reads fewer keys.
- `attncourse.spec.scores`: caps and biases, disentangled, multi-token and differential attention.
- `attncourse.spec.linear`: attention without a softmax, and the states behind it.
"""

# ruff: noqa: F401, every name can be had from here

from attncourse.spec.dense import (
    affine,
    causal,
    grouped_query_attention,
    latent_attention,
    layer_norm,
    merge_heads,
    multi_head_attention,
    padding,
    rotary,
    scaled_dot_product_attention,
    sinusoidal,
    softmax,
    split_heads,
    transformer_layer,
)
from attncourse.spec.linear import (
    elu_plus_one,
    linear_attention,
    state_space,
)
from attncourse.spec.scores import (
    alibi,
    convolve,
    differential_attention,
    disentangled_attention,
    document_bias,
    log_bucket,
    mix_heads,
    multi_token_attention,
    relative_bias,
    softcap,
    t5_bucket,
    table_row,
)
from attncourse.spec.sparse import (
    bigbird_mask,
    dilated,
    gated_attention,
    global_tokens,
    hops,
    longformer_attention,
    longformer_layer,
    longformer_mask,
    sink_attention,
    sliding_window,
    streaming_attention,
)
