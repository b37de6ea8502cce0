"""The exercises on multi-query attention."""

# In the order of the notebook.
ORDER = (
    "param_count",
    "what_shrinks",
    "multi_query_attention",
    "pseudo_tokens",
    "decode_without_copy",
)
