"""The exercises on windows with global tokens, in the order of their notebook."""

ORDER = (
    "global_rule",
    "layers_needed",
    "repair_plan",
    "pairs_read",
)
