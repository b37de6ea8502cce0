"""Pictures of ideas: boxes and arrows."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

STEPS = ("score", "modify", "mask", "normalize", "mix")


def five_steps(changed: str | None = None, caption: str = "") -> Figure:
    """The five steps as boxes in a row, the one that this chapter changes in colour."""
    if changed is not None and changed not in STEPS:
        raise ValueError(f"changed must be one of {', '.join(STEPS)}; got {changed!r}")
    with mpl.rc_context(STYLE):
        canvas, ax = _blank(6.6, 1.1)
        for k, step in enumerate(STEPS):
            _box(ax, 2 * k, 0, 1.5, 0.9, step, ACCENT if step == changed else PALE)
            if k:
                _arrow(ax, (2 * k - 0.5, 0.45), (2 * k, 0.45))
    which = f"; {changed} is highlighted" if changed else ""
    return Figure(canvas, f"Five boxes in a row: {', '.join(STEPS)}{which}.", caption)


def multi_head_diagram(num_heads: int = 3, caption: str = "") -> Figure:
    """The way of a sequence through multi-head attention: project, split, attend, merge, project."""
    with mpl.rc_context(STYLE):
        canvas, ax = _blank(6.6, 3.4)
        middle = num_heads * 1.2 / 2
        for row, name in ((1.9, "value"), (0, "key"), (-1.9, "query")):
            y = middle + row
            _box(ax, 0, y - 0.45, 1.5, 0.9, name, PALE)
            _box(ax, 2.2, y - 0.45, 1.3, 0.9, f"$W^{name[0].upper()}$", PALE)
            _arrow(ax, (1.5, y), (2.2, y))
            for h in range(num_heads):
                _arrow(ax, (3.5, y), (5.2, h * 1.2 + 0.6))
        for h in range(num_heads):
            _box(ax, 5.2, h * 1.2 + 0.15, 2.6, 0.9, f"attention {num_heads - 1 - h}", ACCENT)
            _arrow(ax, (7.8, h * 1.2 + 0.6), (8.7, middle))
        _box(ax, 8.7, middle - 0.45, 1.6, 0.9, "concat", PALE)
        _box(ax, 11, middle - 0.45, 1.3, 0.9, "$W^O$", PALE)
        _arrow(ax, (10.3, middle), (11, middle))
    alt = (
        f"Query, key and value are each projected by one matrix and cut into {num_heads} heads; "
        f"each head runs its own attention; the {num_heads} outputs are concatenated and "
        f"projected by the output matrix."
    )
    return Figure(canvas, alt, caption)


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
        canvas, ax = _blank(6.6, 2.9)
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
        _box(ax, left + h + 0.1, 0, 0.8, 0.9, f"{h}", ACCENT)
        _arrow(ax, (left + h + 0.5, 0.9), (middle, 2.2))
    for k in range(g):
        middle = left + (k + 0.5) * group
        for y in (2.2, 4.4):
            _box(ax, middle - 0.4, y, 0.8, 0.9, f"{k}", PALE)
        _arrow(ax, (middle, 3.1), (middle, 4.4))
    title = f"{_sharing_name(num_heads, g)}\n{g} key head{'s' * (g > 1)}"
    ax.text(left + num_heads / 2, 5.7, title, ha="center", va="bottom", color=INK)


def _sharing_name(num_heads: int, g: int) -> str:
    return "multi-head" if g == num_heads else "multi-query" if g == 1 else "grouped-query"


def _describe_sharing(num_heads: int, g: int) -> str:
    readers = ", ".join(f"{h // (num_heads // g)}" for h in range(num_heads))
    heads = f"{g} key head{'s' * (g > 1)} and {g} value head{'s' * (g > 1)}"
    return f"{_sharing_name(num_heads, g).capitalize()}: {heads}; the query heads read {readers}."


def _blank(width: float, height: float):
    canvas = Canvas(figsize=(width, height), layout="constrained")
    ax = canvas.subplots()
    ax.set_axis_off()
    return canvas, ax


def _box(ax, x, y, width, height, text, colour):
    ink = "white" if colour == ACCENT else INK
    style = "round,pad=0,rounding_size=0.12"
    ax.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor=INK)
    )
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=ink)
    ax.update_datalim([(x, y), (x + width, y + height)])
    ax.autoscale_view()


def _arrow(ax, start, end):
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=10, color=INK, shrinkA=0, shrinkB=0
        )
    )
