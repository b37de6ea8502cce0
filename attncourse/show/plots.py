"""Every figure of the course. Each function returns a `Figure`: the picture and its alt text.

In heatmaps rows are queries ("asks"), columns are keys ("answers"), and position 0 is at the top
left. Masked pairs are hatched, never coloured as 0. The colour map is readable for colour-blind eyes.
"""

import matplotlib as mpl
import seaborn as sns
import torch
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor

from attncourse.show.diagrams import five_steps, head_sharing_diagram, multi_head_diagram
from attncourse.show.figure import STYLE, Figure

__all__ = [
    "Figure",
    "bars",
    "five_steps",
    "head_sharing_diagram",
    "heatmap",
    "heatmaps",
    "lines",
    "multi_head_diagram",
]


def heatmap(
    weights: Tensor,
    *,
    queries: list[str] | None = None,
    keys: list[str] | None = None,
    visible: Tensor | None = None,
    vmax: float | None = 1.0,
    annotate: bool = False,
    marked: Tensor | None = None,
    borders: tuple[int, ...] = (),
    caption: str = "",
) -> Figure:
    """One attention map (n, m): dark is 0, bright is ``vmax``.

    Args:
        weights: rows are queries, columns are keys.
        queries, keys: tick labels, for example the tokens; positions where absent.
        visible: bool (n, m), ``True`` = may attend; the other pairs are hatched.
        vmax: value of the brightest colour; ``None`` takes the largest weight.
        annotate: write the number into each cell; for maps of up to 8 x 8.
        marked: bool (n, m), these cells get a frame: where the weight should lie.
        borders: positions before which a line is drawn, across and down.
    """
    return heatmaps(
        {"": weights},
        queries=queries,
        keys=keys,
        visible=visible,
        vmax=vmax,
        annotate=annotate,
        marked=marked,
        borders=borders,
        caption=caption,
    )


def heatmaps(
    weights: dict[str, Tensor],
    *,
    queries: list[str] | None = None,
    keys: list[str] | None = None,
    visible: Tensor | None = None,
    vmax: float | None = 1.0,
    annotate: bool = False,
    marked: Tensor | None = None,
    borders: tuple[int, ...] = (),
    columns: int | None = None,
    side: float | None = None,
    caption: str = "",
) -> Figure:
    """Several attention maps side by side, one scale of colours for all; keys name the panels.

    Args: as in `heatmap`; ``columns`` panels stand in a row, each ``side`` inches wide.
    """
    _check_maps(weights, queries, keys, visible)
    weights = {name: w.detach().float().cpu() for name, w in weights.items()}
    vmax = max(w.max().item() for w in weights.values()) if vmax is None else vmax
    columns = columns or (2 if len(weights) == 4 else min(len(weights), 3))
    rows = -(-len(weights) // columns)
    side = side or {1: 4.2, 2: 3.2, 3: 2.3}[columns]
    n, m = next(iter(weights.values())).shape
    height = side * (0.25 + 0.7 * min(max(n / m, 0.3), 1.5))  # labels, and the map itself
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(side * columns, height * rows), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False)
        for ax in axes.flat[len(weights) :]:
            ax.set_axis_off()
        for ax, (name, w) in zip(axes.flat, weights.items(), strict=False):
            _draw_heatmap(ax, w, queries, keys, visible, vmax, annotate)
            _frame(ax, marked, borders)
            ax.set_title(name, fontsize=11)
        canvas.colorbar(axes.flat[0].collections[0], ax=axes, label="weight", shrink=0.8)
    alt = " ".join(_describe_map(name, w, visible) for name, w in weights.items())
    return Figure(canvas, alt, caption)


def _check_maps(weights, queries, keys, visible):
    if not weights:
        raise ValueError("weights must hold at least one map")
    for w in weights.values():
        if w.dim() != 2:
            raise ValueError(
                f"a map is (n, m); got {tuple(w.shape)}. Choose one head: weights[0, 0]"
            )
        for labels, size in ((queries, w.size(0)), (keys, w.size(1))):
            if labels is not None and len(labels) != size:
                raise ValueError(f"expected {size} labels, one each; got {len(labels)}")
    if visible is not None and visible.dtype != torch.bool:
        raise TypeError(f"visible must be bool, True = may attend; got {visible.dtype}")


def _draw_heatmap(ax, w, queries, keys, visible, vmax, annotate):
    n, m = w.shape
    ax.set_facecolor("white")
    ax.patch.set(hatch="////")  # shows through where a cell is left out
    sns.heatmap(
        w.numpy(),
        ax=ax,
        cmap="cividis",
        vmin=0,
        vmax=vmax,
        cbar=False,
        square=True,
        mask=None if visible is None else ~visible.expand(n, m).numpy(),
        annot=annotate,
        fmt=".2f",
        xticklabels=_ticks(keys, m),
        yticklabels=_ticks(queries, n),
        linewidths=0.5 if max(n, m) <= 12 else 0,
    )
    ax.set(xlabel="key (answers)", ylabel="query (asks)")
    crowded = keys is not None and m * max(map(len, keys)) > 28
    ax.tick_params(axis="x", rotation=90 if crowded else 0)
    ax.tick_params(axis="y", rotation=0)
    if max(n, m) > 12 and (keys or queries):
        ax.tick_params(labelsize=9)


def _frame(ax, marked: Tensor | None, borders: tuple[int, ...]) -> None:
    """A bright frame around each marked cell, and a line before each border."""
    for position in borders:
        ax.axhline(position, color="white", linewidth=1.6, linestyle="--")
        ax.axvline(position, color="white", linewidth=1.6, linestyle="--")
    for i, j in [] if marked is None else marked.nonzero().tolist():
        ax.add_patch(Rectangle((j, i), 1, 1, fill=False, edgecolor="#ff5a1f", linewidth=1.4))


def _ticks(labels: list[str] | None, n: int) -> list:
    """The tokens, or every position up to 8, else about six of them."""
    if labels is not None:
        return list(labels)
    every = 1 if n <= 8 else -(-n // 6)
    return [i if i % every == 0 else "" for i in range(n)]


def _describe_map(name: str, w: Tensor, visible: Tensor | None) -> str:
    n, m = w.shape
    text = f"{name + ': ' if name else ''}attention weights of {n} queries by {m} keys"
    if visible is not None:
        text += f", {int((~visible.expand(n, m)).sum())} of {n * m} pairs masked"
    largest = w.max(dim=-1).values.mean().item()
    return f"{text}; the largest weight of a row is {largest:.2f} on average."


def lines(
    x: list[float],
    series: dict[str, list[float]],
    *,
    xlabel: str,
    ylabel: str,
    logx: bool = False,
    logy: bool = False,
    points: bool = True,
    from_zero: bool = False,
    caption: str = "",
) -> Figure:
    """Curves over one x axis; the legend names them, and so does the style of the line.

    With ``from_zero`` the y axis starts at 0, so that a low curve does not look like 0.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(5.4, 3.3), layout="constrained")
        ax = canvas.subplots()
        for (name, y), style in zip(series.items(), ("-", "--", "-.", ":", "-"), strict=False):
            ax.plot(x, y, style, marker="o" if points else None, label=name)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        if logx:
            ax.set_xscale("log", base=2)
            ax.set_xticks(*_sparse(x))
            ax.minorticks_off()
        if logy:
            ax.set_yscale("log")
            _write_numbers(ax.yaxis, *ax.get_ylim())
        if from_zero:
            ax.set_ylim(bottom=0)
        if len(series) > 1:
            ax.legend(frameon=False)
    ends = "; ".join(f"{name} from {y[0]:.3g} to {y[-1]:.3g}" for name, y in series.items())
    return Figure(canvas, f"{ylabel} over {xlabel}, {x[0]:g} to {x[-1]:g}: {ends}.", caption)


def _sparse(x: list[float]) -> tuple[list[float], list[str]]:
    """Places of a logarithmic axis and their numbers, no more than a phone has room for; the last is among them."""
    for step in range(1, len(x) + 1):
        labels = [f"{at:,.0f}" if at == int(at) else f"{at:g}" for at in x[::-step]]
        if len("  ".join(labels)) <= 40:
            break
    return x[::-step], labels


def _write_numbers(axis, lowest: float, highest: float) -> None:
    """1, 2, 5 and 10 along a logarithmic axis; only the tens over more than two decades, powers over more than five."""
    if highest > min(1e5 * lowest, 1e7):
        return
    steps = (1, 2, 5) if highest < 200 * lowest else (1,)
    axis.set_major_locator(LogLocator(subs=steps, numticks=9))
    axis.set_major_formatter(lambda at, _: f"{at:,g}")
    axis.set_minor_formatter(NullFormatter())


def bars(
    series: dict[str, dict[str, float]],
    *,
    ylabel: str,
    xlabel: str = "",
    log: bool = False,
    caption: str = "",
) -> Figure:
    """Groups of bars: ``series[group][bar] = value``; every bar carries its number."""
    groups = list(series)
    names = list(next(iter(series.values())))
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(5.4, 3.3), layout="constrained")
        ax = canvas.subplots()
        width = 0.8 / len(names)
        for k, (name, hatch) in enumerate(zip(names, ("", "//", "..", "xx"), strict=False)):
            at = [g + (k - (len(names) - 1) / 2) * width for g in range(len(groups))]
            drawn = ax.bar(at, [series[g][name] for g in groups], width, label=name, hatch=hatch)
            ax.bar_label(drawn, fmt="%.3g", fontsize=9)
        ax.set_xticks(range(len(groups)), groups)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        if log:
            ax.set_yscale("log")
        if len(names) > 1:
            ax.legend(frameon=False)
    numbers = "; ".join(
        f"{g}: " + ", ".join(f"{name} {v:.3g}" for name, v in series[g].items()) for g in groups
    )
    return Figure(canvas, f"Bars of {ylabel}. {numbers}.", caption)
