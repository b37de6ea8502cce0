"""The exercises on masks."""

# In the order of the notebook.
ORDER = (
    "causal_mask",
    "decoder_mask",
    "empty_row",
    "mask_polarity",
    "one_mask_per_sample",
    "find_the_leak",
    "leaking_loss",
)
