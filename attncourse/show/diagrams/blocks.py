"""The transformer as boxes: from words to the next word, a layer with its norms, encoder and decoder."""

import matplotlib as mpl

from attncourse.show.diagrams.boxes import arrow, blank, box
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure


def next_word(
    words: list[str], guesses: dict[str, float], layers: int = 4, caption: str = ""
) -> Figure:
    """From the bottom up: words, vectors, layers of attention and feed-forward, chances of the next word.

    Args:
        words: the start mark and what has been typed; up to five stay readable on a phone.
        guesses: the likeliest next words and their chances, from 0 to 1.
        layers: how often the coloured part is repeated.
    """
    wide = 2.0 * len(words)
    with mpl.rc_context(STYLE | {"font.size": 10}):
        canvas, ax = blank(4.4, 4.3)
        for k, word in enumerate(words):
            box(ax, 2 * k + 0.02, 0, 1.96, 0.8, word, "white")
            box(ax, 2 * k + 0.55, 1.5, 0.9, 0.8, f"$x_{k}$", PALE)
            arrow(ax, (2 * k + 1, 0.8), (2 * k + 1, 1.5))
            arrow(ax, (2 * k + 1, 2.3), (2 * k + 1, 3.0))
            arrow(ax, (2 * k + 1, 4.1), (2 * k + 1, 4.5))
            arrow(ax, (2 * k + 1, 5.6), (2 * k + 1, 6.3))
        box(ax, 0.1, 3.0, wide - 0.2, 1.1, "attention: words read words", ACCENT)
        box(ax, 0.1, 4.5, wide - 0.2, 1.1, "feed-forward: each word by itself", PALE)
        ax.text(wide + 0.2, 4.3, f"{layers}\ntimes", ha="left", va="center", color=INK)
        for k in range(len(words)):
            box(ax, 2 * k + 0.55, 6.3, 0.9, 0.8, f"$y_{k}$", PALE)
        arrow(ax, (wide - 1, 7.1), (wide - 1, 7.75))
        _chances(ax, wide, guesses)
        ax.set_xlim(-0.1, wide + 1.6)
    best = ", ".join(f"{word} {chance:.2f}" for word, chance in guesses.items())
    alt = (
        f"From the bottom up: the words {' '.join(words)}; a vector for each; a block of attention and "
        f"feed-forward, {layers} times; and from the last vector the chances of the next word: {best}."
    )
    return Figure(canvas, alt, caption)


def _chances(ax, wide: float, guesses: dict[str, float]) -> None:
    """A box of lying bars, the likeliest word at the top; they begin at 0, the longest fills the width."""
    room, most = max(wide - 4.7, 1), max(guesses.values())
    right = max(wide - 0.1, 4.5 + room)
    box(ax, 0.1, 7.75, right - 0.1, 0.75 * len(guesses) + 0.3, "", "white")
    for k, (word, chance) in enumerate(reversed(guesses.items())):
        y = 8.0 + 0.75 * k
        box(ax, 3.2, y, room * chance / most, 0.55, "", ACCENT)
        ax.text(3.0, y + 0.27, word, ha="right", va="center", color=INK)
        at = 3.4 + room * chance / most
        ax.text(at, y + 0.27, f"{chance:.2f}", ha="left", va="center", color=INK)


def norm_places(caption: str = "") -> Figure:
    """Two layers side by side: the norm at the entrance of each part, and the norm after each sum."""
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.6, 4.6)
        for left, first in ((0.0, True), (6.2, False)):
            _stream(ax, left, ["attention", "feed-forward"], first)
            name = "pre-norm" if first else "post-norm"
            ax.text(left + 2.4, 10.1, name, ha="center", va="bottom", color=INK, weight="bold")
    alt = (
        "Two layers. In both a line runs from the bottom to the top, and attention and feed-forward stand "
        "beside it, each adding its result to the line. Pre-norm: the 2 norms stand at the entrances of the "
        "parts, and the line itself is never normalized. Post-norm: the 2 norms stand on the line, after "
        "each sum."
    )
    return Figure(canvas, alt, caption)


def _stream(ax, left: float, parts: list[str], norm_first: bool) -> None:
    """The line of a residual stream from y = 0 up, with the parts of a layer beside it."""
    line = left + 0.9
    for k, part in enumerate(parts):
        y = 0.2 + 4.8 * k
        height = 3.9 if norm_first else 2.7
        _plain_line(ax, (line, y), (line, y + height - 0.2))
        _plain_line(ax, (line, y + 0.3), (left + 3.2, y + 0.3))
        middle = y + 0.8
        arrow(ax, (left + 3.2, y + 0.3), (left + 3.2, middle))
        if norm_first:
            box(ax, left + 2.2, middle, 2.0, 0.8, "norm", "white")
            arrow(ax, (left + 3.2, middle + 0.8), (left + 3.2, middle + 1.3))
            middle += 1.3
        box(ax, left + 1.5, middle, 3.4, 0.8, part, ACCENT if part == "attention" else PALE)
        _plain_line(ax, (left + 3.2, middle + 0.8), (left + 3.2, y + height))
        arrow(ax, (left + 3.2, y + height), (line + 0.3, y + height))
        _plus(ax, line, y + height)
        if not norm_first:
            arrow(ax, (line, y + height + 0.25), (line, y + height + 0.6))
            box(ax, line - 0.9, y + height + 0.6, 1.8, 0.8, "norm", "white")
            _plain_line(ax, (line, y + height + 1.4), (line, y + 4.8))
        else:
            _plain_line(ax, (line, y + height + 0.25), (line, y + 4.8))
    arrow(ax, (line, 9.4), (line, 10.0))


def _plain_line(ax, start, end) -> None:
    ax.plot(*zip(start, end, strict=True), color=INK, linewidth=1.4, zorder=1.5)


def _plus(ax, x: float, y: float) -> None:
    ax.text(
        x, y, "+", ha="center", va="center", color=INK,
        bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": INK},
    )  # fmt: skip


def transformer_diagram(layers: int = 2, caption: str = "") -> Figure:
    """Encoder on the left, decoder on the right; the memory goes across, once and to every layer."""
    many = f"{layers} layer{'s' * (layers > 1)}"
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.6, 5.4)
        left = ["self-attention", "feed-forward"]
        right = ["causal\nself-attention", "cross-attention", "feed-forward"]
        for x, parts, name in ((0.0, left, "encoder"), (6.0, right, "decoder")):
            step = 6.6 / len(parts)
            box(ax, x - 0.25, 2.2, 4.7, 6.9, "", "white")
            ax.text(x + 2.1, 9.2, f"{name}, {many}", ha="center", va="bottom", color=INK)
            for k, part in enumerate(parts):
                colour = PALE if part == "feed-forward" else ACCENT
                box(ax, x + 0.1, 2.6 + step * k, 4.0, 1.3, part, colour)
                if k:
                    arrow(ax, (x + 2.1, 2.6 + step * k - step + 1.3), (x + 2.1, 2.6 + step * k))
            arrow(ax, (x + 2.1, 1.2), (x + 2.1, 2.6))
        cross = 2.6 + 2.2 + 0.65
        top = 2.6 + 3.3 + 1.3
        _plain_line(ax, (2.1, top), (2.1, 8.3))
        _plain_line(ax, (2.1, 8.3), (5.2, 8.3))
        _plain_line(ax, (5.2, 8.3), (5.2, cross))
        arrow(ax, (5.2, cross), (6.1, cross))
        ax.text(3.6, 8.4, "memory", ha="center", va="bottom", color=INK, fontsize=10)
        box(ax, 0.1, 0.1, 4.0, 1.1, "what is read", "white")
        box(ax, 6.1, 0.1, 4.0, 1.1, "what is written\nso far", "white")
        arrow(ax, (8.1, 9.1 + 0.8), (8.1, 10.6))
        box(ax, 6.1, 10.6, 4.0, 1.0, "next word", "white")
    alt = (
        f"On the left the encoder, {many} of self-attention and feed-forward; on the right the "
        f"decoder, {many} of causal self-attention, cross-attention and feed-forward. The "
        f"encoder's output, the memory, leads to the cross-attention; the decoder's leads to the next word."
    )
    return Figure(canvas, alt, caption)
