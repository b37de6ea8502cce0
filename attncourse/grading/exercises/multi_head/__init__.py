"""The exercises on multi-head attention."""

# In the order of the notebook.
ORDER = (
    "count_parameters",
    "split_heads",
    "merge_heads",
    "multi_head_attention",
    "head_dim",
    "honest_plot",
    "train_reversal",
)
