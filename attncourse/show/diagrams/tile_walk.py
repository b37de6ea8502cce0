"""FlashAttention as pictures: a tile beside the table it is cut from, and the walk over the tiles."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle

from attncourse.show.diagrams.vectors import ROLES
from attncourse.show.figure import INK, PALE, STYLE, Figure

WEIGHTS, GREY, SMALL = "#f6d9c4", "#8a9199", 10
GONE = "#e3d9ee"  # the colour of outputs, pale


def to_scale(n: int, d: int, rows: int, columns: int, caption: str = "") -> Figure:
    """The weights of one head as an area, with its inputs, its output and one tile in the same scale.

    Args:
        n: number of queries and of keys, the side of the square.
        d: width of queries, keys, values and outputs.
        rows, columns: of the tile.
    """
    gap, wide = n / 22, 4.2
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(wide, 4.0))
        ax = canvas.add_axes((0, 0, 1, 1))
        ax.set(xlim=(-0.17 * n, 1.2 * n), ylim=(1.06 * n, -0.245 * n))
        ax.set_axis_off()
        _area(ax, 0, 0, n, n, WEIGHTS)
        for x, y, width, height, colour in (
            (-gap - d, 0, d, n, ROLES["query"]),
            (n + gap, 0, d, n, ROLES["output"]),
            (0, -gap - d, n, d, ROLES["key"]),
            (0, -2 * gap - 2 * d, n, d, ROLES["value"]),
            (0.42 * n, 0.66 * n, columns, rows, INK),
        ):
            ax.add_patch(Rectangle((x, y), width, height, fc=colour, lw=0))
        strip, whole, tile = (4 * x for x in (n * d, n * n, rows * columns))
        _say(ax, n / 2, 0.3 * n, f"all weights of one head\n{_bytes(whole)}", 13)
        _say(ax, 0.42 * n, 0.78 * n, f"one tile, {rows} by {columns}: {_bytes(tile)}")
        _say(ax, -gap - d - 0.045 * n, n / 2, "queries", rotation=90, colour=ROLES["query"])
        _say(ax, n + gap + d + 0.045 * n, n / 2, "outputs", rotation=90, colour=ROLES["output"])
        _say(ax, n / 2, -2 * gap - 2 * d - 0.06 * n, f"keys and values, {_bytes(strip)} each")
    alt = (
        f"A square, the {n:,} by {n:,} weights of one head, {_bytes(whole)}. Queries, keys, values and outputs "
        f"of width {d}, {_bytes(strip)} each, are thin lines along its sides, and a tile of {rows} by "
        f"{columns} weights, {_bytes(tile)}, is a dot."
    )
    return Figure(canvas, alt, caption)


def tile_walk(blocks: int = 3, caption: str = "") -> Figure:
    """Every tile of a causal attention in its turn: one frame for each that is computed.

    Args:
        blocks: of rows, and of columns; up to 3 stay readable.
    """
    turns = [(i, j) for i in range(blocks) for j in range(i + 1)]
    across, size, key = 3, blocks + 3.1, 0.15
    down = -(-len(turns) // across)
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.4, 4.4 * down / across * 1.12 / (1 - key)))
        high = (1 - key) / down
        for k, turn in enumerate(turns):
            at = (k % across / across, 1 - (k // across + 1) * high, 1 / across, high)
            ax = canvas.add_axes(at)
            ax.set(xlim=(-1.5, size - 1.5), ylim=(blocks + 1.6, -3.1))
            ax.set_axis_off()
            _turn(ax, blocks, turn, k)
        _key(canvas, (0, 0, 1, key))
    skipped = blocks**2 - len(turns)
    alt = (
        f"{len(turns)} turns of a walk over {blocks} by {blocks} tiles. In each, one tile is computed from one "
        f"block of queries and one block of keys and values. {skipped} tiles above the diagonal are skipped. "
        f"A block of outputs is written after its last tile, in turns "
        f"{', '.join(str(k + 1) for k, (i, j) in enumerate(turns) if i == j)}, and has left fast memory from then on."
    )
    return Figure(canvas, alt, caption)


def _turn(ax, blocks: int, turn: tuple[int, int], k: int) -> None:
    """One turn: what is in fast memory is filled; what was thrown away or written is not."""
    row, column = turn
    for i in range(blocks):
        _area(ax, -1.2, i, 0.7, 0.94, ROLES["query"] if i == row else "white")
        _area(ax, i, -1.2, 0.94, 0.7, ROLES["key"] if i == column else "white")
        _area(ax, i, -2.1, 0.94, 0.7, ROLES["value"] if i == column else "white")
        _area(ax, blocks + 0.45, i, 0.7, 0.94, GONE if i < row else "white")
        done = (column + 1) / (row + 1) if i == row else 0.0
        ax.add_patch(Rectangle((blocks + 0.45, i), 0.7 * done, 0.94, fc=ROLES["output"], lw=0))
        for j in range(blocks):
            past = (i, j) < turn and j <= i
            face = INK if (i, j) == turn else PALE if j > i else "white"
            hatch = "////" if j > i else "..." if past else None
            _area(ax, j, i, 0.94, 0.94, face, hatch)
    ends = column == row
    _say(ax, blocks / 2, -2.65, f"turn {k + 1}", weight="bold")
    share = f"o: {column + 1} of {row + 1} tiles"
    _say(ax, blocks / 2, blocks + 0.5, "divide, write" if ends else share)
    for x, y, letter, colour in (
        (-0.85, -0.35, "q", "query"),
        (-0.35, -0.85, "k", "key"),
        (-0.35, -1.75, "v", "value"),
        (blocks + 0.8, -0.35, "o", "output"),
    ):
        _say(ax, x, y, letter, colour=ROLES[colour])


def _key(canvas: Canvas, at: tuple[float, float, float, float]) -> None:
    """What the looks of a tile (left) and of a block of outputs (right) mean."""
    ax = canvas.add_axes(at)
    ax.set(xlim=(0, 20), ylim=(3.2, -0.3))
    ax.set_axis_off()
    looks = (
        (0.5, 0, INK, None, "computed now"),
        (0.5, 1, "white", "...", "used, thrown away"),
        (0.5, 2, PALE, "////", "never computed"),
        (10.8, 0, ROLES["output"], None, "mixed so far (width)"),
        (10.8, 1, GONE, None, "written, gone"),
        (10.8, 2, "white", None, "not in fast memory"),
    )
    for x, y, face, hatch, meaning in looks:
        _area(ax, x, y, 0.9, 0.7, face, hatch)
        ax.text(x + 1.3, y + 0.35, meaning, va="center", size=SMALL, color=INK)


def _area(ax, x, y, width, height, face, hatch=None) -> None:
    ax.add_patch(Rectangle((x, y), width, height, fc=face, ec=GREY, lw=0.6, hatch=hatch))


def _say(ax, x, y, text, size=SMALL, colour=INK, **style) -> None:
    ax.text(x, y, text, ha="center", va="center", size=size, color=colour, **style)


def _bytes(number: int) -> str:
    """The largest unit of which there is at least one."""
    units = [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")]
    size, unit = next((pair for pair in units if number >= pair[0]), (1, "bytes"))
    return f"{number / size:g} {unit}"
