"""The tiles of a causal pass: which are left out, which are whole, and which need a mask."""

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch, Rectangle

from attncourse.show.figure import ACCENT, INK, STYLE, Figure

BLUE = "#0b5394"


def causal_tiles(
    n: int, rows: int, columns: int, kinds: dict[tuple[int, int], str], caption: str = ""
) -> Figure:
    """A square of n queries and n keys in tiles; which are computed, with or without a mask.

    Args:
        n: positions; rows and columns of a tile divide it.
        kinds: "plain" or "masked" for each tile (row, column) that is computed; the others are left out.
    """
    down, across = n // rows, n // columns
    counts = {kind: list(kinds.values()).count(kind) for kind in ("plain", "masked")}
    left_out = down * across - sum(counts.values())
    looks: dict[str, dict[str, Any]] = {
        "plain": {"facecolor": BLUE},
        "masked": {"facecolor": ACCENT},
        "left out": {"facecolor": "white", "hatch": "////"},
    }
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, 4.0), layout="constrained")
        ax = canvas.subplots()
        for i in range(down):
            for j in range(across):
                look = looks[kinds.get((i, j), "left out")]
                place = (j * columns, i * rows)
                ax.add_patch(Rectangle(place, columns, rows, edgecolor="#9aa0a6", **look))
        ax.plot([0, n], [0, n], color=INK, linewidth=1.2)
        ax.set(xlim=(0, n), ylim=(n, 0), xlabel="key", ylabel="query")
        ax.set_aspect("equal")
        ticks = range(0, n + 1, max(rows, columns))
        ax.set_xticks(list(ticks)[::2])
        ax.set_yticks(list(ticks)[::2])
        names = {
            "plain": f"no mask ({counts['plain']})",
            "masked": f"mask ({counts['masked']})",
            "left out": f"left out ({left_out})",
        }
        handles = [Patch(edgecolor="#9aa0a6", label=names[k], **looks[k]) for k in looks]
        canvas.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False,
                      handlelength=1.2, columnspacing=1.2, fontsize=10)  # fmt: skip
    alt = (
        f"{n} queries by {n} keys in {down} by {across} tiles of {rows} by {columns}: {left_out} above the "
        f"diagonal are left out, {counts['masked']} need a mask, {counts['plain']} need none."
    )
    return Figure(canvas, alt, caption)
