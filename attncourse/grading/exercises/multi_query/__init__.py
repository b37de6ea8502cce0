"""The exercises on multi-query attention, in the order of their notebook."""

ORDER = (
    "param_count",
    "what_shrinks",
    "multi_query_attention",
    "pseudo_tokens",
    "decode_without_copy",
)
