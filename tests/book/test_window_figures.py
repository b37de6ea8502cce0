"""The pictures of windows: what they say is what they show, and they fit a phone."""

import matplotlib as mpl
import pytest
import torch
from support.book.figures import speaks

from attncourse.show import diagrams
from attncourse.show.diagrams.windows import BLUE, IN_VAIN
from attncourse.show.figure import ACCENT

BAND = torch.ones(6, 6, dtype=torch.bool).tril().triu(-2)
READS = [(0, 2), (0, 4), (2, 6)]
SEEN = {"1 layer": [1.0, 0.9, 0.1, 0.0], "2 layers": [1.0, 0.95, 0.92, 0.97]}
FIGURES = {
    "causal_and_window": lambda: diagrams.causal_and_window(8, 2),
    "window_blocks": lambda: diagrams.window_blocks(BAND, 2, READS),
    "rolling_slots": lambda: diagrams.rolling_slots(["a", "b", "c", "d", "e"], 3),
    "shifted_windows": lambda: diagrams.shifted_windows(8, 4, query=(3, 1)),
    "receptive_field": lambda: diagrams.receptive_field(2, 3, 10),
    "cliff": lambda: diagrams.cliff(SEEN, [1, 5], 0.0625, "position"),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_pictures_speak_and_are_narrow(make):
    speaks(make)


def filled(ax, colour: str) -> set:
    """The places of the rectangles of one colour."""
    colour = mpl.colors.to_rgba(colour)
    return {p.get_xy() for p in ax.patches if p.get_facecolor() == colour and p.get_fill()}


def test_pairs_are_counted_as_a_mask_would():
    visible = torch.ones(8, 8).tril()
    assert f"{int(visible.sum())} pairs; on the right" in FIGURES["causal_and_window"]().alt
    assert f"{int(visible.triu(-2).sum())} pairs." in FIGURES["causal_and_window"]().alt


def test_blocks_cover_the_band():
    figure = FIGURES["window_blocks"]()
    (ax,) = figure.canvas.axes
    assert filled(ax, BLUE) == {(j, i) for i, j in BAND.nonzero().tolist()}
    assert filled(ax, IN_VAIN) == {(0, 0), (0, 2), (2, 4)}
    assert "15 pairs are wanted" in figure.alt
    assert "with 20 pairs; the other 16" in figure.alt


def test_a_token_takes_the_place_of_the_oldest():
    figure = FIGURES["rolling_slots"]()
    (ax,) = figure.canvas.axes
    rows = {t: {} for t in range(5)}
    for text in ax.texts:
        slot, step = (int(x) for x in text.get_position())
        rows[step][slot] = text.get_text()
    assert rows[1] == {0: "a", 1: "b"}
    assert rows[4] == {0: "d", 1: "e", 2: "c"}
    assert filled(ax, ACCENT) == {(0, 0), (1, 1), (2, 2), (0, 3), (1, 4)}
    assert "2 times here" in figure.alt


def test_a_shifted_window_reaches_across_the_border():
    figure = FIGURES["shifted_windows"]()
    first, second = (filled(ax, "#9ec1e0") for ax in figure.canvas.axes)
    rows = [{y for _, y in places} for places in (first, second)]
    assert rows == [{0, 1, 2, 3}, {2, 3, 4, 5}]
    assert "reads the 16 of its own" in figure.alt
    assert "its window of 8 patches" in figure.alt, "at the edge of the picture a window is cut"


def test_the_reach_grows_by_the_window_in_every_layer():
    figure = FIGURES["receptive_field"]()
    assert "stand 4, 7 positions of the layers below" in figure.alt
    assert "all from 3 on" in figure.alt
    (ax,) = figure.canvas.axes
    lowest = {0: 9, 1: 9}  # where the lines of each layer end
    for line in ax.lines:
        (_, end), (_, layer) = line.get_xdata(), line.get_ydata()
        lowest[layer] = min(lowest[layer], end)
    assert lowest == {1: 6, 0: 3}


def test_a_cliff_says_what_lies_before_and_behind_it():
    figure = FIGURES["cliff"]()
    assert "1 layer: at least 0.90 up to position 1, 0.10 at most after it" in figure.alt
    assert "2 layers: at least 0.92 up to position 5, none after it" in figure.alt
    heights = [[bar.get_height() for bar in ax.patches] for ax in figure.canvas.axes]
    assert heights == list(SEEN.values())
    assert all(ax.get_ylim()[0] == 0 for ax in figure.canvas.axes)
