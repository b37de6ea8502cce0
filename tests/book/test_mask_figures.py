"""Pictures of masks: every hidden pair is hatched, no hidden weight is written, a text says the counts."""

import pytest
import torch
from matplotlib.patches import Rectangle
from support.book.figures import speaks

from attncourse.show import diagrams

WORDS = ["the", "dog", "ate", "my"]
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()
SCORES = torch.arange(16.0).view(4, 4) / 4
FIGURES = {
    "mask_then_softmax": lambda: diagrams.mask_then_softmax(SCORES, CAUSAL, WORDS),
    "mask_too_late": lambda: diagrams.mask_too_late(SCORES, CAUSAL, WORDS),
    "mask_rules": lambda: diagrams.mask_rules({"causal": CAUSAL, "none": ~CAUSAL}, WORDS),
    "padded_batch": lambda: diagrams.padded_batch([WORDS, WORDS[:1]]),
}
HATCHED = {"mask_then_softmax": 12, "mask_too_late": 12, "mask_rules": 16, "padded_batch": 3}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_a_figure_of_masks_fits_a_phone_and_has_a_text(make):
    speaks(make, inches=4.5, letters=60)


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_hidden_is_hatched(name):
    (ax,) = FIGURES[name]().canvas.axes
    cells = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert sum(cell.get_hatch() is not None for cell in cells) == HATCHED[name]


def test_weights_are_written_where_they_may_be_read():
    (ax,) = FIGURES["mask_then_softmax"]().canvas.axes
    shares = [text.get_text() for text in ax.texts if "." in text.get_text()]
    expected = SCORES.masked_fill(~CAUSAL, -torch.inf).softmax(-1)[CAUSAL]
    assert shares == [f"{x:.2f}" for x in expected.tolist()]


def test_masked_too_late_the_sums_are_below_1():
    (ax,) = FIGURES["mask_too_late"]().canvas.axes
    written = [text.get_text() for text in ax.texts if text.get_position()[0] > 10 - 0.2]
    late = (SCORES.softmax(-1) * CAUSAL).sum(-1)
    assert written[-4:] == [f"{x:.2f}" for x in late.tolist()]


@pytest.mark.parametrize(("side", "first"), [("right", "the"), ("left", "fill")])
def test_the_filler_stands_on_its_side(side, first):
    (ax,) = diagrams.padded_batch([WORDS, WORDS[:1]], side=side).canvas.axes
    row = [text.get_text() for text in ax.texts if text.get_position()[1] == 1.5]
    assert row[0] == first
    assert sorted(row) == ["fill"] * 3 + ["the"]
