"""The pictures of positions: hands where their angles say, curves with their names, texts with numbers."""

import math
import re

import pytest
from matplotlib.text import Annotation
from support.book.figures import speaks

from attncourse.show import diagrams

CURVES = {"ours": [2.0, 2.5, 3.0], "theirs": [2.0, 2.1, 2.95]}
FIGURES = {
    "words": lambda: diagrams.same_words(["a", "b", "c"], ["c", "b", "a"]),
    "clocks": lambda: diagrams.clocks([0, 1, 30], [1.0, 0.1]),
    "pairs": lambda: diagrams.turned_pairs(1.2, 0.3, 0.5, [(1, 0), (3, 2), (3, 0)]),
    "lengths": lambda: diagrams.beyond_training([CURVES, CURVES], [8, 24, 40], 16, "loss (nats)"),
}


def hands(figure) -> list[float]:
    """The angles of all hands, in degrees from 0 to 360."""
    found = [x for x in figure.canvas.axes[0].texts if isinstance(x, Annotation)]
    return [
        math.degrees(math.atan2(x.xy[1] - x.xyann[1], x.xy[0] - x.xyann[0])) % 360 for x in found
    ]


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_figure(make):
    speaks(make, inches=7)


def test_hands_start_at_3_o_clock_and_turn_counter_clockwise():
    expected = [0.0, 0.0, *(math.degrees(p * w) % 360 for p in (1, 30) for w in (1.0, 0.1))]
    assert hands(FIGURES["clocks"]()) == pytest.approx(expected)
    assert "they stand at 279, 172 degrees" in FIGURES["clocks"]().alt


def test_the_angle_between_the_hands_is_told():
    figure = FIGURES["pairs"]()
    angles = hands(figure)
    between = [abs(a - b) for a, b in zip(angles[::2], angles[1::2], strict=True)]
    said = [int(x) for x in re.findall(r"(\d+) degrees between", figure.alt)]
    assert said == [round(x) for x in between] == [80, 80, 138]


def test_names_of_curves_keep_apart():
    ax = FIGURES["lengths"]().canvas.axes[0]
    heights = sorted(x.xy[1] for x in ax.texts if isinstance(x, Annotation))
    assert heights[1] - heights[0] >= 0.15
    assert {x.get_text() for x in ax.texts} >= set(CURVES)


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="the same words"):
        diagrams.same_words(["a"], ["b"])
