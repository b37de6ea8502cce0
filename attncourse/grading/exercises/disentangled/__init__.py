"""The exercises on disentangled attention, in the order of their notebook."""

ORDER = ("log_bucket",)
