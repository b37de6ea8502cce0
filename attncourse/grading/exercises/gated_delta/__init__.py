"""The exercises on gates and the delta rule, in the order of their notebook."""

ORDER = ("decay_mask", "delta_step", "overwrite", "repair_decay")
