"""The exercises on sequences that are split across machines, in the order of their notebook."""

ORDER = (
    "merge_parts",
    "zigzag_schedule",
    "hidden_sending",
)
