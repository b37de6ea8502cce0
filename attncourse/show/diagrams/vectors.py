"""Words as arrows, and who takes how much from whom."""

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Arc
from torch import Tensor

from attncourse.show.figure import ACCENT, INK, STYLE, Figure

ROLES = {"query": ACCENT, "key": "#0b5394", "value": "#1b7837", "output": "#7b3294"}


def arcs(words: list[str], weights: list[float], reader: int, caption: str = "") -> Figure:
    """A sentence, with an arc from one word to each of the others: the thicker, the more it takes.

    Args:
        words: the sentence; up to 8 short words fit on a phone.
        weights: one for each word, they sum to 1; written below the words in per cent.
        reader: the place of the word that reads.
    """
    if len(weights) != len(words):
        raise ValueError(f"expected {len(words)} weights, one for each word; got {len(weights)}")
    middles, right = [], 0.0
    for word in words:  # about as wide as the letters are
        middles.append(right + len(word) / 2)
        right += len(word) + 1.6
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 1.9), layout="constrained")
        ax = canvas.subplots()
        ax.set_axis_off()
        ax.set(xlim=(-1, right), ylim=(-2.3, 7.5))
        for k, (word, x, w) in enumerate(zip(words, middles, weights, strict=True)):
            width = abs(x - middles[reader])
            if k != reader:
                middle, height = (x + middles[reader]) / 2, 2.2 + 10 * width / right
                style: dict[str, Any] = {
                    "linewidth": 0.8 + 9 * w,
                    "color": ACCENT,
                    "alpha": 0.35 + 0.65 * w,
                }
                ax.add_patch(Arc((middle, 1), width, height, theta1=0, theta2=180, **style))
            bold: dict[str, Any] = (
                {"fontweight": "bold", "color": ACCENT} if k == reader else {"color": INK}
            )
            ax.text(x, 0, word, ha="center", va="center", fontsize=13, **bold)
            ax.text(x, -1.7, f"{w:.0%}", ha="center", va="center", fontsize=10, color=INK)
    taken = ", ".join(f"{word} {w:.0%}" for word, w in zip(words, weights, strict=True))
    return Figure(canvas, f"The word {words[reader]} takes from the sentence: {taken}.", caption)


def arrows(
    vectors: dict[str, dict[str, Tensor]],
    *,
    xlabel: str,
    ylabel: str,
    shadows_on: str | None = None,
    caption: str = "",
) -> Figure:
    """Arrows from the origin of a plane, coloured by their role.

    Args:
        vectors: ``vectors[role][name]``, two numbers each; the roles are those of `ROLES`.
        shadows_on: name of an arrow (the first of that name); every other one drops a dotted line onto its direction, and how
            far from the origin that line lands tells the dot product.
    """
    flat = {
        (role, n): tuple(v.tolist()) for role, named in vectors.items() for n, v in named.items()
    }
    unknown = set(vectors) - set(ROLES)
    if unknown:
        raise ValueError(f"roles are {', '.join(ROLES)}; got {', '.join(sorted(unknown))}")
    target = next((key for key in flat if key[1] == shadows_on), None)
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.2, 3.0), layout="constrained")
        ax = canvas.subplots()
        for axis in (ax.axhline, ax.axvline):
            axis(0, color="#9aa0a6", linewidth=0.8)
        for (role, name), (x, y) in flat.items():
            if target not in (None, (role, name)):
                _shadow(ax, (x, y), flat[target])
            ax.annotate("", (x, y), (0, 0), arrowprops={
                "arrowstyle": "-|>", "color": ROLES[role], "linewidth": 2.2,
                "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14})  # fmt: skip
            ax.annotate(f"{role} of {name}" if role == "query" else name, (x, y), (5, 5),
                        textcoords="offset points", color=ROLES[role], fontweight="bold")  # fmt: skip
        ax.set(xlabel=xlabel, ylabel=ylabel)
        xs, ys = ([v[axis] for v in flat.values()] for axis in (0, 1))
        ax.set(xlim=_room(xs, 0.3), ylim=_room(ys, 0.25))
        ax.set_aspect("equal")  # or right angles would not look right
    said = "; ".join(f"{role} of {n} ({x:.2g}, {y:.2g})" for (role, n), (x, y) in flat.items())
    return Figure(canvas, f"{len(flat)} arrows from the origin: {said}.", caption)


def _shadow(ax, vector, target):
    """The dotted line from the tip of a vector, straight down onto the direction of the target."""
    share = (vector[0] * target[0] + vector[1] * target[1]) / (target[0] ** 2 + target[1] ** 2)
    foot = (share * target[0], share * target[1])
    ax.plot(*zip(vector, foot, strict=True), ":", color=INK, linewidth=1.2)
    ax.plot(*foot, "o", color=INK, markersize=4)


def _room(values: list[float], share: float) -> tuple[float, float]:
    low, high = min(0.0, *values), max(0.0, *values)
    return low - 0.12 * (high - low), high + share * (high - low)
