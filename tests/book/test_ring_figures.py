"""The pictures of the ring: what they say is what they show, and they fit a phone."""

import pytest
import torch
from support.book.figures import speaks

from attncourse.show import diagrams

UNEVEN = {"two": [[0.5, 0.0], [0.5, 1.0]], "even": [[0.5, 0.5], [0.5, 0.5]]}
VISITS = {
    "own": ([0, 1], [0, 1], torch.tensor([[True, False], [True, True]])),
    "later": ([0, 1], [2, 3], torch.zeros(2, 2, dtype=torch.bool)),
}
FIGURES = {
    "ring_diagram": diagrams.ring_diagram,
    "ring_timeline": lambda: diagrams.ring_timeline(UNEVEN),
    "ring_visits": lambda: diagrams.ring_visits(VISITS),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_pictures_speak_and_are_narrow(make):
    speaks(make)


def test_a_step_lasts_as_long_as_its_slowest_machine():
    figure = FIGURES["ring_timeline"]()
    assert "two: done after 1.5 blocks, the machines work 33%, 100% of it" in figure.alt
    assert "even: done after 1 blocks, the machines work 100%, 100% of it" in figure.alt
    first, second = figure.canvas.axes
    ends = [max(bar.get_x() + bar.get_width() for bar in ax.patches) for ax in (first, second)]
    assert ends == [1.5, 1.0]
    assert first.get_xlim()[0] == 0
    # The block that visits: machine 1 has its own first, then that of machine 0; machine 0 idles meanwhile.
    assert [text.get_text() for text in first.texts] == ["0", "1", "0"]


def test_of_a_visitor_the_visible_pairs_are_shaded():
    figure = FIGURES["ring_visits"]()
    assert "own: 3 of 4 pairs; later: 0 of 4 pairs" in figure.alt
    own, later = figure.canvas.axes
    assert {patch.get_xy() for patch in own.patches} == {(0, 0), (0, 1), (1, 1)}, "key, query"
    assert not later.patches
    assert [label.get_text() for label in later.get_xticklabels()] == ["2", "3"]
