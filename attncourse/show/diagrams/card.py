"""A graphics card as pictures: its levels of memory, and the roof over what can be reached on it."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from attncourse.show.diagrams.boxes import arrow, blank, box
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure


def memory_levels(
    levels: list[tuple[str, str]], speeds: list[str], work: str, caption: str = ""
) -> Figure:
    """Boxes below each other, from the large memory to the small one, and what works at the end.

    Args:
        levels: name and size of each memory, the largest first. Each box is narrower than the one above.
        speeds: what is written at the arrow below each of them; may be empty.
        work: what computes.
    """
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.6, 0.92 * (len(levels) + 1))
        last = len(levels)
        for k, (name, size) in enumerate([*levels, (work, "")]):
            width = 10 - 1.4 * k
            label = f"{name}\n{size}" if size else name
            box(ax, -width / 2, -2.1 * k, width, 1.3, label, ACCENT if k == last else PALE, 10)
            if k < last:
                arrow(ax, (-0.25, -2.1 * k), (-0.25, -2.1 * k - 0.8))
                arrow(ax, (0.25, -2.1 * k - 0.8), (0.25, -2.1 * k))
                ax.text(0.6, -2.1 * k - 0.4, speeds[k], va="center", color=INK, fontsize=10)
    parts = "; ".join(f"{name}, {size}" for name, size in levels)
    said = f"{len(levels)} memories from large to small: {parts}. Below them: {work}."
    return Figure(canvas, said.replace("\n", " "), caption)


def roofline(
    cards: dict[str, tuple[float, float]],
    points: dict[str, float],
    on: str,
    caption: str = "",
) -> Figure:
    """What a card can reach at most, over the operations done for each byte moved; both axes logarithmic.

        reachable = min(peak, intensity * bandwidth)

    Args:
        cards: name: (10^12 FLOP/s, 10^12 bytes/s); up to three stay apart.
        points: name: FLOP/byte, drawn on the roof of the card ``on``.
    """
    low, high = 0.5, 20_000
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(5.4, 4.2), layout="constrained")
        ax = canvas.subplots()
        for (name, (peak, bandwidth)), style in zip(cards.items(), ("-", "--", "-."), strict=False):
            ridge = peak / bandwidth
            ax.plot([low, ridge, high], [low * bandwidth, peak, peak], style, linewidth=1.6)
            ax.annotate(name, (ridge, peak), (4, 3), textcoords="offset points")
        peak, bandwidth = cards[on]
        said = []
        for name, intensity in points.items():
            reached = min(peak, intensity * bandwidth)
            ax.plot([intensity], [reached], "o", color=ACCENT, markersize=8, zorder=5)
            ax.annotate(name, (intensity, reached), color=ACCENT, fontsize=10,
                        textcoords="offset points", **_beside(intensity, peak / bandwidth))  # fmt: skip
            said.append(f"{name} at {intensity:.3g} FLOP per byte under {reached:.3g} TFLOP/s")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set(xlabel="operations for each byte (FLOP/byte)", ylabel="reachable at most (TFLOP/s)")
        ax.set(xlim=(low, high), ylim=(0.3, 2.5 * max(p for p, _ in cards.values())))
    alt = f"Roofs of {len(cards)} cards, {', '.join(cards)}. On the {on}: {'; '.join(said)}."
    return Figure(canvas, alt, caption)


def _beside(intensity: float, ridge: float) -> dict:
    """Where the name of a point stands: above the roof, off the lines, and inside the picture."""
    if intensity < 10:
        line = {"arrowstyle": "-", "color": ACCENT, "linewidth": 0.8}
        return {"xytext": (-18, 56), "ha": "left", "va": "bottom", "arrowprops": line}
    if intensity < ridge:
        return {"xytext": (-9, 3), "ha": "right", "va": "bottom"}
    return {"xytext": (0, 9), "ha": "center", "va": "bottom"}
