"""How a loss goes on where training has stopped, or a token was evicted: curves over the position."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from attncourse.show.figure import INK, STYLE, Figure


def beyond_training(
    panels: list[dict[str, list[float]]],
    positions: list[float],
    trained: int,
    ylabel: str,
    caption: str = "",
) -> Figure:
    """Loss over position, as in `over_position`; a dotted line stands where the training's sequences end."""
    return over_position(panels, positions, {trained: "training ends"}, ylabel, caption)


def over_position(
    panels: list[dict[str, list[float]]],
    positions: list[float],
    events: dict[int, str],
    ylabel: str,
    caption: str = "",
) -> Figure:
    """Curves over the position, in panels below each other with the same axes; every curve carries its name.

    Args:
        panels: curves by name; up to three in a panel stay readable.
        positions: of all points.
        events: what happens at a position, such as "training ends"; a dotted line stands there in all
            panels. The first one's name stands over the first panel, the second one's over the second.
        ylabel: what a curve shows.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(5.4, 2.3 * len(panels) + 0.4), layout="constrained")
        axes = canvas.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for ax, curves in zip(axes, panels, strict=True):
            ends = _apart({name: y[-1] for name, y in curves.items()})
            for (name, y), style in zip(curves.items(), ("-", "--", "-."), strict=False):
                (line,) = ax.plot(positions, y, style, label=name)
                end = (positions[-1], ends[name])
                ax.annotate(name, end, (6, 0), textcoords="offset points", va="center",
                            color=line.get_color(), annotation_clip=False)  # fmt: skip
            for at in events:
                ax.axvline(at, color=INK, linestyle=":", linewidth=1.2)
            ax.set_ylabel(ylabel)
        for k, (at, event) in enumerate(events.items()):
            ax = axes[k % len(axes)]
            ax.text(at, 1.02, f" {event} here", ha="left", va="bottom", color=INK,
                    transform=ax.get_xaxis_transform(), fontsize=10)  # fmt: skip
        axes[-1].set_xlabel("position")
    said = "; ".join(
        f"{name} from {y[0]:.2f} to {y[-1]:.2f}" for curves in panels for name, y in curves.items()
    )
    happens = ", ".join(f"{event} at {at}" for at, event in events.items())
    return Figure(canvas, f"{ylabel} over position, {happens}: {said}.", caption)


def _apart(ends: dict[str, float], least: float = 0.16) -> dict[str, float]:
    """The same heights, moved so that no two are nearer than ``least``."""
    moved, last = {}, -float("inf")
    for name, y in sorted(ends.items(), key=lambda pair: pair[1]):
        last = moved[name] = max(y, last + least)
    return moved
