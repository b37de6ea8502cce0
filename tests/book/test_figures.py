"""Every figure: axes that say what they are, masked pairs hatched, a text for who cannot see it."""

import inspect
import re

import pytest
import torch
from matplotlib.image import imread
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from support.book.figures import patches, texts

from attncourse.show import plots
from attncourse.show.figure import DPI

W = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.9, 0.0], [0.3, 0.3, 0.4], [0.0, 0.0, 1.0]])
VISIBLE = torch.ones(4, 3, dtype=torch.bool).tril()
FIGURES = {
    "heatmap": lambda: plots.heatmap(W, visible=VISIBLE, annotate=True, caption="A map."),
    "heatmaps": lambda: plots.heatmaps({f"head {h}": W for h in range(5)}),
    "lines": lambda: plots.lines(
        [1, 2, 4], {"ours": [3.0, 2.0, 1.0], "theirs": [3.0, 3.0, 2.0]},
        xlabel="head_dim", ylabel="variance", logx=True, logy=True,
    ),
    "bars": lambda: plots.bars({"1 head": {"forward": 1.0, "step": 2.5}}, ylabel="seconds", log=True),
    "five_steps": lambda: plots.five_steps("mask"),
    "multi_head_diagram": lambda: plots.multi_head_diagram(3),
    "head_sharing_diagram": lambda: plots.head_sharing_diagram(8, (8, 2, 1)),
}  # fmt: skip
DIAGRAMS = ("five_steps", "multi_head_diagram", "head_sharing_diagram")


def drawn_axes(figure):
    """The axes with data: not the colour bar, not the empty places of a grid."""
    axes = [ax for ax in figure.canvas.axes if ax.axison and ax.get_label() != "<colorbar>"]
    assert axes
    return axes


def test_every_figure_is_tested():
    drawn = {name for name, x in vars(plots).items() if inspect.isfunction(x) and name[0] != "_"}
    assert drawn == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_figure(name, tmp_path):
    figure = FIGURES[name]()
    assert figure.canvas.get_figwidth() <= 7
    assert re.search(r"\d|[Ff]ive", figure.alt), "the text holds a number"
    assert figure.alt.endswith(".")
    assert repr(figure) == figure.alt
    png = figure.png()
    assert png == figure.png() == FIGURES[name]().png(), "equal data, equal bytes"
    (tmp_path / "figure.png").write_bytes(png)
    assert imread(tmp_path / "figure.png").shape[1] <= 7.5 * DPI


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in DIAGRAMS])
def test_axes_are_named(name):
    for ax in drawn_axes(FIGURES[name]()):
        assert ax.get_ylabel()
        assert ax.get_xlabel() or name == "bars", "the groups of bars are named by their ticks"


@pytest.mark.parametrize("name", ["heatmap", "heatmaps"])
def test_rows_are_queries_and_position_0_is_top_left(name):
    for ax in drawn_axes(FIGURES[name]()):
        assert ax.get_ylabel() == "query (asks)"
        assert ax.get_xlabel() == "key (answers)"
        assert ax.yaxis_inverted()
        assert not ax.xaxis_inverted()
        (mesh,) = ax.collections
        assert mesh.get_array().shape == W.shape
        shown = torch.from_numpy(mesh.get_array().filled(-1.0))
        assert shown[VISIBLE].equal(W[VISIBLE])
        assert mesh.get_cmap().name == "cividis"
        assert mesh.get_clim() == (0, 1)


def test_masked_pairs_are_hatched_and_never_coloured():
    (ax,) = drawn_axes(FIGURES["heatmap"]())
    (mesh,) = ax.collections
    assert torch.from_numpy(mesh.get_array().mask).equal(~VISIBLE)
    assert ax.patch.get_hatch(), "shows where a cell is left out"
    written = {text.get_text() for text in ax.texts}
    assert len(ax.texts) == int(VISIBLE.sum())
    assert "0.90" in written
    assert "3 of 12 pairs masked" in FIGURES["heatmap"]().alt


def test_labels_are_shown_and_the_text_tells_what_the_map_shows():
    figure = plots.heatmap(W, queries=list("abcd"), keys=["one", "two", "three"])
    assert "largest weight of a row is 0.75 on average" in figure.alt
    (ax,) = drawn_axes(figure)
    assert [x.get_text() for x in ax.get_yticklabels()] == list("abcd")
    assert [x.get_text() for x in ax.get_xticklabels()] == ["one", "two", "three"]


def test_largest_weight_sets_the_scale():
    (ax,) = drawn_axes(plots.heatmap(W / 2, vmax=None))
    assert ax.collections[0].get_clim() == (0, 0.5)


def test_lines_differ_without_colour():
    (ax,) = drawn_axes(FIGURES["lines"]())
    assert len({line.get_linestyle() for line in ax.lines}) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ours", "theirs"]


def test_an_axis_from_zero_tells_a_low_curve_from_0():
    series = {"low": [3.0, 0.2], "high": [3.0, 2.8]}
    for from_zero in (False, True):
        options = {"xlabel": "step", "ylabel": "loss", "from_zero": from_zero}
        (ax,) = drawn_axes(plots.lines([0, 1], series, **options))
        assert (ax.get_ylim()[0] == 0) == from_zero
        assert ax.get_ylim()[1] > 3


def test_one_step_is_coloured():
    boxes = patches(plots.five_steps("mask"), FancyBboxPatch)
    colours = [box.get_facecolor() for box in boxes]
    assert [colours.count(c) for c in colours] == [4, 4, 1, 4, 4]


@pytest.mark.parametrize(
    ("num_heads", "kv"), [(4, (4, 2, 1)), (6, (3,)), (8, (8, 4, 2, 1)), (1, (1,))]
)
def test_every_query_head_has_an_arrow_to_its_key_head(num_heads, kv):
    figure = plots.head_sharing_diagram(num_heads, kv)
    boxes, arrows = patches(figure, FancyBboxPatch), patches(figure, FancyArrowPatch)
    assert len(boxes) == sum(num_heads + 2 * g for g in kv)
    assert len(arrows) == sum(num_heads + g for g in kv)
    places = [(box.get_x() + box.get_width() / 2, box.get_y()) for box in boxes]
    number = dict(zip(places, [x for x in texts(figure) if x.isdigit()], strict=True))
    height = sorted({y for _, y in number})[1]
    keys = [place for place in places if place[1] == height]
    read = []
    for arrow in arrows:
        (x, y), (to, _) = arrow._posA_posB
        if y < height:
            near = min(keys, key=lambda place: abs(place[0] - to))
            assert near[0] == pytest.approx(to)
            from_ = min(places, key=lambda place: abs(place[0] - x) + abs(place[1]))
            read.append((number[from_], number[near]))
    assert read == [(f"{h}", f"{h // (num_heads // g)}") for g in kv for h in range(num_heads)]


def test_head_sharing_is_told_in_words():
    alt = FIGURES["head_sharing_diagram"]().alt
    assert "3 panels with 8 query heads each" in alt
    assert "Grouped-query: 2 key heads and 2 value heads; the query heads read 0, 0, 0, 0, 1" in alt
    assert "Multi-query: 1 key head and 1 value head; the query heads read 0, 0, 0" in alt


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.five_steps("softmax"), "one of score, modify, mask, normalize, mix"),
        (lambda: plots.head_sharing_diagram(4, (4, 3)), r"divisors of 4; got \(4, 3\)"),
        (lambda: plots.head_sharing_diagram(4, ()), "divisors of 4"),
        (lambda: plots.heatmap(torch.rand(2, 3, 4)), r"\(n, m\)"),
        (lambda: plots.heatmap(W, queries=["a"]), "expected 4 labels, one each; got 1"),
        (lambda: plots.heatmap(W, visible=VISIBLE.float()), "bool"),
        (lambda: plots.heatmaps({}), "at least one"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
