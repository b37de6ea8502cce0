"""The pictures of FlashAttention: areas in one scale, and a walk that meets every tile once."""

import matplotlib as mpl
import pytest
from support.book.figures import speaks

from attncourse.show import diagrams
from attncourse.show.diagrams.tile_walk import GONE
from attncourse.show.diagrams.vectors import ROLES
from attncourse.show.figure import INK

FIGURES = {
    "to_scale": lambda: diagrams.to_scale(n=16_384, d=64, rows=128, columns=256),
    "tile_walk": lambda: diagrams.tile_walk(blocks=3),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_pictures_speak_and_are_narrow(make):
    speaks(make)


def filled(ax, colour: str) -> list:
    """The rectangles of one colour, from the top and from the left."""
    colour = mpl.colors.to_rgba(colour)
    found = [patch for patch in ax.patches if patch.get_facecolor() == colour]
    return sorted(found, key=lambda patch: (patch.get_y(), patch.get_x()))


def test_areas_are_in_one_scale():
    figure = FIGURES["to_scale"]()
    (ax,) = figure.canvas.axes
    (tile,), (queries,) = filled(ax, INK), filled(ax, ROLES["query"])
    square = max(ax.patches, key=lambda patch: patch.get_width() * patch.get_height())
    sizes = [(p.get_width(), p.get_height()) for p in (square, queries, tile)]
    assert sizes == [(16_384, 16_384), (64, 16_384), (256, 128)]
    assert all(size in figure.alt for size in ("1 GiB", "4 MiB each", "128 KiB"))


def test_the_walk_computes_each_visible_tile_once():
    figure = FIGURES["tile_walk"]()
    walk = figure.canvas.axes[:6]
    tiles = [(patch.get_y(), patch.get_x()) for ax in walk for patch in filled(ax, INK)]
    assert tiles == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    hidden = [sum(p.get_hatch() == "////" for p in ax.patches) for ax in walk]
    assert hidden == [3] * 6
    assert "3 tiles above the diagonal" in figure.alt


def turns() -> list:
    """The axes of the walk's turns, without its key."""
    return FIGURES["tile_walk"]().canvas.axes[:6]


def test_an_output_is_full_after_its_last_tile_and_then_gone():
    shares, gone = [], []
    for ax in turns():
        gone.append(len(filled(ax, GONE)))
        shares.append([patch.get_width() / 0.7 for patch in filled(ax, ROLES["output"])])
    assert shares[0] == pytest.approx([1, 0, 0])
    assert shares[3] == pytest.approx([0, 0, 1 / 3])
    assert shares[5] == pytest.approx([0, 0, 1])
    assert gone == [0, 1, 1, 2, 2, 2]
    ends = [any(t.get_text() == "divide, write" for t in ax.texts) for ax in turns()]
    assert ends == [True, False, True, False, False, True]
