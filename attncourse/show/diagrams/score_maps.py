"""Scores before the softmax, which may be below 0: several maps on one scale, with 0 in white."""

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from torch import Tensor

from attncourse.show.figure import INK, STYLE, Figure

AROUND_ZERO = LinearSegmentedColormap.from_list("around_zero", ["#0b5394", "#ffffff", "#b85000"])


def score_maps(
    maps: dict[str, Tensor],
    labels: list[str] | None = None,
    marked: Tensor | None = None,
    columns: int = 2,
    caption: str = "",
) -> Figure:
    """Maps of scores (n, m): orange above 0, blue below, and the strongest colour is the same number in all.

    Args:
        maps: by title; rows ask, columns answer.
        labels: of rows and columns, for example the tokens; about six positions where absent.
        marked: bool (n, m), these cells get a frame: where the largest score of a row should be.
        columns: maps in a row.

    Raises:
        ValueError: maps that are not all of one shape (n, m).
    """
    maps = {title: x.detach().float().cpu() for title, x in maps.items()}
    shapes = {tuple(x.shape) for x in maps.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise ValueError(f"expected maps of one shape (n, m); got {sorted(shapes)}")
    most = max(x.abs().max().item() for x in maps.values())
    rows = -(-len(maps) // columns)
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.4, 2.35 * rows + 0.5), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False)
        for ax in axes.flat[len(maps) :]:
            ax.set_axis_off()
        for ax, (title, x) in zip(axes.flat, maps.items(), strict=False):
            shown = ax.imshow(x.numpy(), cmap=AROUND_ZERO, vmin=-most, vmax=most)
            ax.set_title(title, fontsize=10.5, color=INK)
            _name(ax, labels, *x.shape)
            for i, j in [] if marked is None else marked.nonzero().tolist():
                frame = Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=INK)
                ax.add_patch(frame)
        bar = canvas.colorbar(shown, ax=axes, location="bottom", shrink=0.7, aspect=30, pad=0.03)
        bar.set_label("score (rows ask, columns answer)", fontsize=10)
        bar.ax.tick_params(labelsize=9)
    alt = " ".join(_told(title, x, marked) for title, x in maps.items())
    return Figure(canvas, alt, caption)


def _name(ax, labels: list[str] | None, n: int, m: int) -> None:
    """The tokens on both sides, or a few positions."""
    for axis, count in ((ax.xaxis, m), (ax.yaxis, n)):
        at = range(count) if labels is not None else range(0, count, -(-count // 6))
        axis.set_ticks(at, [labels[k] if labels is not None else str(k) for k in at])
    ax.tick_params(labelsize=8.5, length=0, pad=2)


def _told(title: str, x: Tensor, marked: Tensor | None) -> str:
    text = f"{title}: scores of {x.size(0)} queries by {x.size(1)} keys from {x.min():.1f} to {x.max():.1f}"
    if marked is None:
        return f"{text}."
    asked = marked.any(-1)
    right = marked.gather(1, x.argmax(-1, keepdim=True))[asked].sum().item()
    return f"{text}; the largest of a row is in its frame in {right} of {int(asked.sum())} rows."
