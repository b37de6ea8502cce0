"""The pictures of distances: what they say is what they show, and they fit a phone."""

import pytest
import torch
from support.book.figures import speaks

from attncourse.show import diagrams

CHAIN = torch.tensor([[0, -1, -1], [1, 0, -1], [2, 1, 0]])  # news goes to the right only
FAR = 6 * (1 - torch.eye(3, dtype=torch.long))
SHARES = {"1 layer": torch.tensor([1.0, 0.95, 0.1]), "2 layers": torch.tensor([1.0, 1.0, 0.9])}
FIGURES = {
    "relay": lambda: diagrams.relay(n=13, reach=5),
    "hop_maps": lambda: diagrams.hop_maps({"chain": CHAIN, "far": FAR, "third": CHAIN}),
    "hop_strips": lambda: diagrams.hop_strips({"chain": (CHAIN[:, 0], SHARES)}),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_pictures_speak_and_are_narrow(make):
    speaks(make)


def test_news_takes_as_many_layers_as_the_way_has_windows():
    figure = FIGURES["relay"]()
    assert "news of token 0 needs 3 layers to reach token 12" in figure.alt  # 0, 5, 10, 12
    assert figure.alt.endswith(", 2.")
    (ax,) = figure.canvas.axes
    said = [text.get_text() for text in ax.texts]
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
    # Beyond four layers there is one colour for all.
    assert far.images[0].get_array().max() == 5
    assert chain.get_ylabel() == "query"
    assert not figure.canvas.axes[3].axison, "an empty place of the grid"


def test_a_strip_shows_the_share_of_right_answers():
    figure = FIGURES["hop_strips"]()
    assert "chain: of 3 tokens nearly always right, 1 layer 2, 2 layers 2" in figure.alt
    heights = [-bar.get_height() / 0.8 for row in figure.canvas.axes[0].containers for bar in row]
    assert heights == pytest.approx([1.0, 0.95, 0.1, 1.0, 1.0, 0.9])
