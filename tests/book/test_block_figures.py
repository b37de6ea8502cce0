"""The pictures of the transformer: what they say is what they show, and they fit a phone."""

import pytest
from support.book.figures import speaks, texts

from attncourse.show import diagrams

FIGURES = {
    "next_word": lambda: diagrams.next_word(["The", "cat"], {"sat": 0.5, "ran": 0.25}, layers=3),
    "norm_places": diagrams.norm_places,
    "transformer_diagram": lambda: diagrams.transformer_diagram(layers=6),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_pictures_speak_and_are_narrow(make):
    speaks(make)


def test_chances_are_bars_from_zero():
    figure = FIGURES["next_word"]()
    assert {"The", "cat", "sat", "0.50", "0.25", "3\ntimes"} <= set(texts(figure))
    assert "sat 0.50, ran 0.25" in figure.alt
    (ax,) = figure.canvas.axes
    bars = [p.get_width() for p in ax.patches if hasattr(p, "get_width") and p.get_height() == 0.55]
    assert sorted(bars) == pytest.approx([max(bars) / 2, max(bars)])


def test_both_places_of_the_norm():
    shown = texts(FIGURES["norm_places"]())
    assert shown.count("norm") == 4
    assert shown.count("+") == 4
    assert shown.count("attention") == shown.count("feed-forward") == 2


def test_the_decoder_has_one_part_more():
    shown = texts(FIGURES["transformer_diagram"]())
    assert shown.count("feed-forward") == 2
    assert shown.count("cross-attention") == 1
    assert {"encoder, 6 layers", "decoder, 6 layers", "memory", "next word"} <= set(shown)
