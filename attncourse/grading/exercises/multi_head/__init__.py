"""The exercises on multi-head attention."""
