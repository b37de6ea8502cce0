"""The machine code of a loop as a picture: where its products, exponentials, loads and waits stand."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from attncourse.show.figure import STYLE, Figure

# Lanes of the picture, and the letters of the instructions that stand in each: q is the last product of a group, y
# waits until one group is under way, z until none is.
LANES = {"product": "pq", "exponential": "e", "load": "l", "wait": "wyz"}
COLORS = ["#b85000", "#0b5394", "#1b7837", "#444444"]


def under_way(code: str) -> list[tuple[int, int]]:
    """From the first product of a group to the wait that ends it, over one turn of a loop, in order.

    A group runs beside what follows it. What is not waited for runs on into the next turn, from 0 on.
    """
    running: list[int] = []
    for _ in range(2):
        begun: int | None = None
        found: list[tuple[int, int]] = []
        running = [0 for _ in running]
        for k, x in enumerate(code):
            if x == "q":
                running, begun = [*running, k if begun is None else begun], None
            if x == "p" and begun is None:
                begun = k
            if x in "yz":
                left = min(len(running), "zy".index(x))
                found += [(start, k) for start in running[: len(running) - left]]
                running = running[len(running) - left :]
    return sorted(found + [(start, len(code)) for start in running])


def code_strips(loops: dict[str, str], caption: str = "") -> Figure:
    """One turn of each loop from its first instruction to its last; a bar for each instruction of a kind.

    A line goes from the first product of a group to the wait that ends it: so long may it be under way.

    Args:
        loops: name: a letter for each instruction, in order; one that has no lane leaves a gap. Up to three.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(5.4, 1.75 * len(loops) + 0.3), layout="constrained")
        axes = canvas.subplots(len(loops), 1, squeeze=False)[:, 0]
        said = []
        for ax, (name, code) in zip(axes, loops.items(), strict=True):
            found = {x: [k for k, y in enumerate(code) if y in LANES[x]] for x in LANES}
            ax.eventplot(
                list(found.values()), lineoffsets=range(len(LANES)), linelengths=0.7, linewidths=1.4,
                colors=COLORS,
            )  # fmt: skip
            spans = under_way(code)
            ax.hlines([0.0] * len(spans), *zip(*spans, strict=True), color=COLORS[0], linewidth=2.5)
            ax.set_yticks(range(len(LANES)), LANES)
            ax.set(ylim=(len(LANES) - 0.5, -0.5), xlim=(0, len(code)))
            ax.set_title(name, fontsize=11, loc="left")
            counts = ", ".join(f"{len(at)} {lane}s" for lane, at in found.items())
            share = sum(any(a < k < b for a, b in spans) for k in range(len(code))) / len(code)
            said.append(
                f"{name}: {len(code)} instructions with {counts}; products run beside {share:.0%} of them"
            )
        axes[-1].set_xlabel("instruction of one turn")
    return Figure(canvas, f"Machine code of {len(loops)} loops. {'; '.join(said)}.", caption)
