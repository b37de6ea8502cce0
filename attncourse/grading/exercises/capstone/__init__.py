"""The exercises of the capstone: a decoder of one's own, from its layers to an explained head."""

# In the order of the notebook.
ORDER = (
    "decoder",
    "write",
    "own_attention",
    "trained",
    "explain_head",
)
