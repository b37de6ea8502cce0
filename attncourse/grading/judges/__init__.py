"""Judges that are too long to stand beside the answers they judge."""
