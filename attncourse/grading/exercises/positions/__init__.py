"""The exercises on positions."""

# In the order of the notebook.
ORDER = (
    "sinusoid",
    "t5_bucket",
    "rotary_step",
    "repair_positions",
    "extrapolation",
)
