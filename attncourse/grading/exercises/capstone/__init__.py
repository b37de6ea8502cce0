"""The exercises of the capstone: a decoder of one's own, from its layers to an explained head."""

ORDER = ("decoder", "write", "own_attention", "trained", "explain_head")  # that of the notebook
