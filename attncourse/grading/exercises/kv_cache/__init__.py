"""The exercises on the KV cache, in the order of their notebook."""

ORDER = (
    "intensity",
    "kv_bytes",
    "bottom_right_mask",
    "chunked_decode",
    "rotate_cached_keys",
    "append",
)
