"""Boxes and arrows, which other diagrams are made of; and the five steps."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

STEPS = ("score", "modify", "mask", "normalize", "mix")


def blank(width: float, height: float):
    """An empty canvas of so many inches, and its axes, which are not drawn."""
    canvas = Canvas(figsize=(width, height), layout="constrained")
    ax = canvas.subplots()
    ax.set_axis_off()
    return canvas, ax


def box(ax, x, y, width, height, text, colour, fontsize=None):
    """A box with round corners whose lower left one is at (x, y), and a text in its middle."""
    ink = "white" if colour == ACCENT else INK
    style = "round,pad=0,rounding_size=0.12"
    ax.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor=INK)
    )
    ax.text(
        x + width / 2, y + height / 2, text, ha="center", va="center", color=ink, fontsize=fontsize
    )
    ax.update_datalim([(x, y), (x + width, y + height)])
    ax.autoscale_view()


def arrow(ax, start, end):
    """An arrow from one point to another."""
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=10, color=INK, shrinkA=0, shrinkB=0
        )
    )


def five_steps(changed: str | None = None, caption: str = "") -> Figure:
    """The five steps as boxes in a row, the one that this chapter changes in colour."""
    if changed is not None and changed not in STEPS:
        raise ValueError(f"changed must be one of {', '.join(STEPS)}; got {changed!r}")
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.6, 0.7)  # a phone shows it without making it smaller
        for k, step in enumerate(STEPS):
            box(ax, 2 * k, 0, 1.7, 0.9, step, ACCENT if step == changed else PALE, 9.5)
            if k:
                arrow(ax, (2 * k - 0.3, 0.45), (2 * k, 0.45))
    which = f"; {changed} is highlighted" if changed else ""
    return Figure(canvas, f"Five boxes in a row: {', '.join(STEPS)}{which}.", caption)
