"""A state that takes in a key with its value, token by token."""

import matplotlib as mpl
from jaxtyping import Float
from torch import Tensor

from attncourse.show.diagrams.number_tables import canvas_of, numbers, side
from attncourse.show.figure import INK, STYLE, Figure


def growing_state(
    keys: Float[Tensor, "n d"],
    values: Float[Tensor, "n e"],
    words: list[str],
    caption: str = "",
) -> Figure:
    """A row for each token: the state before it, the product of its key and its value, the state after it.

    Args:
        keys: what the features made of them; a row of the state for each number.
        values: a column of the state for each number.
        words: names of the tokens.
    """
    (n, d), e = keys.shape, values.size(1)
    products = keys[:, :, None] * values[:, None]
    after = products.cumsum(0)
    starts = (0, e + 1.9, 2 * (e + 1) + 0.9)
    with mpl.rc_context(STYLE):
        canvas, ax = canvas_of(-2.2, starts[2] + e + 0.2, -1.3, n * (d + 1) - 0.7)
        for x, title in zip(starts, ("state", "key × value", "new state"), strict=True):
            ax.text(x + e / 2, -0.85, title, ha="center", va="bottom", size=9.5, color=INK)
        for t, word in enumerate(words):
            top = t * (d + 1)
            side(ax, -0.35, top + d / 2, word)
            tables = after[t] - products[t], products[t], after[t]
            for x, table in zip(starts, tables, strict=True):
                _table(ax, x, top, table, after.abs().max().item())
            _sign(ax, e + 0.45, top + d / 2, "+")
            _sign(ax, starts[2] - 0.45, top + d / 2, "=")
            for c, x in enumerate(values[t].tolist()):
                ax.text(starts[1] + c + 0.5, top - 0.08, f"{x:g}", ha="center", va="bottom", size=9.5, color=INK)  # fmt: skip
            for r, x in enumerate(keys[t].tolist()):
                side(ax, starts[1] - 0.1, top + r + 0.5, f"{x:g}")
    told = " ".join(
        f"{word}: key {_list(k)} times value {_list(v)}; then the state is {_list(s.flatten())}."
        for word, k, v, s in zip(words, keys, values, after, strict=True)
    )
    return Figure(
        canvas, f"A state of {d} by {e} numbers after each of {n} tokens. {told}", caption
    )


def _table(ax, left: float, top: float, table: Tensor, most: float) -> None:
    texts = [[f"{x:g}" for x in row] for row in table.tolist()]
    numbers(ax, left, top, texts, table.tolist(), most=most)


def _sign(ax, x: float, y: float, text: str) -> None:
    ax.text(x, y, text, ha="center", va="center", size=12, color=INK)


def _list(x: Tensor) -> str:
    return ", ".join(f"{number:g}" for number in x.tolist())
