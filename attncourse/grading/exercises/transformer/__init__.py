"""The exercises on the transformer."""

# In the order of the notebook.
ORDER = (
    "residual_block",
    "cross_attention_mask",
    "causal_decoder",
    "repair_block",
    "train_forecaster",
)
