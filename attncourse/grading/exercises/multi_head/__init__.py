"""The exercises on multi-head attention, in the order of their notebook."""

ORDER = (
    "count_parameters",
    "split_heads",
    "merge_heads",
    "multi_head_attention",
    "head_dim",
    "honest_plot",
    "train_reversal",
)
