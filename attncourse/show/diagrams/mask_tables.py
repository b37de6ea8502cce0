"""Tables of scores and weights with words at their sides, and batches with padding: pictures of masks."""

import matplotlib as mpl
import torch
from jaxtyping import Bool, Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from torch import Tensor

from attncourse.show.diagrams.boxes import arrow
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

GREY, SMALL = "#8a9199", 10
SHADES = LinearSegmentedColormap.from_list("weight", ["#ffffff", ACCENT])


def mask_then_softmax(
    scores: Float[Tensor, "n m"], visible: Bool[Tensor, "n m"], words: list[str], caption: str = ""
) -> Figure:
    """Scores, the hidden ones struck out, and beside them the weights that the softmax makes of the rest.

    Args:
        scores: up to 5 rows and columns.
        visible: ``True`` = may attend; every row needs one.
        words: names of the rows and of the columns.
    """
    weights = torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1)
    n = len(words)
    right = n + 1.9
    with mpl.rc_context(STYLE):
        canvas, ax = _blank(-1.3, right + n + 0.1, -1.9, n + 0.1)
        for left, table, title, digits, shades in (
            (0, scores, "scores", 0, None),
            (right, weights, "weights", 2, SHADES),
        ):
            _cells(ax, left, table, visible, digits, shades)
            _words(ax, left, words, rows=left == 0)
            ax.text(left + n / 2, -1.3, title, ha="center", weight="bold", color=INK)
        arrow(ax, (n + 0.3, n / 2), (right - 0.3, n / 2))
        ax.text(n + 0.95, n / 2 - 0.2, "soft-\nmax", ha="center", size=SMALL, color=INK)
    hidden = int((~visible).sum())
    alt = (
        f"Two tables for {', '.join(words)}. On the left scores, {hidden} of {n * n} struck out; an arrow, "
        f"softmax, leads to the weights: the rows are {_rows(weights)}."
    )
    return Figure(canvas, alt, caption)


def mask_too_late(
    scores: Float[Tensor, "n m"], visible: Bool[Tensor, "n m"], words: list[str], caption: str = ""
) -> Figure:
    """Weights with the mask before the softmax, and with the mask after it; the sum of each row beside it.

    Args: as in `mask_then_softmax`.
    """
    early = torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1)
    late = torch.softmax(scores, dim=-1) * visible
    n = len(words)
    right = n + 1.9
    with mpl.rc_context(STYLE):
        canvas, ax = _blank(-1.3, right + n + 1.4, -2.4, n + 0.1)
        for left, table, title in (
            (0, early, "mask,\nthen softmax"),
            (right, late, "softmax,\nthen mask"),
        ):
            _cells(ax, left, table, visible, 2, SHADES)
            _words(ax, left, words, rows=left == 0)
            ax.text(left + n / 2, -1.1, title, ha="center", weight="bold", color=INK)
            ax.text(left + n + 0.75, -0.35, "sum", ha="center", size=SMALL, color=INK)
            for i, total in enumerate(table.sum(dim=-1).tolist()):
                shown = f"{total:.2f}"
                ax.text(left + n + 0.75, i + 0.5, shown, ha="center", va="center", size=SMALL)
    sums = ", ".join(f"{x:.2f}" for x in late.sum(dim=-1).tolist())
    alt = (
        f"Two tables of weights. With the mask before the softmax every row sums to 1.00; with the mask after "
        f"it the rows sum to {sums}."
    )
    return Figure(canvas, alt, caption)


def mask_rules(
    rules: dict[str, Bool[Tensor, "n m"]], words: list[str], caption: str = ""
) -> Figure:
    """Tables of who may read whom, side by side: a filled cell may be read, a hatched one is hidden.

    Args:
        rules: a title and a mask for each of up to 3 tables.
        words: names of the rows and of the columns.
    """
    n = len(words)
    with mpl.rc_context(STYLE):
        canvas, ax = _blank(-1.9, len(rules) * (n + 0.7) - 0.6, -3.4, n + 0.1)
        for k, (title, visible) in enumerate(rules.items()):
            left = k * (n + 0.7)
            _cells(ax, left, visible.float(), visible, None, SHADES)
            _words(ax, left, words, rows=k == 0, upright=True)
            ax.text(left + n / 2, -2.7, title, ha="center", weight="bold", color=INK)
    counts = "; ".join(f"{title}: {int(v.sum())} of {v.numel()}" for title, v in rules.items())
    return Figure(canvas, f"{len(rules)} tables of pairs that may be read. {counts}.", caption)


def padded_batch(
    messages: list[list[str]], side: str = "right", filler: str = "fill", caption: str = ""
) -> Figure:
    """Messages as rows of boxes, made equally long by hatched filler.

    Args:
        messages: the words of each message; up to 6 of up to 9 letters.
        side: where the filler stands, "right" or "left".
        filler: what is written into it.
    """
    longest = max(map(len, messages))
    with mpl.rc_context(STYLE):
        canvas, ax = _blank(-0.1, 2 * longest + 0.1, -0.7, len(messages) + 0.1)
        for j in range(longest):
            ax.text(2 * j + 1, -0.2, str(j), ha="center", size=SMALL, color=INK)
        for i, words in enumerate(messages):
            missing = longest - len(words)
            first = missing if side == "left" else 0
            for j in range(longest):
                real = first <= j < first + len(words)
                _box(ax, 2 * j, i, words[j - first] if real else filler, real)
    lengths = ", ".join(str(len(words)) for words in messages)
    alt = (
        f"{len(messages)} rows of {longest} boxes with messages of {lengths} words; "
        f"hatched filler on the {side} makes them equally long."
    )
    return Figure(canvas, alt, caption)


def _blank(left: float, right: float, top: float, bottom: float):
    """Axes without a frame, 4.4 inches wide, row 0 at the top; one unit is one cell."""
    width = 4.4
    canvas = Canvas(figsize=(width, width * (bottom - top) / (right - left)))
    ax = canvas.add_axes((0, 0, 1, 1))
    ax.set(xlim=(left, right), ylim=(bottom, top))
    ax.set_axis_off()
    return canvas, ax


def _cells(ax, left, table, visible, digits, shades) -> None:
    for i, row in enumerate(table.tolist()):
        for j, x in enumerate(row):
            seen = bool(visible[i, j])
            face = shades(x) if shades and seen else "white" if seen else PALE
            hatch = None if seen else "////"
            ax.add_patch(Rectangle((left + j, i), 1, 1, fc=face, ec=INK, lw=0.8, hatch=hatch))
            if digits is not None and (seen or not shades):
                ink = GREY if not seen else "white" if shades and x > 0.55 else INK
                at = (left + j + 0.5, i + 0.5)
                ax.text(*at, f"{x:.{digits}f}", ha="center", va="center", size=SMALL, color=ink)


def _words(ax, left, words, rows: bool, upright: bool = False) -> None:
    turn = {"rotation": 90} if upright else {}
    for k, word in enumerate(words):
        ax.text(
            left + k + 0.5, -0.25, word, ha="center", va="bottom", size=SMALL, color=INK, **turn
        )
        if rows:
            ax.text(left - 0.2, k + 0.5, word, ha="right", va="center", size=SMALL, color=INK)


def _box(ax, x, y, text, real) -> None:
    face, hatch = ("white", None) if real else (PALE, "////")
    ax.add_patch(Rectangle((x, y + 0.08), 2, 0.84, fc=face, ec=INK, lw=0.8, hatch=hatch))
    ax.text(x + 1, y + 0.5, text, ha="center", va="center", color=INK)


def _rows(table: Tensor) -> str:
    return "; ".join(", ".join(f"{x:.2f}" for x in row) for row in table.tolist())
