"""The exercises on attention sinks, in the order of their notebook."""

ORDER = (
    "evict",
    "cache_places",
    "off_by_one",
    "learned_sink",
)
