"""The exercises on grouped-query attention, in the order of their notebook."""

ORDER = (
    "who_reads_whom",
    "cache_dial",
    "join_groups",
    "repair_no_softmax",
    "grouped_query_attention",
    "share_the_keys",
    "mean_pool",
    "strided_checkpoint",
)
