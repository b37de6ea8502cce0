"""The exercises on FlashAttention for a graphics card, in the order of their notebook."""

ORDER = (
    "skipped_tiles",
    "repair_edge",
    "attention_tile",
    "tile_limits",
)
