"""Windows: how little of the map they keep, how blocks cover them, how they roll, and how they shift over a picture."""

import matplotlib as mpl
from jaxtyping import Bool
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch, Polygon, Rectangle
from torch import Tensor

from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

BLUE, GRID, IN_VAIN = "#0b5394", "#9aa0a6", "#c2c7cc"


def causal_and_window(n: int, left: int, caption: str = "") -> Figure:
    """Two maps of n queries and n keys in one scale: all that came before, and only the last ``left`` of it."""
    triangle = [(0, 0), (n, n), (0, n)]
    band = [(0, 0), (n, n), (n - left, n), (0, left)]
    all_pairs = n * (n + 1) // 2
    pairs = all_pairs - (n - left) * (n - left - 1) // 2
    panels = {f"all before: {all_pairs:,}": triangle, f"{left} before: {pairs:,}": band}
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, 2.6), layout="constrained")
        axes = canvas.subplots(1, 2)
        for ax, (title, shape) in zip(axes, panels.items(), strict=True):
            ax.add_patch(Polygon(shape, facecolor=BLUE, edgecolor=BLUE, linewidth=0.8))
            ax.set(xlim=(0, n), ylim=(n, 0), aspect="equal", xlabel="key")
            ax.set_xticks([0, n], [0, f"{n:,}"])
            ax.set_yticks([])
            ax.spines[["top", "right"]].set_visible(True)
            ax.set_title(title, fontsize=11)
        axes[0].set_ylabel("query")
    alt = (
        f"Two squares of {n:,} queries by {n:,} keys. On the left the triangle below the diagonal is filled, "
        f"{all_pairs:,} pairs; on the right only a thin band along the diagonal, {pairs:,} pairs."
    )
    return Figure(canvas, alt, caption)


def window_blocks(
    visible: Bool[Tensor, "n n"], rows: int, reads: list[tuple[int, int]], caption: str = ""
) -> Figure:
    """A mask, and the pairs that are computed when ``rows`` queries at a time read one range of keys.

    Args:
        visible: (n, n), the pairs that are wanted.
        reads: for each block of queries, from which key to which (exclusive) it reads.
    """
    n = len(visible)
    computed = sum(
        (stop - start) * len(visible[k * rows :][:rows]) for k, (start, stop) in enumerate(reads)
    )
    wanted = int(visible.sum())
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 4.2), layout="constrained")
        ax = canvas.subplots()
        for k, (start, stop) in enumerate(reads):
            height = len(visible[k * rows :][:rows])
            place = (start, k * rows)
            ax.add_patch(
                Rectangle(place, stop - start, height, facecolor=IN_VAIN, edgecolor="none")
            )
        for i, j in visible.nonzero().tolist():
            ax.add_patch(Rectangle((j, i), 1, 1, facecolor=BLUE, edgecolor="white", linewidth=0.6))
        for k, (start, stop) in enumerate(reads):
            height = len(visible[k * rows :][:rows])
            place = (start, k * rows)
            ax.add_patch(
                Rectangle(place, stop - start, height, fill=False, edgecolor=ACCENT, linewidth=2)
            )
        ticks = range(0, n + 1, rows)
        ax.set(xlim=(-0.1, n + 0.1), ylim=(n + 0.1, -0.1), aspect="equal")
        ax.set(xlabel="key", ylabel="query", xticks=ticks, yticks=ticks)
        handles = [
            Patch(facecolor=BLUE, label=f"wanted ({wanted})"),
            Patch(facecolor=IN_VAIN, edgecolor=ACCENT, label=f"computed ({computed})"),
            Patch(facecolor="white", edgecolor=GRID, label=f"never made ({n * n - computed})"),
        ]
        canvas.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False,
                      handlelength=1.0, columnspacing=1.0, handletextpad=0.4, fontsize=9.5)  # fmt: skip
    alt = (
        f"{n} queries by {n} keys. {wanted} pairs are wanted, a band along the diagonal. {len(reads)} blocks of "
        f"{rows} queries cover it with {computed} pairs; the other {n * n - computed} are never made."
    )
    return Figure(canvas, alt, caption)


def rolling_slots(tokens: list[str], slots: int, caption: str = "") -> Figure:
    """A cache of so many slots while tokens arrive: token t goes to slot t modulo ``slots``.

    Args:
        tokens: in the order in which they arrive; a row of the picture each.
        slots: tokens that fit.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 0.42 * len(tokens) + 0.5), layout="constrained")
        ax = canvas.subplots()
        for t in range(len(tokens)):
            for s in range(slots):
                at = t - (t - s) % slots  # the last token that went to slot s
                new = at == t
                colour = ACCENT if new else PALE if at >= 0 else "white"
                ax.add_patch(Rectangle((s, t), 1, 1, facecolor=colour, edgecolor=GRID))
                if at >= 0:
                    ink = "white" if new else INK
                    ax.text(s + 0.5, t + 0.5, tokens[at], ha="center", va="center", color=ink)
        ax.set(xlim=(0, slots), ylim=(len(tokens), 0))
        ax.set_xticks([s + 0.5 for s in range(slots)], [f"slot {s}" for s in range(slots)])
        ax.set_yticks(
            [t + 0.5 for t in range(len(tokens))], [f"step {t}" for t in range(len(tokens))]
        )
        ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        ax.spines[:].set_visible(False)
    overwritten = max(len(tokens) - slots, 0)
    alt = (
        f"{len(tokens)} steps of a cache with {slots} slots. The token of step t goes to slot t modulo {slots}; "
        f"from step {slots} on it takes the place of the oldest one, {overwritten} times here."
    )
    return Figure(canvas, alt, caption)


def shifted_windows(size: int, window: int, query: tuple[int, int], caption: str = "") -> Figure:
    """A picture of size x size patches in windows, and in the next layer shifted by half a window.

    Args:
        size: patches on each side, a multiple of ``window``.
        window: patches on each side of a window; even.
        query: row and column of a patch; what it reads in each layer is filled.
    """
    shift = window // 2
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, 2.6), layout="constrained")
        axes, counts = canvas.subplots(1, 2), []
        for ax, moved in zip(axes, (0, shift), strict=True):
            where = [(p + moved) // window for p in range(size)]
            r, c = query
            read = [
                (a, b)
                for a in range(size)
                for b in range(size)
                if (where[a], where[b]) == (where[r], where[c])
            ]
            counts.append(len(read))
            for a, b in read:
                colour = ACCENT if (a, b) == query else "#9ec1e0"
                ax.add_patch(Rectangle((b, a), 1, 1, facecolor=colour, edgecolor="none"))
            for line in range(size + 1):
                border = line in (0, size) or where[line] != where[line - 1]
                look = (
                    {"color": INK, "linewidth": 2} if border else {"color": GRID, "linewidth": 0.5}
                )
                ax.plot([0, size], [line, line], **look)
                ax.plot([line, line], [0, size], **look)
            ax.set(xlim=(-0.1, size + 0.1), ylim=(size + 0.1, -0.1), aspect="equal")
            ax.set_axis_off()
            ax.set_title("next layer: shifted" if moved else "a layer", fontsize=11)
    alt = (
        f"A picture of {size} by {size} patches, twice. First it is cut into windows of {window} by {window}, and the "
        f"marked patch reads the {counts[0]} of its own; in the next layer the cuts have moved by {shift}, "
        f"and its window of {counts[1]} patches reaches across the old border."
    )
    return Figure(canvas, alt, caption)
