"""Programs that tests of FlashAttention start: kernels compiled for other cards, the ring in processes."""
