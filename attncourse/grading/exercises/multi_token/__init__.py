"""The exercises on multi-token attention and its relatives."""
