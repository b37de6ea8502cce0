"""The exercises on windows with global tokens."""
