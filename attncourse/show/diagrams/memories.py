"""What memories say after each thing that is written into them: a column a memory, a row a write."""

import matplotlib as mpl
from matplotlib.patches import Rectangle

from attncourse.show.diagrams.boxes import blank
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

ROW, COLUMN, BAR = 1.5, 3.2, 1.9  # a row's height, a column's width, the longest bar


def memories(
    writes: list[str],
    says: dict[str, list[dict[str, float]]],
    truth: dict[str, float],
    caption: str = "",
) -> Figure:
    """Bars of what each memory says at each key after each write; in the last row, what is wrong is in colour.

    Args:
        writes: what is written, a row each.
        says: by memory, for each write the number that it says at each key it has heard of.
        truth: what was written last at each key.

    Raises:
        ValueError: a memory with more or fewer answers than there are writes.
    """
    for name, answers in says.items():
        if len(answers) != len(writes):
            raise ValueError(
                f"expected {len(writes)} answers of {name!r}, one for each write; got {len(answers)}"
            )
    most = max(x for answers in says.values() for answer in answers for x in answer.values())
    bottom = ROW * len(writes)
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.4, 0.62 * len(writes) + 0.4)
        for column, (name, answers) in enumerate(says.items(), start=1):
            ax.text(column * COLUMN, -0.15, name, va="bottom", weight="bold", color=INK, size=10.5)
            for row, answer in enumerate(answers):
                last = row == len(writes) - 1
                for k, (key, said) in enumerate(answer.items()):
                    at = (column * COLUMN, ROW * row + 0.62 * k + 0.1)
                    wrong = last and abs(said - truth[key]) > 1e-6
                    _bar(ax, *at, BAR * said / most, f"{said:.3g}", ACCENT if wrong else PALE)
        for row, write in enumerate(writes):
            ax.text(0, ROW * row + 0.4, write, va="center", color=INK, size=10.5)
            keys = [answers[row] for answers in says.values()][0]
            for k, key in enumerate(keys):
                y = ROW * row + 0.62 * k + 0.35
                ax.text(COLUMN - 0.12, y, key, ha="right", va="center", color=INK, size=9.5)
            if row:
                ax.axhline(ROW * row - 0.1, color="#9aa0a6", linewidth=0.6)
        ax.set(xlim=(0, COLUMN * (len(says) + 1) - 0.2), ylim=(bottom, -0.7))
    told = "; ".join(
        f"{name}: " + ", ".join(f"{key} {said:.3g}" for key, said in answers[-1].items())
        for name, answers in says.items()
    )
    right = ", ".join(f"{key} {x:.3g}" for key, x in truth.items())
    alt = f"Written one after the other: {'; '.join(writes)}. What memories say then: {told}. Right is {right}."
    return Figure(canvas, alt, caption)


def _bar(ax, x: float, y: float, length: float, text: str, colour: str) -> None:
    ax.add_patch(Rectangle((x, y), length, 0.5, facecolor=colour, edgecolor=INK, linewidth=0.8))
    ax.text(x + length + 0.1, y + 0.25, text, va="center", color=INK, size=10)
