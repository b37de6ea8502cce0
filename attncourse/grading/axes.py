"""What the axes of tensors are called, by the letters of annotations, einsums and formulas."""

from torch import Tensor

AXES = {
    "b": "sample", "h": "head", "g": "KV head", "n": "query", "m": "key", "t": "token",
    "d": "feature", "e": "feature", "w": "feature", "i": "row", "j": "column", "c": "column",
    "p": "position", "r": "row", "l": "layer", "k": "part", "u": "pair", "x": "entry",
    "s": "step", "q": "query piece", "y": "key piece",
}  # fmt: skip


def words(letter: str) -> tuple[str, str]:
    """A place on the axis of this letter, and several of them: ``("query", "queries")``."""
    if letter not in AXES:
        return f"place on {letter}", f"places on {letter}"
    one = AXES[letter]
    return one, f"{one[:-1]}ies" if one.endswith("ry") else f"{one}s"


def apart(wrong: Tensor, letters: list[str]) -> str:
    """Along which axes only some places are wrong, and which: ``"head 2; tokens 5, 6"``, or ''."""
    bad = [wrong.movedim(k, 0).flatten(1).any(1) for k in range(wrong.dim())]
    found = zip(letters, bad, strict=True)
    return "; ".join(at(x, *b.nonzero().flatten().tolist()) for x, b in found if not b.all())


def at(letter: str, *places: int) -> str:
    """``"query 3"``, or ``"place 3 on axis 0"`` where the axis has no name; six places at most."""
    listed = ", ".join(map(str, places[:6])) + " ..." * (len(places) > 6)
    what = words(letter)[len(places) > 1]
    return f"{what} {listed}" if letter in AXES else what.replace(" ", f" {listed} ", 1)
