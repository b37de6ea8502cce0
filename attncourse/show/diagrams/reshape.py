"""How a width is cut into heads: the numbers that move, and the way of each slice through a layer."""

import matplotlib as mpl
from matplotlib.patches import Rectangle

from attncourse.show.diagrams.boxes import arrow, blank, box
from attncourse.show.figure import INK, PALE, STYLE, Figure

TINTS = ("#cfe3f5", "#fbdcc0", "#d3ebd6", "#e6d8ef")  # one for each head, pale enough to write on


def heads_diagram(
    positions: int = 3, head_dim: int = 2, cut: bool = True, caption: str = ""
) -> Figure:
    """A table of numbers that tell their place, and the tables of two heads that are made of it.

    21 is position 2, component 1. The colour is that of the head which a number belongs to.

    Args:
        positions, head_dim: rows of the table, and columns of each head.
        cut: cut the columns and move the heads to the front; or, with ``False``, only reshape.
    """
    width = 2 * head_dim
    numbers = [10 * i + d for i in range(positions) for d in range(width)]
    size = positions * head_dim
    heads = [numbers[:size], numbers[size:]]
    if cut:
        heads = [[x for x in numbers if x % 10 // head_dim == h] for h in range(2)]
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.4, 0.52 * (2 * positions + 2.6))
        top = 2 * positions + 1.2
        _table(
            ax,
            0,
            top - (positions + 1.2) / 2,
            numbers,
            width,
            head_dim,
            "x: a row for\neach position",
        )
        _ways(ax, width + 0.3, positions + 0.4, cut)
        for h in range(2):
            y = top - h * (positions + 1.2)
            _table(ax, width + 2.6, y, heads[h], head_dim, head_dim, f"head {h}")
        ax.set_aspect("equal")
    how = "cut by columns" if cut else "reshaped without a transpose"
    alt = f"A table of {positions} rows and {width} columns, {how}: " + "; ".join(
        f"head {h} holds {', '.join(map(str, heads[h]))}" for h in range(2)
    )
    return Figure(canvas, alt + ".", caption)


def _ways(ax, left: float, y: float, cut: bool) -> None:
    """The arrow to the heads and, when they were cut, the arrow back."""
    arrow(ax, (left, y), (left + 2, y))
    ax.text(
        left + 1,
        y + 0.15,
        "cut,\ntranspose" if cut else "reshape",
        ha="center",
        va="bottom",
        color=INK,
    )
    if cut:
        arrow(ax, (left + 2, y - 0.4), (left, y - 0.4))
        ax.text(left + 1, y - 0.55, "transpose,\nmerge", ha="center", va="top", color=INK)


def _table(ax, left, top, numbers, columns, head_dim, title):
    """Numbers in rows, coloured by the head that their last digit belongs to."""
    for k, number in enumerate(numbers):
        x, y = left + k % columns, top - 1 - k // columns
        tint = TINTS[number % 10 // head_dim]
        ax.add_patch(Rectangle((x, y), 1, 1, facecolor=tint, edgecolor=INK, linewidth=0.8))
        ax.text(x + 0.5, y + 0.5, str(number), ha="center", va="center", color=INK)
    ax.update_datalim([(left, top - len(numbers) // columns), (left + columns, top + 1)])
    ax.autoscale_view()
    ax.text(left + columns / 2, top + 0.12, title, ha="center", va="bottom", color=INK)


def multi_head_diagram(num_heads: int = 3, caption: str = "") -> Figure:
    """One sequence on its way through multi-head attention: each head has a slice of the width."""
    if not 1 <= num_heads <= len(TINTS):
        raise ValueError(f"num_heads must be 1 to {len(TINTS)}; got {num_heads}")
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.4, 4.9)
        wide, middle = 3 * num_heads, 1.5 * num_heads
        box(ax, 0, 10.4, wide, 0.9, "x, one row for each token", PALE)
        arrow(ax, (middle, 10.4), (middle, 9.4))
        ax.text(middle + 0.3, 9.9, "times $W^Q, W^K, W^V$", va="center", color=INK)
        for h in range(num_heads):
            _lane(ax, 3 * h, h)
        arrow(ax, (middle, 2.6), (middle, 1.6))
        ax.text(middle + 0.3, 2.1, "times $W^O$", va="center", color=INK)
        box(ax, 0, 0.7, wide, 0.9, "output, one row for each token", PALE)
    alt = (
        f"From top to bottom: x is multiplied by three matrices; query, key and value are cut into "
        f"{num_heads} slices; in each slice a head attends with its own map; the {num_heads} results are put side by "
        f"side and multiplied by the output matrix."
    )
    return Figure(canvas, alt, caption)


def _lane(ax, left: float, head: int) -> None:
    """The way of one slice: queries, keys and values, a map, a result."""
    tint, middle = TINTS[head], left + 1.5
    box(ax, left, 7.5, 3, 1.9, f"slice {head} of\nq, k and v", tint)
    arrow(ax, (middle, 7.5), (middle, 6.6))
    box(ax, left + 0.25, 4.4, 2.5, 2.2, f"head {head}:\nits own map,\nits own mix", tint)
    arrow(ax, (middle, 4.4), (middle, 3.5))
    box(ax, left, 2.6, 3, 0.9, f"result {head}", tint)
