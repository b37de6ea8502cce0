"""Pictures of heads: each number stands where the cut puts it, no arrow crosses another, a table speaks."""

import itertools

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, Rectangle
from support.book.figures import speaks

from attncourse import split_heads
from attncourse.show import diagrams, plots
from attncourse.show.diagrams.reshape import TINTS

PAIR = [[(2, 1, "who?"), (2, 4, "whom?")]]
SHARES = {"one": torch.tensor([[0.1, 0.9], [0.2, 0.3]]), "two\nwords": torch.full((2, 2), 0.5)}
FIGURES = {
    "heads_diagram": lambda: diagrams.heads_diagram(),
    "multi_head_diagram": lambda: diagrams.multi_head_diagram(3),
    "arcs_diagram": lambda: diagrams.arcs_diagram(["The cat chased the mouse"], PAIR),
    "head_table": lambda: diagrams.head_table(SHARES, {"one": 0.05, "two\nwords": 0.25}),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_a_figure_of_heads_fits_a_phone_and_has_a_text(make):
    speaks(make, inches=4.5)


@pytest.mark.parametrize("cut", [True, False])
def test_numbers_stand_where_the_cut_puts_them(cut):
    (ax,) = diagrams.heads_diagram(cut=cut).canvas.axes
    written = [int(text.get_text()) for text in ax.texts if text.get_text().isdigit()]
    x = 10.0 * torch.arange(3)[:, None] + torch.arange(4)
    heads = split_heads(x[None], 2) if cut else x.reshape(1, 2, 3, 2)
    assert written == x.flatten().tolist() + heads.flatten().tolist()
    cells = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    colours = [TINTS.index(to_hex(cell.get_facecolor())) for cell in cells]
    assert colours == [number % 10 // 2 for number in written]


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_no_arrow_crosses_another(num_heads):
    (ax,) = diagrams.multi_head_diagram(num_heads).canvas.axes
    arrows = [patch._posA_posB for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == 2 + 2 * num_heads
    assert all(start[0] == end[0] for start, end in arrows), "all lead straight down"
    spans = [(x, low, high) for (x, high), (_, low) in arrows]
    for (x, low, high), (y, bottom, top) in itertools.combinations(spans, 2):
        assert x != y or high <= bottom or top <= low


def test_arcs_are_told_in_words():
    assert "chased to cat: who?, from chased to mouse: whom?" in FIGURES["arcs_diagram"]().alt


def test_the_table_holds_every_share_and_names_the_largest():
    figure = FIGURES["head_table"]()
    written = [text.get_text() for text in figure.canvas.axes[0].texts]
    assert written == ["0.10", "0.90", "0.20", "0.30", "0.05"] + ["0.50"] * 4 + ["0.25"]
    assert "one, 0.90 in head 0.1 (even 0.05); two words, 0.50 in head 0.0" in figure.alt


def test_marked_cells_get_a_frame():
    marked = torch.eye(3, dtype=torch.bool)
    (ax, *_) = plots.heatmap(torch.rand(3, 3), marked=marked).canvas.axes
    frames = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [patch.get_xy() for patch in frames] == [(0, 0), (1, 1), (2, 2)]


def test_more_heads_than_colours_are_refused():
    with pytest.raises(ValueError, match="1 to 4; got 5"):
        diagrams.multi_head_diagram(5)
