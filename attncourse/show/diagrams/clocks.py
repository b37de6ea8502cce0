"""Clock hands: positions as angles, and why turned pairs of vectors know only their distance."""

import math

import matplotlib as mpl
from matplotlib.patches import Arc, Circle, FancyBboxPatch

from attncourse.show.diagrams.boxes import arrow, blank, box
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

BLUE = "#0b5394"


def same_words(first: list[str], second: list[str], caption: str = "") -> Figure:
    """Two orders of the same words, and the one set of words that both are without positions."""
    if sorted(first) != sorted(second):
        raise ValueError(f"both must hold the same words; got {first} and {second}")
    words = sorted(set(first), key=first.index)
    with mpl.rc_context(STYLE):
        canvas, ax = blank(5.4, 3.0)
        bag = "round,pad=0,rounding_size=0.5"
        ax.add_patch(FancyBboxPatch((3.5, -1.1), 6.2, 3.1, boxstyle=bag, facecolor="white",
                                    edgecolor=INK, linestyle="--"))  # fmt: skip
        for left, sentence in ((0, first), (7, second)):
            for k, word in enumerate(sentence):
                box(ax, left + 2 * k, 3.9, 1.8, 0.9, word, PALE)
                ax.text(left + 2 * k + 0.9, 5.0, str(k), ha="center", va="bottom", color=INK)
            arrow(ax, (left + 2.9, 3.7), (5.2 + left / 3, 2.1))
        for word, (x, y) in zip(words, ((3.9, 0.5), (7.2, 0.8), (5.6, -0.8)), strict=False):
            box(ax, x, y, 1.8, 0.9, word, ACCENT)
        ax.text(6.6, -1.3, "without positions", ha="center", va="top", color=INK)
        ax.set_ylim(-2.2, 5.7)
    alt = (
        f"Above, two sentences with their positions 0 to {len(first) - 1}: {' '.join(first)}, and "
        f"{' '.join(second)}. Both arrows lead to the same {len(words)} words without an order."
    )
    return Figure(canvas, alt, caption)


def clocks(
    positions: list[int], turns: list[float], labels: list[str] | None = None, caption: str = ""
) -> Figure:
    """A row of clocks for each position, a column for each speed; hands start at 3 o'clock.

    Args:
        positions: one row each; up to 6 stay readable.
        turns: radians by which a clock's hand turns from one position to the next, counter-clockwise.
        labels: the names of the columns; "clock 0", "clock 1" and so on where absent.
    """
    labels = labels or [f"clock {i}" for i in range(len(turns))]
    with mpl.rc_context(STYLE):
        canvas, ax = blank(5.4, 0.9 * len(positions) + 0.5)
        for row, position in enumerate(positions):
            y = -2.4 * row
            ax.text(-1.5, y, f"position {position}", ha="right", va="center", color=INK)
            for column, (turn, label) in enumerate(zip(turns, labels, strict=True)):
                x = 2.6 * column
                _face(ax, x, y, 1.0)
                _hand(ax, x, y, position * turn, 0.92, BLUE)
                if row == 0:
                    ax.text(x, 1.3, label, ha="center", va="bottom", color=INK)
        ax.set_aspect("equal")
    last = ", ".join(f"{math.degrees(positions[-1] * turn) % 360:.0f}" for turn in turns)
    alt = (
        f"{len(positions)} rows of {len(turns)} clocks, from the fastest on the left to the slowest. All "
        f"hands start at 3 o'clock; at position {positions[-1]} they stand at {last} degrees."
    )
    return Figure(canvas, alt, caption)


def turned_pairs(
    query: float, key: float, turn: float, pairs: list[tuple[int, int]], caption: str = ""
) -> Figure:
    """A query hand and a key hand on one clock, each turned by its position; a panel for each pair.

    Args:
        query, key: the angles of both hands before they are turned, in radians.
        turn: radians for each position.
        pairs: positions (i, j) of query and key; three panels fit.
    """
    with mpl.rc_context(STYLE):
        canvas, ax = blank(5.4, 2.3)
        said = []
        for k, (i, j) in enumerate(pairs):
            a, b = query + i * turn, key + j * turn
            x = 2.7 * k
            _face(ax, x, 0, 1.0)
            _hand(ax, x, 0, a, 0.92, BLUE)
            _hand(ax, x, 0, b, 0.92, ACCENT)
            between = math.degrees(a - b) % 360
            low, high = (b, a) if between <= 180 else (a, b)
            degrees = [math.degrees(angle) for angle in (low, high)]
            ax.add_patch(Arc((x, 0), 0.9, 0.9, theta1=degrees[0], theta2=degrees[1], color=INK))
            between = min(between, 360 - between)
            ax.text(x, 1.25, f"{between:.0f}° between", ha="center", va="bottom", color=INK)
            ax.text(x, -1.25, f"query at {i}", ha="center", va="top", color=BLUE)
            ax.text(x, -1.7, f"key at {j}", ha="center", va="top", color=ACCENT)
            said.append(f"query at {i} and key at {j}, {between:.0f} degrees between them")
        ax.set_aspect("equal")
        ax.set_ylim(-2.2, 1.8)
    return Figure(canvas, f"{len(pairs)} clocks with two hands each: {'; '.join(said)}.", caption)


def _face(ax, x: float, y: float, radius: float) -> None:
    ax.add_patch(Circle((x, y), radius, facecolor=PALE, edgecolor=INK))
    ax.update_datalim([(x - radius, y - radius), (x + radius, y + radius)])
    ax.plot([x + 0.85 * radius, x + radius], [y, y], color=INK, linewidth=1)  # 3 o'clock
    ax.autoscale_view()


def _hand(ax, x: float, y: float, angle: float, length: float, colour: str) -> None:
    end = x + length * math.cos(angle), y + length * math.sin(angle)
    ax.annotate(
        "", end, (x, y), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2,
                                     "shrinkA": 0, "shrinkB": 0}
    )  # fmt: skip
