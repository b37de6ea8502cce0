"""The exercises on linear attention."""
