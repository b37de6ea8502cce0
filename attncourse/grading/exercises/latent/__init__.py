"""The exercises on latent attention, in the order of their notebook."""

ORDER = (
    "cache_bytes",
    "absorb_query",
    "absorbed_attention",
    "repair_rotary",
    "crossover",
)
