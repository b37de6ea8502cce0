"""The exercises on FlashAttention."""
