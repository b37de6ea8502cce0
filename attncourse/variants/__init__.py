"""One mechanism a file."""
