"""Who hears of whom, and after how many layers: news on its way, tables of distances, and what training made of them."""

import matplotlib as mpl
import numpy
from jaxtyping import Float, Int
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Arc, Circle, Rectangle
from torch import Tensor

from attncourse.show.diagrams.boxes import blank
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

# 0 layers, 1, 2, 3, 4, and more: from dark to light, apart in grey and for colour-blind eyes.
SHADES = ListedColormap(["#1a1a2e", "#0b5394", "#3d8bc4", "#82b6dc", "#b8d6ec", "#f2c083"])
MOST = SHADES.N - 1
LAYERS = BoundaryNorm(range(SHADES.N + 1), SHADES.N)
RIGHT = "#1b7837"


def relay(n: int = 13, reach: int = 3, caption: str = "") -> Figure:
    """News goes from the first token to the last: through windows, and over one token that everyone reads.

    Args:
        n: tokens; the global one stands in the middle.
        reach: neighbours that a token reads on each side.
    """
    stops = [*range(0, n - 1, reach), n - 1]
    board = n // 2
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.4, 2.6)
        _row(ax, 0, n, stops, None, f"windows of {reach} on each side")
        _row(ax, -5.2, n, [0, board, n - 1], board, "windows, and one global token")
        ax.set(xlim=(-0.8, n - 0.2), ylim=(-5.9, 3.6), aspect="equal")
    alt = (
        f"Two rows of {n} tokens. With windows of {reach} on each side, news of token 0 needs {len(stops) - 1} "
        f"layers to reach token {n - 1}; over a global token in the middle, which reads all and is read by all, 2."
    )
    return Figure(canvas, alt, caption)


def hop_maps(distances: dict[str, Int[Tensor, "n n"]], caption: str = "") -> Figure:
    """Tables of distances, by name: row i, column j is the number of layers until token i hears of token j.

    Args:
        distances: as `attncourse.lab.reach.hops` gives them, -1 for never.
    """
    down = -(-len(distances) // 2)
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.5, 0.7 + 2.15 * down), layout="constrained")
        axes = canvas.subplots(down, 2, squeeze=False)
        for ax in axes.flat[len(distances) :]:
            ax.set_axis_off()
        for k, (ax, (name, hops)) in enumerate(zip(axes.flat, distances.items(), strict=False)):
            _cells(ax, hops)
            ax.set_title(name, fontsize=11)
            ax.set(
                xlabel="key" if k >= len(distances) - 2 else "",
                ylabel="query" if k % 2 == 0 else "",
            )
        _legend(canvas, axes)
    said = "; ".join(f"{name}: {_told(hops)}" for name, hops in distances.items())
    return Figure(canvas, f"Layers until a query hears of a key. {said}.", caption)


def hop_strips(
    panels: dict[str, tuple[Int[Tensor, " n"], dict[str, Float[Tensor, " n"]]]], caption: str = ""
) -> Figure:
    """Of each token how far it is from the source, and below how often trained models were right there.

    Args:
        panels: by name, the distances and, by the name of a model, the share of right answers.
    """
    said = []
    with mpl.rc_context(STYLE):
        height = sum(0.42 + 0.24 * (1 + len(shares)) for _, shares in panels.values())
        canvas = Canvas(figsize=(4.5, 0.8 + height), layout="constrained")
        axes = canvas.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for ax, (name, (hops, shares)) in zip(axes, panels.items(), strict=True):
            _strip(ax, hops, shares)
            ax.set_title(name, fontsize=11, loc="left", pad=3)
            right = ", ".join(f"{k} {int((x > 0.9).sum())}" for k, x in shares.items())
            said.append(f"{name}: of {len(hops)} tokens nearly always right, {right}")
        axes[-1].set_xlabel("token")
        _legend(canvas, axes)
    return Figure(canvas, f"Strips of tokens. {'; '.join(said)}.", caption)


def _row(ax, y: float, n: int, stops: list[int], board: int | None, title: str) -> None:
    ax.text((n - 1) / 2, y + 2.9, f"{title}: {len(stops) - 1} layers", ha="center", color=INK)
    for k in range(n):
        face = ACCENT if k == board else INK if k in (0, n - 1) else PALE
        ax.add_patch(Circle((k, y), 0.36, facecolor=face, edgecolor=INK))
        if k in (0, n - 1):
            ax.text(k, y, str(k), ha="center", va="center", color="white", fontsize=10)
    for layer, (a, b) in enumerate(zip(stops, stops[1:], strict=False), 1):
        high = 2.6 if board is None else 3.2
        bow = Arc(
            ((a + b) / 2, y + 0.5), b - a - 0.3, high, theta1=0, theta2=180, color=ACCENT, lw=1.8
        )
        ax.add_patch(bow)
        ax.plot(b - 0.15, y + 0.58, marker="v", color=ACCENT, markersize=6)
        ax.text((a + b) / 2, y + 1.0, f"{layer}", ha="center", va="center", color=ACCENT)


def _cells(ax, hops: Tensor) -> None:
    n = len(hops)
    ax.patch.set(hatch="////")  # shows through where a pair never meets
    ax.imshow(_shown(hops), cmap=SHADES, norm=LAYERS, interpolation="nearest", aspect="equal")
    ax.set_xticks([0, n - 1])
    ax.set_yticks([0, n - 1])
    ax.tick_params(length=2, labelsize=10)


def _strip(ax, hops: Tensor, shares: dict[str, Tensor]) -> None:
    n = len(hops)
    ax.add_artist(Rectangle((-0.5, 0), n, 0.8, facecolor="white", hatch="////", zorder=-1))
    extent = (-0.5, n - 0.5, 0.8, 0)
    ax.imshow(_shown(hops)[None], cmap=SHADES, norm=LAYERS, extent=extent, aspect="auto")
    for row, share in enumerate(shares.values(), 1):
        ax.bar(range(n), [-0.8 * x for x in share.tolist()], 0.9, bottom=row + 0.8, color=RIGHT)
    ax.set(xlim=(-0.5, n - 0.5), ylim=(1 + len(shares), -0.1))
    ax.set_yticks([0.4 + k for k in range(1 + len(shares))], ["distance", *shares])
    ax.tick_params(length=0, labelsize=10)
    ax.spines[["left", "bottom"]].set_visible(False)


def _legend(canvas: Canvas, axes) -> None:
    bar = canvas.colorbar(
        ScalarMappable(LAYERS, SHADES), ax=axes, location="bottom", shrink=0.8, aspect=22, pad=0.02
    )
    bar.set_ticks([k + 0.5 for k in range(SHADES.N)], labels=[*map(str, range(MOST)), f"{MOST}+"])
    bar.ax.tick_params(length=0)
    bar.set_label("layers needed; hatched: never")


def _shown(hops: Tensor) -> numpy.ndarray:
    """Distances as numbers of the colour map; what is never reached stays hatched."""
    return hops.double().masked_fill(hops < 0, float("nan")).clamp(max=MOST).numpy()


def _told(hops: Tensor) -> str:
    never = int((hops < 0).sum())
    far = f"the farthest needs {int(hops.max())}"
    return f"{far}, {never} of {hops.numel()} pairs never hear" if never else far
