"""The same slip in exercises of every kind: it hears the same sentence."""

from unseen import right, wrong

right("sharpness", 7)
wrong("split_heads", "is `return` missing?", lambda *x: None)
