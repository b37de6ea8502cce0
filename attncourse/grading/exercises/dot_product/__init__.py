"""The exercises on the dot product."""
