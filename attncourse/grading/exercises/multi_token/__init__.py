"""The exercises on multi-token attention and its relatives, in the order of their notebook."""

ORDER = (
    "convolve_scores",
    "repair_leak",
    "kernel_by_hand",
    "differential_step",
    "count_multi_token",
)
