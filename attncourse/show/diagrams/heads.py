"""Which heads share a key and a value."""

import matplotlib as mpl

from attncourse.show.diagrams.boxes import arrow, blank, box
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure


def head_sharing_diagram(
    num_heads: int = 4, num_kv_heads: tuple[int, ...] = (4, 2, 1), caption: str = ""
) -> Figure:
    """Query heads, key heads and value heads side by side, one panel for each count of key heads.

    An arrow leads from a query head to the key head that it scores; above the key head stands the value
    head that it then mixes.

    Args:
        num_heads: query heads, the same in every panel; up to 8 stay readable.
        num_kv_heads: key heads of each panel, divisors of num_heads; three panels fit.
    """
    if not num_kv_heads or any(g < 1 or num_heads % g for g in num_kv_heads):
        raise ValueError(f"num_kv_heads must be divisors of {num_heads}; got {num_kv_heads}")
    with mpl.rc_context(STYLE):
        canvas, ax = blank(6.6, 2.9)
        for y, name in enumerate(("query", "key", "value")):
            ax.text(-0.5, 2.2 * y + 0.45, f"{name}\nheads", ha="right", va="center", color=INK)
        for panel, g in enumerate(num_kv_heads):
            _draw_sharing(ax, panel * (num_heads + 1.5), num_heads, g)
    alt = f"{len(num_kv_heads)} panels with {num_heads} query heads each. " + " ".join(
        _describe_sharing(num_heads, g) for g in num_kv_heads
    )
    return Figure(canvas, alt, caption)


def _draw_sharing(ax, left: float, num_heads: int, g: int) -> None:
    """One panel: a key head stands above the middle of the query heads that read it."""
    group = num_heads // g
    for h in range(num_heads):
        middle = left + (h // group + 0.5) * group
        box(ax, left + h + 0.1, 0, 0.8, 0.9, f"{h}", ACCENT)
        arrow(ax, (left + h + 0.5, 0.9), (middle, 2.2))
    for k in range(g):
        middle = left + (k + 0.5) * group
        for y in (2.2, 4.4):
            box(ax, middle - 0.4, y, 0.8, 0.9, f"{k}", PALE)
        arrow(ax, (middle, 3.1), (middle, 4.4))
    title = f"{_sharing_name(num_heads, g)}\n{g} key head{'s' * (g > 1)}"
    ax.text(left + num_heads / 2, 5.7, title, ha="center", va="bottom", color=INK)


def _sharing_name(num_heads: int, g: int) -> str:
    return "multi-head" if g == num_heads else "multi-query" if g == 1 else "grouped-query"


def _describe_sharing(num_heads: int, g: int) -> str:
    readers = ", ".join(f"{h // (num_heads // g)}" for h in range(num_heads))
    heads = f"{g} key head{'s' * (g > 1)} and {g} value head{'s' * (g > 1)}"
    return f"{_sharing_name(num_heads, g).capitalize()}: {heads}; the query heads read {readers}."
