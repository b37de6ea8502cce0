"""The pictures of caches that forget: what is crossed out is what they say is gone."""

from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from support.book.figures import speaks

from attncourse.show import diagrams
from attncourse.show.figure import ACCENT

ROWS = {"the last 2": {2: "2", 3: "3"}, "one and the last": {0: "a", 3: "b"}}


def test_kept_tokens_are_filled_and_sinks_are_coloured():
    figure = diagrams.kept_tokens(ROWS, num_sinks=1)
    assert (
        "the last 2: 2 of 4, 2 to 3; one and the last: 2 of 4, 0 and 3, marked a, b." in figure.alt
    )
    speaks(lambda: diagrams.kept_tokens(ROWS, num_sinks=1))
    (ax,) = figure.canvas.axes
    slots = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert len(slots) == 8
    assert [x.get_facecolor()[:3] == (1, 1, 1) for x in slots] == [1, 1, 0, 0, 0, 1, 1, 0]
    coloured = [k for k, x in enumerate(slots) if to_hex(x.get_facecolor()) == ACCENT]
    assert coloured == [4], "token 0 of the second row; the first has lost it"
    assert len(ax.lines) == 2 * 4, "a cross on each of the four that are gone"
    assert [x.get_text() for x in ax.texts if x.get_text() not in ROWS] == ["2", "3", "a", "b"]


def test_a_line_stands_at_each_event():
    figure = diagrams.over_position([{"one": [1.0, 2.0]}], [8, 24], {16: "it leaves"}, "loss")
    assert figure.alt == "loss over position, it leaves at 16: one from 1.00 to 2.00."
    (ax,) = figure.canvas.axes
    assert [x.get_xdata()[0] for x in ax.lines[1:]] == [16]
    assert " it leaves here" in [x.get_text() for x in ax.texts]
