"""The pictures of windows and of distances: what they say is what they show, and they fit a phone."""

import pytest
import torch
from support.book.figures import filled, speaks, texts

from attncourse.show import diagrams
from attncourse.show.diagrams.windows import BLUE, IN_VAIN
from attncourse.show.figure import ACCENT

BAND = torch.ones(6, 6, dtype=torch.bool).tril().triu(-2)
READS = [(0, 2), (0, 4), (2, 6)]
SEEN = {"1 layer": [1.0, 0.9, 0.1, 0.0], "2 layers": [1.0, 0.95, 0.92, 0.97]}
CHAIN = torch.tensor([[0, -1, -1], [1, 0, -1], [2, 1, 0]])  # news goes to the right only
FAR = 6 * (1 - torch.eye(3, dtype=torch.long))
SHARES = {"1 layer": torch.tensor([1.0, 0.95, 0.1]), "2 layers": torch.tensor([1.0, 1.0, 0.9])}
FIGURES = {
    "causal_and_window": lambda: diagrams.causal_and_window(8, 2),
    "window_blocks": lambda: diagrams.window_blocks(BAND, 2, READS),
    "rolling_slots": lambda: diagrams.rolling_slots(["a", "b", "c", "d", "e"], 3),
    "shifted_windows": lambda: diagrams.shifted_windows(8, 4, query=(3, 1)),
    "receptive_field": lambda: diagrams.receptive_field(2, 3, 10),
    "cliff": lambda: diagrams.cliff(SEEN, [1, 5], 0.0625, "position"),
    "relay": lambda: diagrams.relay(n=13, reach=5),
    "hop_maps": lambda: diagrams.hop_maps({"chain": CHAIN, "far": FAR, "third": CHAIN}),
    "hop_strips": lambda: diagrams.hop_strips({"chain": (CHAIN[:, 0], SHARES)}),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_pictures_speak_and_are_narrow(make):
    speaks(make)


def places(ax, colour: str) -> set:
    return {patch.get_xy() for patch in filled(ax, colour)}


# Windows


def test_pairs_are_counted_as_a_mask_would():
    visible = torch.ones(8, 8).tril()
    assert f"{int(visible.sum())} pairs; on the right" in FIGURES["causal_and_window"]().alt
    assert f"{int(visible.triu(-2).sum())} pairs." in FIGURES["causal_and_window"]().alt


def test_blocks_cover_the_band():
    figure = FIGURES["window_blocks"]()
    (ax,) = figure.canvas.axes
    assert places(ax, BLUE) == {(j, i) for i, j in BAND.nonzero().tolist()}
    assert places(ax, IN_VAIN) == {(0, 0), (0, 2), (2, 4)}
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
    assert places(ax, ACCENT) == {(0, 0), (1, 1), (2, 2), (0, 3), (1, 4)}
    assert "2 times here" in figure.alt


def test_a_shifted_window_reaches_across_the_border():
    figure = FIGURES["shifted_windows"]()
    rows = [{y for _, y in places(ax, "#9ec1e0")} for ax in figure.canvas.axes]
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


# Distances


def test_news_takes_as_many_layers_as_the_way_has_windows():
    figure = FIGURES["relay"]()
    assert "news of token 0 needs 3 layers to reach token 12" in figure.alt  # 0, 5, 10, 12
    assert figure.alt.endswith(", 2.")
    said = texts(figure)
    assert said.count("3") == 1, "the last of three steps; over the global token there are two"
    assert said[0].endswith("3 layers")


def test_a_map_has_a_colour_for_each_distance_and_none_for_never():
    figure = FIGURES["hop_maps"]()
    assert "chain: the farthest needs 2, 3 of 9 pairs never hear" in figure.alt
    assert "far: the farthest needs 6;" in figure.alt
    chain, far = figure.canvas.axes[:2]
    (image,) = chain.images
    assert image.get_array().mask.tolist() == (CHAIN < 0).tolist()
    assert chain.patch.get_hatch(), "what is left out is hatched, not as light as a long way"
    assert far.images[0].get_array().max() == 5, "beyond four layers there is one colour for all"
    assert chain.get_ylabel() == "query"
    assert not figure.canvas.axes[3].axison, "an empty place of the grid"


def test_a_strip_shows_the_share_of_right_answers():
    figure = FIGURES["hop_strips"]()
    assert "chain: of 3 tokens nearly always right, 1 layer 2, 2 layers 2" in figure.alt
    heights = [-bar.get_height() / 0.8 for row in figure.canvas.axes[0].containers for bar in row]
    assert heights == pytest.approx([1.0, 0.95, 0.1, 1.0, 1.0, 0.9])
