"""The exercises on the transformer."""
