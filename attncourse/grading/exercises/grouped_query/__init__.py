"""The exercises on grouped-query attention."""

# In the order of the notebook.
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
