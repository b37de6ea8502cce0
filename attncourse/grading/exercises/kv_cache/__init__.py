"""The exercises on the KV cache."""
