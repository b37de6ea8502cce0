"""What the axes of tensors are called, by the letters of annotations, einsums and formulas."""

AXES = {
    "b": "sample", "h": "head", "g": "KV head", "n": "query", "m": "key", "t": "token",
    "d": "feature", "e": "feature", "w": "feature", "i": "row", "j": "column", "c": "column",
    "p": "position", "r": "row", "l": "layer", "k": "part", "u": "pair", "x": "entry",
}  # fmt: skip


def words(letter: str) -> tuple[str, str]:
    """A place on the axis of this letter, and several of them: ``("query", "queries")``."""
    one = AXES.get(letter, letter)
    return one, f"{one[:-1]}ies" if one.endswith("ry") else f"{one}s"
