"""Three matrices, multiplied in two orders: what stands in between is drawn to scale."""

import matplotlib as mpl
from matplotlib.patches import Rectangle

from attncourse.show.diagrams.boxes import blank
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

SIGN = 1.4  # units between two matrices


def two_orders(n: int, d: int, caption: str = "") -> Figure:
    """(Q K^T) V above, Q (K^T V) below; the product in the brackets is in colour.

    Args:
        n: tokens, the long side of a matrix.
        d: width of queries, keys and values, the short one.
    """
    q, k, v, out = ("Q", n, d), ("Kᵀ", d, n), ("V", n, d), ("output", n, d)
    table, state = ("QKᵀ", n, n), ("KᵀV", d, d)
    rows = {
        "first every query with every key, then the values": (q, "×", k, "=", table, "×", v, "=", out),
        "first every key with its value, then the queries": (k, "×", v, "=", state, ",  ", q, "×", state, "=", out),
    }  # fmt: skip
    width = max(sum(_room(x) for x in row) for row in rows.values())
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.4, 4.4 * (2 * n + 7.8) / width)
        for number, (title, row) in enumerate(rows.items()):
            middle, x = -number * (n + 4.1), 0.0
            ax.text(
                0, middle + n / 2 + 1.5, title, ha="left", va="bottom", color=INK, fontsize=10.5
            )
            for part in row:
                _part(ax, part, x, middle, part in (table, state))
                x += _room(part)
        ax.set(xlim=(-0.2, width + 0.2), ylim=(-1.5 * n - 4.3, n / 2 + 3.1))
    alt = (
        f"{n} tokens of width {d}. Above, Q times K transposed is a table of {n} by {n}, {n * n} numbers, "
        f"which then meets V. Below, K transposed times V is a table of {d} by {d}, {d * d} numbers, which Q reads."
    )
    return Figure(canvas, alt, caption)


def _room(part) -> float:
    return SIGN if isinstance(part, str) else part[2]


def _part(ax, part, x: float, middle: float, between: bool) -> None:
    """A sign, or a matrix (name, rows, columns) around the line ``middle``."""
    if isinstance(part, str):
        ax.text(x + SIGN / 2, middle, part, ha="center", va="center", color=INK, fontsize=12)
        return
    name, rows, columns = part
    place = (x, middle - rows / 2)
    ax.add_patch(Rectangle(place, columns, rows, fc=ACCENT if between else PALE, ec=INK, lw=0.9))
    inside = columns * rows > 30
    at = middle if inside else middle + rows / 2 + 0.15
    ink = "white" if between and inside else INK
    ax.text(x + columns / 2, at, name, ha="center", va="center" if inside else "bottom", color=ink, fontsize=9.5)  # fmt: skip
