"""A sentence with arcs: which word wants something of which other one."""

import matplotlib as mpl
from matplotlib.patches import Arc

from attncourse.show.diagrams.boxes import blank
from attncourse.show.figure import INK, STYLE, Figure

COLOURS = ("#0b5394", "#b85000")  # readable on white, and apart for colour-blind eyes


def arcs_diagram(
    sentences: list[str], links: list[list[tuple[int, int, str]]], caption: str = ""
) -> Figure:
    """Sentences one below the other, with an arc over each pair of words that belong together.

    Args:
        sentences: their words stand apart by blanks.
        links: for each sentence (from, to, text) by the numbers of the words; the text stands over the
            arc. The first arc of a sentence is drawn in one colour, the second in another.
    """
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.4, 1.35 * len(sentences))
        for row, (sentence, arcs) in enumerate(zip(sentences, links, strict=True)):
            _draw_sentence(ax, -3.2 * row, sentence.split(), arcs)
        ax.set_aspect("equal")
    told = [
        f"{words[a]} to {words[b]}: {text}"
        for words, arcs in zip((s.split() for s in sentences), links, strict=True)
        for a, b, text in arcs
    ]
    alt = f"{len(sentences)} sentences: {'; '.join(sentences)}. Arcs lead from {', from '.join(told)}."
    return Figure(canvas, alt, caption)


def _draw_sentence(ax, y: float, words: list[str], arcs) -> None:
    centres, left = [], 0.0
    for word in words:
        width = 0.36 * len(word) + 0.55
        centres.append(left + width / 2)
        ax.text(centres[-1], y, word, ha="center", va="center", color=INK, fontsize=14)
        left += width
    ax.update_datalim([(0, y - 0.5), (left, y + 2.4)])
    ax.autoscale_view()
    for (a, b, text), colour in zip(arcs, COLOURS, strict=False):
        start, end = centres[a], centres[b]
        middle, span = (start + end) / 2, abs(end - start)
        side = 0.25 if end > start else -0.25  # two arcs from one word begin beside each other
        bow = Arc(
            (middle + side / 2, y + 0.45),
            span - 0.25,
            2.2,
            theta1=0,
            theta2=180,
            color=colour,
            lw=2.2,
        )
        ax.add_patch(bow)
        ax.plot(end, y + 0.52, marker="v", color=colour, markersize=7)
        ax.text(middle, y + 1.7, text, ha="center", va="bottom", color=colour, fontsize=13)
