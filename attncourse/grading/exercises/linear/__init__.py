"""The exercises on linear attention, in the order of their notebook."""

ORDER = (
    "positive_features",
    "causal_state",
    "repair_normalizer",
    "chunked",
    "repair_global",
    "continue_state",
)
