"""A kernel that slides over a table of scores."""

import matplotlib as mpl
from jaxtyping import Float
from matplotlib.patches import Rectangle
from torch import Tensor

from attncourse.show.diagrams.boxes import arrow
from attncourse.show.diagrams.number_tables import canvas_of, names, numbers, side
from attncourse.show.figure import ACCENT, STYLE, Figure


def sliding_kernel(
    table: Float[Tensor, "n m"],
    kernel: Float[Tensor, "c_q c_k"],
    at: tuple[int, int],
    rows: list[str],
    columns: list[str],
    causal: bool = False,
    caption: str = "",
) -> Figure:
    """A table of scores with a frame where the kernel lies; below it the kernel, and the row that it makes.

    Args:
        table: scores, small whole numbers.
        kernel: its last row lies on row ``at[0]``, its middle column on column ``at[1]``.
        at: the row that is made, and the column whose sum is shown in the making.
        rows, columns: names of the queries and of the keys.
        causal: keys after the query are hatched and count as 0.
    """
    (n, m), (c_q, c_k), (i, j) = table.shape, kernel.shape, at
    hidden = [[causal and k > r for k in range(m)] for r in range(n)]
    made = [_sum_at(table.tril() if causal else table, kernel, i, k) for k in range(m)]
    first, below, last = j - c_k // 2, n + 0.9, n + c_q + 1.8
    with mpl.rc_context(STYLE):
        canvas, ax = canvas_of(-2.2, max(m, first + c_k) + 0.2, -0.8, last + 1.2, columns)
        names(ax, columns)
        for r, name in enumerate(rows):
            side(ax, -0.2, r + 0.5, name)
        _whole(ax, 0, 0, table.tolist(), hidden)
        _whole(ax, first, below, kernel.tolist())
        _whole(ax, 0, last, [made], [hidden[i]])
        side(ax, first - 0.2, below + c_q / 2, "times the kernel")
        side(ax, -0.2, last + 0.5, "sums")
        _frame(ax, first, i - c_q + 1, c_k, c_q)
        _frame(ax, first, below, c_k, c_q, style=":")
        _frame(ax, j, last, 1, 1)
        arrow(ax, (j + 0.5, n + 0.1), (j + 0.5, below - 0.1))
        arrow(ax, (j + 0.5, below + c_q + 0.1), (j + 0.5, last - 0.1))
    sums = ", ".join(f"{x:g}" for x, shut in zip(made, hidden[i], strict=True) if not shut)
    alt = (
        f"A table of {n} by {m} scores. A kernel of {c_q} by {c_k} numbers lies around row {rows[i]}, column "
        f"{columns[j]}; the scores under it, each times its number, add up to {made[j]:g}. "
        f"The sums of this row: {sums}."
    )
    return Figure(canvas, alt, caption)


def _sum_at(table: Tensor, kernel: Tensor, i: int, j: int) -> float:
    """What `attncourse.variants.multi_token.convolve` puts into row i, column j; outside of the table are zeros."""
    total, (n, m), (c_q, c_k) = 0.0, table.shape, kernel.shape
    for a in range(c_q):
        for c in range(c_k):
            y, x = i - c_q + 1 + a, j - c_k // 2 + c
            if 0 <= y < n and 0 <= x < m:
                total += (kernel[a, c] * table[y, x]).item()
    return total


def _whole(ax, left: float, top: float, table, hidden=None) -> None:
    numbers(ax, left, top, [[f"{x:g}" for x in row] for row in table], table, hidden)


def _frame(ax, left: float, top: float, width: float, height: float, style: str = "-") -> None:
    frame = Rectangle((left, top), width, height, fill=False, ec=ACCENT, lw=2.2, ls=style, zorder=3)
    ax.add_patch(frame)
