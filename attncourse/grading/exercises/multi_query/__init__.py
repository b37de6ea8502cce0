"""The exercises on multi-query attention."""
