"""A ring of machines: who holds what and hands what to whom, what is read of a visitor, and who works when."""

import matplotlib as mpl
from jaxtyping import Bool
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from torch import Tensor

from attncourse.show.diagrams.boxes import arrow, blank, box
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

WORKING = "#9ec1e0"


def ring_diagram(caption: str = "") -> Figure:
    """Four machines in a square. Queries stay where they are; keys and values go to the next machine."""
    places = {0: (0, 3), 1: (5.4, 3), 2: (5.4, 0), 3: (0, 0)}
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.6, 3.0)
        for r, (x, y) in places.items():
            ax.text(x + 1.9, y + 2.0, f"machine {r}", ha="center", va="bottom", fontsize=11)
            box(ax, x, y + 1.05, 3.8, 0.8, f"queries, part {r}", PALE, 10)
            box(ax, x, y, 3.8, 0.8, f"keys, values, part {r}", ACCENT, 10)
        arrow(ax, (3.8, 3.4), (5.4, 3.4))
        ax.plot([9.2, 9.7, 9.7], [3.4, 3.4, 0.4], color=INK, linewidth=1.2)
        arrow(ax, (9.7, 0.4), (9.2, 0.4))
        arrow(ax, (5.4, 0.4), (3.8, 0.4))
        ax.plot([0, -0.5, -0.5], [0.4, 0.4, 3.4], color=INK, linewidth=1.2)
        arrow(ax, (-0.5, 3.4), (0, 3.4))
        ax.set(xlim=(-0.7, 9.9), ylim=(-0.1, 5.5))
    alt = (
        "Four machines in a ring, 0 to 3. Machine r holds part r of the queries, which stays, and begins "
        "with part r of the keys and values, which it hands to the next machine; machine 3 hands to machine 0."
    )
    return Figure(canvas, alt, caption)


def ring_visits(
    visits: dict[str, tuple[list, list, Bool[Tensor, "n n"]]], caption: str = ""
) -> Figure:
    """What the queries of one machine read of blocks that visit it, each a square of queries and keys.

    Args:
        visits: by name, the positions of the queries, those of the keys, and which pairs are visible.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, 2.1), layout="constrained")
        axes = canvas.subplots(1, len(visits), squeeze=False)[0]
        for ax, (name, (queries, keys, visible)) in zip(axes, visits.items(), strict=True):
            n = len(keys)
            for i, j in visible.nonzero().tolist():
                ax.add_patch(Rectangle((j, i), 1, 1, facecolor=WORKING, edgecolor="white"))
            ax.axhline(n / 2, color=INK, linewidth=1)
            ax.axvline(n / 2, color=INK, linewidth=1)
            middles = [k + 0.5 for k in range(n)]
            ax.set_xticks(middles, keys, fontsize=10)
            ax.set_yticks(middles, queries if ax is axes[0] else [], fontsize=10)
            ax.tick_params(length=0)
            ax.spines[["top", "right"]].set_visible(True)
            ax.set(xlim=(0, n), ylim=(n, 0), aspect="equal", xlabel="keys")
            ax.set_title(name, fontsize=11)
        axes[0].set_ylabel("queries")
    said = [f"{name}: {int(x.sum())} of {x.numel()} pairs" for name, (_, _, x) in visits.items()]
    return Figure(
        canvas,
        f"Squares of queries and keys, shaded where a query reads a key. {'; '.join(said)}.",
        caption,
    )


def ring_timeline(panels: dict[str, list[list[float]]], caption: str = "") -> Figure:
    """Who works when: a bar for each machine and step, its length the work; what is left of a step is idle.

    Args:
        panels: by name, ``work[r][t]``: what machine r does in step t, in units of one whole block. A step
            ends for all when the slowest has finished.
    """
    said = []
    height = sum(0.9 + 0.36 * len(work) for work in panels.values())
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(4.6, height), layout="constrained")
        axes = canvas.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for ax, (name, work) in zip(axes, panels.items(), strict=True):
            longest = [max(step) for step in zip(*work, strict=True)]
            end, busy = sum(longest), [sum(mine) for mine in work]
            for r, mine in enumerate(work):
                _bars(ax, r, mine, longest)
            ax.set_title(f"{name}: done after {end:.3g}", fontsize=11, loc="left")
            ax.set_yticks(range(len(work)), [f"machine {r}" for r in range(len(work))])
            ax.set(ylim=(len(work) - 0.4, -0.6))
            shares = ", ".join(f"{x / end:.0%}" for x in busy)
            said.append(f"{name}: done after {end:.3g} blocks, the machines work {shares} of it")
        axes[-1].set(xlabel="time, in whole blocks", xlim=(0, None))
    return Figure(canvas, f"Bars over time for each machine. {'; '.join(said)}.", caption)


def _bars(ax, r: int, mine: list[float], longest: list[float]) -> None:
    """One machine's row: the number of the visiting block on each bar, hatches where it waits."""
    start = 0.0
    for t, (work, lasts) in enumerate(zip(mine, longest, strict=True)):
        ax.barh(
            r,
            lasts,
            0.7,
            left=start,
            color="white",
            edgecolor="#9aa0a6",
            hatch="////",
            linewidth=0.5,
        )
        if work:
            ax.barh(r, work, 0.7, left=start, color=WORKING, edgecolor=INK, linewidth=0.8)
            block = str((r - t) % len(mine))
            ax.text(start + work / 2, r, block, ha="center", va="center", color=INK, fontsize=10)
        start += lasts
