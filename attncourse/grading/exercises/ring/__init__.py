"""The exercises on sequences that are split across machines."""
