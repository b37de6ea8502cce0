"""The exercises on grouped-query attention."""
