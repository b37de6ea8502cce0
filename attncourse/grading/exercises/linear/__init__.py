"""The exercises on linear attention, in the order of their notebook."""

ORDER = (
    "causal_state",
    "repair_normalizer",
)
