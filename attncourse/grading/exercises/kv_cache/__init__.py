"""The exercises on the KV cache."""

# In the order of the notebook.
ORDER = (
    "intensity",
    "kv_bytes",
    "bottom_right_mask",
    "chunked_decode",
    "rotate_cached_keys",
    "append",
)
