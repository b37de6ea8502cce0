"""Repeated measurements side by side: a row each, a dot for every run."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from attncourse.show.figure import ACCENT, INK, STYLE, Figure


def strips(
    runs: dict[str, list[float]], *, xlabel: str, marked: str = "", caption: str = ""
) -> Figure:
    """A row of dots for each name, with a line through their spread; the order is that of the means.

    Args:
        runs: by name, the number of each run.
        marked: a name whose row is in colour, to compare the others with.
    """
    names = sorted(runs, key=lambda name: sum(runs[name]) / len(runs[name]))
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, 0.7 + 0.27 * len(names)), layout="constrained")
        ax = canvas.subplots()
        for row, name in enumerate(names):
            colour = ACCENT if name == marked else INK
            ax.plot([min(runs[name]), max(runs[name])], [row, row], color=colour, linewidth=1)
            ax.plot(runs[name], [row] * len(runs[name]), "o", color=colour, markersize=5)
        ax.set_yticks(range(len(names)), names, fontsize=10)
        ax.set(xlabel=xlabel, ylim=(len(names) - 0.5, -0.5))
        ax.grid(axis="x", color="#d0d7de", linewidth=0.6)
    said = ", ".join(f"{x} {min(runs[x]):.3g} to {max(runs[x]):.3g}" for x in names)
    return Figure(canvas, f"Rows of dots: {xlabel}. {said}.", caption)
