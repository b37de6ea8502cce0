"""The exercises on disentangled attention."""
