"""The exercises on attention sinks."""
