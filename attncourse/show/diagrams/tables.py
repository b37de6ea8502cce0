"""The tables of attention as pictures: scores being made, and one row on its way to an output."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from torch import Tensor

from attncourse.show.diagrams.vectors import ROLES
from attncourse.show.figure import INK, STYLE, Figure

PALE = {"query": "#fbe3cf", "key": "#d7e6f5", "score": "#f3e3f7", "none": "#ffffff"}


def score_table(
    words: list[str], query: Tensor, key: Tensor, marked: tuple[int, int], caption: str = ""
) -> Figure:
    """The product of queries and keys: one row for each query, one column for each key.

    Queries stand on the left, keys on top, and each cell is the dot product of its row and its column.

    Args:
        words: labels of rows and columns.
        query, key: (n, d), a few numbers each.
        marked: (row, column) of the cell that is shown in the making.
    """
    n, d = query.shape
    if len(words) != n or key.shape != query.shape:
        raise ValueError(f"expected {len(words)} queries and keys; got {n} and {len(key)}")
    scores, (row, column) = query @ key.T, marked
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 4.0), layout="constrained")
        ax = canvas.subplots()
        ax.set_axis_off()
        for k, word in enumerate(words):
            ax.text(d + 0.75 + k, -0.1, word, ha="center", va="bottom", fontsize=9.5)
            ax.text(-0.15, d + 0.75 + k, word, ha="right", va="center", fontsize=9.5)
            for c in range(d):
                _cell(ax, c, d + 0.25 + k, query[k, c], PALE["query" if k == row else "none"])
                _cell(ax, d + 0.25 + k, c, key[k, c], PALE["key" if k == column else "none"])
            for j in range(n):
                fill = PALE["score" if (k, j) == marked else "none"]
                _cell(ax, d + 0.25 + j, d + 0.25 + k, scores[k, j], fill, (k, j) == marked)
        ax.text(d / 2, d, "queries", ha="center", va="bottom", color=ROLES["query"])
        ax.text(d + 0.1, d / 2, "keys", ha="right", va="center", color=ROLES["key"])
        ax.set(xlim=(-1.3, d + n + 0.3), ylim=(d + n + 0.3, -0.8))
        ax.set_aspect("equal")
    alt = (
        f"A table of {n} by {n} scores, queries on the left and keys on top. The query of {words[row]} "
        f"and the key of {words[column]} meet in the score {scores[marked].item():.2f}."
    )
    return Figure(canvas, alt, caption)


def one_row(
    words: list[str],
    scores: Tensor,
    weights: Tensor,
    value: Tensor,
    caption: str = "",
    score_label: str = "score",
) -> Figure:
    """One query's way to its output: a score, a weight and a weighted value for each word, and the sum.

    Args:
        words: one label for each key.
        scores, weights: (m,), before and after the softmax.
        value: (m, e), a few numbers each.
        score_label: what stands above the scores.
    """
    parts = weights[:, None] * value
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 3.0), layout="constrained")
        ax = canvas.subplots()
        ax.set_axis_off()
        for x, label in ((2.5, score_label), (4.6, "weight"), (7.3, "value"), (10, "product")):
            _write(ax, x, -1, label)
        for k, word in enumerate(words):
            ax.text(-0.3, k, word, va="center", fontsize=10)
            _write(ax, 2.5, k, f"{scores[k]:.2f}")
            ax.add_patch(
                Rectangle(
                    (2.9, k - 0.32),
                    1.2 * weights[k].item(),
                    0.64,
                    color=ROLES["output"],
                    linewidth=0,
                )
            )
            ax.text(3 + 1.2 * weights[k].item(), k, f"{weights[k]:.0%}", va="center", fontsize=10)
            _write(ax, 7.3, k, _pair(value[k]), color=ROLES["value"])
            _write(ax, 10, k, _pair(parts[k]))
        m = len(words)
        ax.plot((7.5, 10.1), (m - 0.45, m - 0.45), color=INK, linewidth=1)
        _write(ax, 7.3, m + 0.1, "output, the sum", color=ROLES["output"])
        _write(ax, 10, m + 0.1, _pair(parts.sum(0)), color=ROLES["output"], fontweight="bold")
        ax.set(xlim=(-0.4, 10.2), ylim=(m + 0.6, -1.4))
    taken = ", ".join(f"{word} {w:.0%}" for word, w in zip(words, weights.tolist(), strict=True))
    return Figure(canvas, f"Weights of {taken}; the output is {_pair(parts.sum(0))}.", caption)


def _write(ax, x, y, text, **style):
    ax.text(x, y, text, ha="right", va="center", fontsize=10, **style)


def _pair(numbers: Tensor) -> str:
    return "(" + ", ".join(f"{x:.2f}" for x in numbers.tolist()) + ")"


def _cell(ax, x, y, number, fill, bold=False):
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor="#9aa0a6", linewidth=0.8))
    weight = "bold" if bold else "normal"
    ax.text(x + 0.5, y + 0.5, f"{number.item() + 0.0:.2f}", ha="center", va="center",
            fontsize=9.5, color=INK, fontweight=weight)  # fmt: skip
