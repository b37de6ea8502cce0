"""A table with a row for each head and a column for each measure."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from torch import Tensor

from attncourse.show.figure import INK, STYLE, Figure


def head_table(measures: dict[str, Tensor], even: dict[str, float], caption: str = "") -> Figure:
    """Shares of weight of every head as numbers on a colour; the last row is an even spread.

    Args:
        measures: name of a column, and shares (layers, heads).
        even: what a head that spreads its weight evenly would have in that column.
    """
    names = list(measures)
    layers, heads = next(iter(measures.values())).shape
    rows = [f"{layer}.{head}" for layer in range(layers) for head in range(heads)] + ["even"]
    shares = [
        [*measures[name].flatten().tolist(), even[name]] for name in names
    ]  # a list for each column
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 0.21 * len(rows) + 0.6), layout="constrained")
        ax = canvas.subplots()
        ax.imshow(list(zip(*shares, strict=True)), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for k, column in enumerate(shares):
            for row, share in enumerate(column):
                ink = "white" if share < 0.5 else INK
                ax.text(k, row, f"{share:.2f}", ha="center", va="center", color=ink, fontsize=10)
        ax.set_xticks(range(len(names)), names, fontsize=10)
        ax.set_yticks(range(len(rows)), rows, fontsize=9)
        ax.set_ylabel("layer.head")
        ax.xaxis.tick_top()
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        for layer in range(1, layers + 1):
            ax.axhline(layer * heads - 0.5, color="white", linewidth=3)
    best = "; ".join(_best(name, x, even[name]) for name, x in measures.items())
    alt = f"Shares of weight of {layers * heads} heads. Largest of each column: {best}."
    return Figure(canvas, alt, caption)


def _best(name: str, shares: Tensor, even: float) -> str:
    layer, head = divmod(int(shares.argmax()), shares.size(1))
    return (
        f"{name.replace(chr(10), ' ')}, {shares.max():.2f} in head {layer}.{head} (even {even:.2f})"
    )
