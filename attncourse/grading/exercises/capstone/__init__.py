"""The exercises of the capstone: a decoder of one's own, from its layers to an explained head."""
