"""The exercises on the dot product."""

# In the order of the notebook.
ORDER = (
    "sharpness",
    "kernel_regression",
    "scaled_dot_product_attention",
    "score_std",
    "softmax_jacobian",
)
