"""The exercises on FlashAttention for a graphics card."""
