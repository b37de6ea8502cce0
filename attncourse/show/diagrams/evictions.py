"""What a cache keeps of a text that is longer than the cache."""

import matplotlib as mpl
from matplotlib.patches import Rectangle

from attncourse.show.diagrams.boxes import blank
from attncourse.show.figure import ACCENT, INK, PALE, STYLE, Figure

GONE = "#9aa0a6"


def kept_tokens(rows: dict[str, dict[int, str]], num_sinks: int, caption: str = "") -> Figure:
    """Rows of tokens in the order of the text: those that a cache keeps are filled, the others are crossed out.

    Args:
        rows: by title, what stands on each token that is kept; the last one is the newest in all rows.
        num_sinks: tokens of the beginning that are drawn in colour where they are kept.
    """
    n = 1 + max(max(kept) for kept in rows.values())
    with mpl.rc_context(STYLE):
        canvas, ax = blank(4.4, 0.85 * len(rows))
        for row, (title, kept) in enumerate(rows.items()):
            y = -2.3 * row
            ax.text(0, y + 1.15, title, ha="left", va="bottom", color=INK, fontsize=11)
            for token in range(n):
                _slot(ax, token, y, kept.get(token), token < num_sinks)
        ax.set(xlim=(-0.1, n + 0.1), ylim=(-2.3 * (len(rows) - 1) - 0.1, 2.0))
    told = "; ".join(f"{title}: {len(kept)} of {n}, {_told(kept)}" for title, kept in rows.items())
    alt = f"Tokens 0 to {n - 1} of a text, and which of them are kept. {told}."
    return Figure(canvas, alt, caption)


def _slot(ax, token: int, y: float, text: str | None, sink: bool) -> None:
    """One token: with its text where it is kept, else a cross in an empty frame."""
    colour = "white" if text is None else ACCENT if sink else PALE
    edge = GONE if text is None else INK
    ax.add_patch(
        Rectangle((token + 0.06, y), 0.88, 1, facecolor=colour, edgecolor=edge, linewidth=0.9)
    )
    if text is None:
        ax.plot([token + 0.3, token + 0.7], [y + 0.3, y + 0.7], color=GONE, linewidth=1.1)
        ax.plot([token + 0.3, token + 0.7], [y + 0.7, y + 0.3], color=GONE, linewidth=1.1)
        return
    ink = "white" if sink else INK
    ax.text(token + 0.5, y + 0.48, text, ha="center", va="center", color=ink, fontsize=11)


def _told(kept: dict[int, str]) -> str:
    """Which tokens are kept, neighbours as spans, and what stands on them if it is not their number."""
    starts, ends = ([t for t in sorted(kept) if t + step not in kept] for step in (-1, 1))
    spans = zip(starts, ends, strict=True)
    told = " and ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in spans)
    same = all(text == str(token) for token, text in kept.items())
    return told if same else f"{told}, marked {', '.join(kept.values())}"
