"""Tables of numbers in the colours of score maps: kernels, and rows of numbers below a row of words."""

from collections.abc import Sequence

import matplotlib as mpl
from jaxtyping import Float
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from torch import Tensor

from attncourse.show.diagrams.score_maps import AROUND_ZERO
from attncourse.show.figure import INK, PALE, STYLE, Figure

SMALL = 9.5
WIDTH, CELL = 4.4, 0.4  # inches: a phone's width, and the largest cell


def kernel_tables(kernels: dict[str, Float[Tensor, "c_q c_k"]], caption: str = "") -> Figure:
    """Kernels one below the other: orange adds, blue subtracts, white is 0; each has its own strongest colour.

    Args:
        kernels: by title, all of one shape; the last row belongs to the query itself.
    """
    c_q, c_k = next(iter(kernels.values())).shape
    step = c_q + 1.9
    with mpl.rc_context(STYLE):
        canvas, ax = canvas_of(-2.9, c_k + 0.2, -0.1, len(kernels) * step - 0.2)
        for k, (title, kernel) in enumerate(kernels.items()):
            top = k * step + 0.8
            ax.text(c_k / 2, top - 0.2, title, ha="center", va="bottom", weight="bold", color=INK)
            numbers(
                ax, 0, top, [[f"{x:.2f}" for x in row] for row in kernel.tolist()], kernel.tolist()
            )
            for r in range(c_q):
                side(ax, -0.2, top + r + 0.5, _place("query", "i", r + 1 - c_q))
            for c in range(c_k):
                name = _place("key", "j", c - c_k // 2)
                ax.text(
                    c + 0.5, top + c_q + 0.12, name, ha="center", va="top", size=SMALL, color=INK
                )
    alt = " ".join(
        f"{title}: "
        + "; ".join(", ".join(f"{x:.2f}" for x in row) for row in kernel.tolist())
        + "."
        for title, kernel in kernels.items()
    )
    return Figure(canvas, alt, caption)


def word_rows(
    words: list[str], rows: dict[str, list[float]], write: bool = True, caption: str = ""
) -> Figure:
    """Rows of numbers below a row of words, each with its name above it and its own strongest colour.

    Args:
        words: one for each column.
        rows: by name, as many numbers as words.
        write: whole numbers into the cells, where they are not 0; for up to 18 words.

    Raises:
        ValueError: a row with more or fewer numbers than words.
    """
    for name, row in rows.items():
        if len(row) != len(words):
            raise ValueError(f"expected {len(words)} numbers in {name!r}; got {len(row)}")
    high = max(1.0, 0.06 * len(words))  # of a name, in cells: its letters are as large as ever
    with mpl.rc_context(STYLE):
        canvas, ax = canvas_of(-0.1, len(words) + 0.1, -1, len(rows) * (1 + high) + 0.1, words)
        names(ax, words)
        for k, (name, row) in enumerate(rows.items()):
            top = k * (1 + high) + high
            ax.text(0, top - 0.12, name, va="bottom", size=SMALL, color=INK)
            texts = [f"{x:.0f}" if write and abs(x) >= 0.5 else "" for x in row]
            numbers(ax, 0, top, [texts], [row])
    tops = {name: max(range(len(row)), key=row.__getitem__) for name, row in rows.items()}
    told = "; ".join(
        f"{x}: most at {words[k]}, position {k}, {rows[x][k]:.3g}" for x, k in tops.items()
    )
    return Figure(canvas, f"{len(words)} words, and rows of numbers below. {told}.", caption)


def canvas_of(left: float, right: float, top: float, bottom: float, columns: Sequence[str] = ()):
    """Axes without a frame, row 0 at the top; one unit is one cell; room above for the columns' names."""
    cell = min(WIDTH / (right - left), CELL)
    longest = max(map(len, columns), default=0)
    top -= 0.085 * longest / cell if longest > 2 else 0
    canvas = Canvas(figsize=(cell * (right - left), cell * (bottom - top)))
    ax = canvas.add_axes((0, 0, 1, 1))
    ax.set(xlim=(left, right), ylim=(bottom, top))
    ax.set_axis_off()
    return canvas, ax


def numbers(ax, left: float, top: float, texts, table, hidden=None, most=None) -> None:
    """Cells with texts in the colours of their numbers, strongest at ``most``; hidden ones are hatched and say nothing."""
    most = most or max(abs(x) for row in table for x in row) or 1
    for r, row in enumerate(table):
        for c, x in enumerate(row):
            shut = hidden is not None and hidden[r][c]
            face = PALE if shut else AROUND_ZERO(0.5 + 0.5 * x / most)
            hatch = "////" if shut else None
            place = Rectangle((left + c, top + r), 1, 1, fc=face, ec=INK, lw=0.7, hatch=hatch)
            ax.add_patch(place)
            if not shut and texts[r][c]:
                ink = "white" if abs(x) > 0.7 * most else INK
                at = (left + c + 0.5, top + r + 0.5)
                ax.text(*at, texts[r][c], ha="center", va="center", size=SMALL, color=ink)


def names(ax, columns: list[str]) -> None:
    """The columns' names above row 0, upright where they are long."""
    turn = {"rotation": 90} if max(map(len, columns)) > 2 else {}
    for k, name in enumerate(columns):
        ax.text(k + 0.5, -0.15, name, ha="center", va="bottom", size=SMALL, color=INK, **turn)


def side(ax, x: float, y: float, text: str) -> None:
    """A text that ends at x."""
    ax.text(x, y, text, ha="right", va="center", size=SMALL, color=INK)


def _place(what: str, letter: str, step: int) -> str:
    return f"{letter} {'−' if step < 0 else '+'} {abs(step)}" if step else f"{what} {letter}"
