"""The exercises on FlashAttention, in the order of their notebook."""

ORDER = (
    "online_step",
    "merge_halves",
    "repair_rescaling",
    "numbers_moved",
    "tiled_forward",
    "block_gradients",
)
