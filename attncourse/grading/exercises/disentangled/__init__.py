"""The exercises on disentangled attention, in the order of their notebook."""

ORDER = (
    "beta",
    "toeplitz_test",
    "gather_c2p",
    "repair_p2c",
    "term_scale",
    "log_bucket",
    "longer",
)
