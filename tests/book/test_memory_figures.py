"""The picture of memories: bars are as long as what is said, and colour marks what is wrong in the end."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from support.book.figures import speaks

from attncourse.show import diagrams
from attncourse.show.figure import ACCENT

WRITES = ["a is 4", "a is 6"]
SAYS = {"adds": [{"a": 4}, {"a": 10}], "corrects": [{"a": 4}, {"a": 6}]}


def test_bars_are_in_proportion_and_wrong_ones_in_colour():
    figure = diagrams.memories(WRITES, SAYS, {"a": 6})
    assert figure.alt == (
        "Written one after the other: a is 4; a is 6. What memories say then: adds: a 10; corrects: a 6. "
        "Right is a 6."
    )
    (ax,) = figure.canvas.axes
    bars = [x for x in ax.patches if isinstance(x, Rectangle)]
    assert [round(10 * x.get_width() / bars[1].get_width()) for x in bars] == [4, 10, 4, 6]
    assert [to_hex(x.get_facecolor()) == ACCENT for x in bars] == [False, True, False, False]
    speaks(lambda: diagrams.memories(WRITES, SAYS, {"a": 6}))


def test_every_memory_answers_after_every_write():
    with pytest.raises(ValueError, match="expected 2 answers of 'adds', one for each write; got 1"):
        diagrams.memories(WRITES, {"adds": [{"a": 4}]}, {"a": 6})
