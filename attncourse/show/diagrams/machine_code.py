"""The machine code of a loop as a picture: where its products, exponentials, loads and waits stand."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from attncourse.show.figure import STYLE, Figure

# Lanes of the picture, and the letter of the instructions that stand in each.
LANES = {"product": "p", "exponential": "e", "load": "l", "wait": "w"}


def code_strips(loops: dict[str, str], caption: str = "") -> Figure:
    """One turn of each loop from its first instruction to its last; a line for each instruction of a kind.

    Args:
        loops: name: a letter for each instruction, in order; one that has no lane leaves a gap. Up to three.
    """
    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(5.4, 1.75 * len(loops) + 0.3), layout="constrained")
        axes = canvas.subplots(len(loops), 1, squeeze=False)[:, 0]
        said = []
        for ax, (name, code) in zip(axes, loops.items(), strict=True):
            found = {x: [k for k, y in enumerate(code) if y == LANES[x]] for x in LANES}
            ax.eventplot(
                list(found.values()), lineoffsets=range(len(LANES)), linelengths=0.7, linewidths=1.4,
                colors=["#b85000", "#0b5394", "#1b7837", "#444444"],
            )  # fmt: skip
            ax.set_yticks(range(len(LANES)), LANES)
            ax.set(ylim=(len(LANES) - 0.5, -0.5), xlim=(0, len(code)))
            ax.set_title(name, fontsize=11, loc="left")
            counts = ", ".join(f"{len(at)} {lane}s" for lane, at in found.items())
            said.append(f"{name}: {len(code)} instructions with {counts}")
        axes[-1].set_xlabel("instruction of one turn")
    return Figure(canvas, f"Machine code of {len(loops)} loops. {'; '.join(said)}.", caption)
