"""Samples, and curves that are drawn through them."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from torch import Tensor

from attncourse.show.figure import ACCENT, INK, STYLE, Figure


def samples(
    at: Tensor,
    found: Tensor,
    curves: dict[str, tuple[Tensor, Tensor]],
    asked: float,
    weights: Tensor,
    caption: str = "",
) -> Figure:
    """Points, and curves that estimate what lies between them.

    Args:
        at, found: (m,), where each sample was taken and what was measured there.
        curves: ``curves[name]`` is (x, y).
        asked: one place; a line stands there.
        weights: (m,), how loudly each sample answers there; the larger its point.
    """
    sizes = 12 + 260 * weights / weights.max()
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 3.3), layout="constrained")
        ax = canvas.subplots()
        ax.axvline(asked, color="#9aa0a6", linewidth=1)
        ax.text(asked, 1.02, "q", transform=ax.get_xaxis_transform(), ha="center", color=ACCENT)
        ax.scatter(at, found, s=sizes, facecolor="none", edgecolor=INK, linewidth=0.9, zorder=3)
        for (name, (x, y)), style in zip(curves.items(), ("-", "--", "-.", ":"), strict=False):
            ax.plot(x, y, style, label=name)
        ax.set(xlabel="where it was measured (key)", ylabel="what was measured (value)")
        ax.legend(frameon=False, fontsize=9.5)
    loudest = weights.max().item()
    alt = (
        f"{len(at)} samples and the curves {', '.join(curves)}. For a query at {asked:g} the loudest "
        f"sample has {loudest:.0%} of the weight."
    )
    return Figure(canvas, alt, caption)
