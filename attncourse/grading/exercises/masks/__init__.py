"""The exercises on masks, in the order of their notebook."""

ORDER = (
    "causal_mask",
    "decoder_mask",
    "empty_row",
    "mask_polarity",
    "one_mask_per_sample",
    "find_the_leak",
    "leaking_loss",
)
