"""The exercises on disentangled attention, in the order of their notebook."""

ORDER = (
    "gather_c2p",
    "repair_p2c",
    "term_scale",
    "log_bucket",
)
