"""The exercises on gates and the delta rule."""
