"""How far information travels in a stack of windows: who can have heard of whom, and where accuracy ends."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from attncourse.show.figure import ACCENT, INK, STYLE, Figure

BLUE, GRID = "#0b5394", "#b9bfc6"


def receptive_field(layers: int, left: int, n: int, caption: str = "") -> Figure:
    """Positions as dots, a row for each layer; lines from the last position down to all that it depends on."""
    reach = [min(layer * left, n - 1) for layer in range(layers + 1)]
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, 0.75 * layers + 0.9), layout="constrained")
        ax = canvas.subplots()
        for layer in range(1, layers + 1):
            for i in range(n - 1 - reach[layers - layer], n):
                for j in range(max(i - left, 0), i + 1):
                    ax.plot([i, j], [layer, layer - 1], color=ACCENT, linewidth=0.9, zorder=1)
        for layer in range(layers + 1):
            first = n - 1 - reach[layers - layer]
            for i in range(n):
                colour = BLUE if i >= first else "white"
                ax.scatter(i, layer, s=46, color=colour, edgecolor=INK, linewidth=0.9, zorder=2)
        names = ["tokens", *(f"layer {layer}" for layer in range(layers))]
        ax.set_yticks(range(layers + 1), names)
        every = 1 if n <= 16 else 4
        ax.set_xticks(range(0, n, every))
        ax.set(xlabel="position", xlim=(-0.6, n - 0.4), ylim=(-0.45, layers + 0.45))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    alt = (
        f"{n} positions in {layers} layers, each reading itself and {left} before it. Behind the output at position "
        f"{n - 1} stand {', '.join(str(r + 1) for r in reach[1:])} positions of the layers below, from the "
        f"top: in the end all from {n - 1 - reach[-1]} on."
    )
    return Figure(canvas, alt, caption)


def cliff(
    accuracy: dict[str, list[float]],
    reaches: list[int],
    chance: float,
    xlabel: str,
    caption: str = "",
) -> Figure:
    """Accuracy at every position, a panel for each model, with a line where its reach ends.

    Args:
        accuracy: by the model's name, one number for each position.
        reaches: the last position from which each model can see position 0.
        chance: accuracy of a guess.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, 1.15 * len(accuracy) + 0.6), layout="constrained")
        axes = canvas.subplots(len(accuracy), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for ax, (name, y), reach in zip(axes, accuracy.items(), reaches, strict=True):
            at = range(len(y))
            ax.bar(at, y, 1.0, color=BLUE, edgecolor="white", linewidth=0.4)
            ax.axhline(chance, color=INK, linestyle=":", linewidth=1, zorder=3)
            ax.axvline(reach + 0.5, color=ACCENT, linewidth=2)
            ax.text(reach + 1, 0.86, f"{reach}", color=ACCENT, fontsize=11, va="center")
            ax.set_title(name, fontsize=11, loc="left")
            ax.set(ylim=(0, 1.05), xlim=(-0.7, len(y) - 0.3), yticks=[0, 1])
        axes[-1].set_xlabel(xlabel)
        axes[len(axes) // 2].set_ylabel("accuracy")
    said = []
    for (name, y), reach in zip(accuracy.items(), reaches, strict=True):
        far = (
            f"{max(y[reach + 1 :]):.2f} at most after it" if reach + 1 < len(y) else "none after it"
        )
        said.append(f"{name}: at least {min(y[: reach + 1]):.2f} up to position {reach}, {far}")
    return Figure(canvas, f"Bars of accuracy over position. {'; '.join(said)}.", caption)
