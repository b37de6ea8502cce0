"""The exercises on latent attention."""

# In the order of the notebook.
ORDER = (
    "cache_bytes",
    "absorb_query",
    "absorbed_attention",
    "repair_rotary",
    "crossover",
)
