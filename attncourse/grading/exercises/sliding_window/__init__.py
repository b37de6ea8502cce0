"""The exercises on sliding windows."""
