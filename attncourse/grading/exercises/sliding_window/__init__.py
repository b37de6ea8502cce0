"""The exercises on sliding windows."""

# In the order of the notebook.
ORDER = (
    "windowed_scores",
    "odd_window",
    "linear_window",
    "receptive_field",
    "rolling_cache",
)
