"""Questions and where their answers lead, as an indented outline that fits a phone."""

from textwrap import wrap
from typing import Any

import matplotlib as mpl

from attncourse.show.diagrams.boxes import blank
from attncourse.show.figure import ACCENT, INK, STYLE, Figure

INDENT, LINE, GAP = 0.30, 0.175, 0.13  # inches
WIDTH, LETTER = 4.6, 0.081  # of the picture; of an average letter


def decisions(tree: Any, caption: str = "") -> Figure:
    """A line for each question and each choice, indented below the question whose answer leads there.

    Args:
        tree: a question with ``ask``, ``yes`` and ``no``, whose answers lead to others or to a choice with a ``name``.
    """
    rows = _rows(tree)
    height = sum(LINE * len(lines) + GAP for *_, lines in rows)
    with mpl.rc_context(STYLE):
        canvas, ax = blank(WIDTH, height)
        ax.set(xlim=(0, WIDTH), ylim=(height, 0))
        y = 0.0
        starts: dict[int, float] = {}
        for depth, answer, choice, lines in rows:
            x, middle = INDENT * depth, y + LINE / 2
            if depth:
                above = starts[depth - 1]
                ax.plot(
                    [x - 0.22, x - 0.22, x - 0.05], [above, middle, middle], color="#9aa0a6", lw=1
                )
            text = "\n".join(lines)
            ax.text(x, y, f"{answer} ", va="top", size=9, weight="bold", color=INK)
            ax.text(
                x + 0.3 * bool(answer), y, text, va="top", size=9, linespacing=1.25,
                color=ACCENT if choice else INK, weight="bold" if choice else "normal",
            )  # fmt: skip
            # The line to the answers starts below the text where no answer stands before the text.
            starts[depth] = y + LINE * (1 if answer else len(lines))
            y += LINE * len(lines) + GAP
    said = " ".join(
        f"{'  ' * depth}{answer + ': ' if answer else ''}{' '.join(lines)}"
        for depth, answer, _, lines in rows
    )
    return Figure(canvas, f"An outline of questions. {said}", caption)


def _rows(at: Any, depth: int = 0, answer: str = "") -> list[tuple]:
    """Of each node: its depth, the answer that leads there, whether it is a choice, and its lines."""
    is_choice = hasattr(at, "name")
    text = at.name if is_choice else at.ask
    letters = int((WIDTH - INDENT * depth - 0.3 * bool(answer)) / LETTER)
    rows = [(depth, answer, is_choice, wrap(text, letters))]
    if not is_choice:
        rows += _rows(at.yes, depth + 1, "yes") + _rows(at.no, depth + 1, "no")
    return rows
