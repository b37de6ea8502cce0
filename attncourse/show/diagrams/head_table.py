"""A table with a row for each head and a column for each measure."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from torch import Tensor

from attncourse.show.figure import INK, STYLE, Figure


def head_table(
    measures: dict[str, Tensor], even: dict[str, float] | None = None, caption: str = ""
) -> Figure:
    """A number for every head and measure, on a colour that is dark at 0 and bright at 1 or more.

    Args:
        measures: name of a column, and its numbers (layers, heads), for example shares of weight.
        even: what a head that spreads its weight evenly would have in that column, as a last row.
    """
    names = list(measures)
    layers, heads = next(iter(measures.values())).shape
    rows = [f"{layer}.{head}" for layer in range(layers) for head in range(heads)]
    columns = [measures[name].flatten().tolist() for name in names]
    if even is not None:
        rows.append("even")
        columns = [[*x, even[name]] for name, x in zip(names, columns, strict=True)]
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 0.21 * len(rows) + 0.6), layout="constrained")
        ax = canvas.subplots()
        ax.imshow(list(zip(*columns, strict=True)), cmap="cividis", vmin=0, vmax=1, aspect="auto")
        _write(ax, columns)
        ax.set_xticks(range(len(names)), names, fontsize=10)
        ax.set_yticks(range(len(rows)), rows, fontsize=9)
        ax.set_ylabel("layer.head")
        for layer in range(1, layers + (even is not None)):
            ax.axhline(layer * heads - 0.5, color="white", linewidth=3)
    best = "; ".join(_best(name, x, even) for name, x in measures.items())
    alt = f"Numbers of {layers * heads} heads. Largest of each column: {best}."
    return Figure(canvas, alt, caption)


def _write(ax, columns: list[list[float]]) -> None:
    """The numbers, in an ink that can be read on their colour; + 0.0 makes 0.00 of -0.00."""
    for k, column in enumerate(columns):
        for row, number in enumerate(column):
            ink = "white" if number < 0.5 else INK
            ax.text(
                k,
                row,
                f"{round(number, 2) + 0.0:.2f}",
                ha="center",
                va="center",
                color=ink,
                fontsize=10,
            )
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _best(name: str, numbers: Tensor, even: dict[str, float] | None) -> str:
    layer, head = divmod(int(numbers.argmax()), numbers.size(1))
    told = f"{name.replace(chr(10), ' ')}, {numbers.max():.2f} in head {layer}.{head}"
    return told if even is None else f"{told} (even {even[name]:.2f})"
