"""The exercises on the dot product, in the order of their notebook."""

ORDER = (
    "sharpness",
    "kernel_regression",
    "scaled_dot_product_attention",
    "score_std",
    "softmax_jacobian",
)
