"""The pictures of caches, tiles, rings and states: what they say is what they show, and they fit a phone."""

import pytest
import torch
from matplotlib.colors import to_hex
from support.book.figures import filled, patches, speaks, texts

from attncourse.show import diagrams
from attncourse.show.diagrams.tile_walk import GONE
from attncourse.show.diagrams.vectors import ROLES
from attncourse.show.figure import ACCENT, INK

ROWS = {"the last 2": {2: "2", 3: "3"}, "one and the last": {0: "a", 3: "b"}}
UNEVEN = {"two": [[0.5, 0.0], [0.5, 1.0]], "even": [[0.5, 0.5], [0.5, 0.5]]}
VISITS = {
    "own": ([0, 1], [0, 1], torch.tensor([[True, False], [True, True]])),
    "later": ([0, 1], [2, 3], torch.zeros(2, 2, dtype=torch.bool)),
}
KEYS = torch.tensor([[1.0, 0], [0, 2], [1, 1]])
VALUES = torch.tensor([[3.0, 1, 0], [1, 0, 0], [0, 2, -1]])
SAYS = {"adds": [{"a": 4}, {"a": 10}], "corrects": [{"a": 4}, {"a": 6}]}
FIGURES = {
    "to_scale": lambda: diagrams.to_scale(n=16_384, d=64, rows=128, columns=256),
    "tile_walk": lambda: diagrams.tile_walk(blocks=3),
    "kept_tokens": lambda: diagrams.kept_tokens(ROWS, num_sinks=1),
    "ring_diagram": diagrams.ring_diagram,
    "ring_timeline": lambda: diagrams.ring_timeline(UNEVEN),
    "ring_visits": lambda: diagrams.ring_visits(VISITS),
    "two_orders": lambda: diagrams.two_orders(6, 3),
    "growing_state": lambda: diagrams.growing_state(KEYS, VALUES, ["Alice", "has", "a"]),
    "memories": lambda: diagrams.memories(["a is 4", "a is 6"], SAYS, {"a": 6}),
}


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_pictures_speak_and_are_narrow(make):
    speaks(make)


# Tiles


def test_areas_are_in_one_scale():
    figure = FIGURES["to_scale"]()
    (ax,) = figure.canvas.axes
    (tile,), (queries,) = filled(ax, INK), filled(ax, ROLES["query"])
    square = max(ax.patches, key=lambda patch: patch.get_width() * patch.get_height())
    sizes = [(p.get_width(), p.get_height()) for p in (square, queries, tile)]
    assert sizes == [(16_384, 16_384), (64, 16_384), (256, 128)]
    assert all(size in figure.alt for size in ("1 GiB", "4 MiB each", "128 KiB"))


def turns() -> list:
    """The axes of the walk's turns, without its key."""
    return FIGURES["tile_walk"]().canvas.axes[:6]


def test_the_walk_computes_each_visible_tile_once():
    tiles = [(patch.get_y(), patch.get_x()) for ax in turns() for patch in filled(ax, INK)]
    assert tiles == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    hidden = [sum(p.get_hatch() == "////" for p in ax.patches) for ax in turns()]
    assert hidden == [3] * 6
    assert "3 tiles above the diagonal" in FIGURES["tile_walk"]().alt


def test_an_output_is_full_after_its_last_tile_and_then_gone():
    shares = [[x.get_width() / 0.7 for x in filled(ax, ROLES["output"])] for ax in turns()]
    assert shares[0] == pytest.approx([1, 0, 0])
    assert shares[3] == pytest.approx([0, 0, 1 / 3])
    assert shares[5] == pytest.approx([0, 0, 1])
    assert [len(filled(ax, GONE)) for ax in turns()] == [0, 1, 1, 2, 2, 2]
    ends = [any(t.get_text() == "divide, write" for t in ax.texts) for ax in turns()]
    assert ends == [True, False, True, False, False, True]


# Caches that forget


def test_kept_tokens_are_filled_and_sinks_are_coloured():
    figure = FIGURES["kept_tokens"]()
    said = "the last 2: 2 of 4, 2 to 3; one and the last: 2 of 4, 0 and 3, marked a, b."
    assert said in figure.alt
    (ax,), slots = figure.canvas.axes, patches(figure)
    assert [x.get_facecolor()[:3] == (1, 1, 1) for x in slots] == [1, 1, 0, 0, 0, 1, 1, 0]
    coloured = [k for k, x in enumerate(slots) if to_hex(x.get_facecolor()) == ACCENT]
    assert coloured == [4], "token 0 of the second row; the first has lost it"
    assert len(ax.lines) == 2 * 4, "a cross on each of the four that are gone"
    assert [x for x in texts(figure) if x not in ROWS] == ["2", "3", "a", "b"]


def test_a_line_stands_at_each_event():
    figure = diagrams.over_position([{"one": [1.0, 2.0]}], [8, 24], {16: "it leaves"}, "loss")
    assert figure.alt == "loss over position, it leaves at 16: one from 1.00 to 2.00."
    assert [x.get_xdata()[0] for x in figure.canvas.axes[0].lines[1:]] == [16]
    assert " it leaves here" in texts(figure)


# Rings


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


# States


@pytest.mark.parametrize(("n", "d"), [(8, 2), (6, 3)])
def test_what_stands_between_the_brackets_is_to_scale(n, d):
    figure = diagrams.two_orders(n, d)
    coloured = [x for x in figure.canvas.axes[0].patches if to_hex(x.get_facecolor()) == ACCENT]
    assert [(x.get_width(), x.get_height()) for x in coloured] == [(n, n), (d, d), (d, d)]
    assert f"{n * n} numbers, " in figure.alt
    assert f"{d * d} numbers, " in figure.alt


def test_the_state_is_the_sum_of_keys_times_values():
    figure = FIGURES["growing_state"]()
    state = (KEYS.T @ VALUES).flatten().tolist()
    assert figure.alt.endswith(f"then the state is {', '.join(f'{x:g}' for x in state)}.")
    (ax,), written = figure.canvas.axes, texts(figure)
    cells = [x for x in ax.patches if x.get_width() == 1]
    assert len(cells) == 3 * 3 * 2 * 3
    assert {"Alice", "has", "a", "state", "key × value", "new state", "-1"} <= {*written}
    assert written.count("+") == written.count("=") == 3
    inside = {(x.get_x() + 0.5, x.get_y() + 0.5): to_hex(x.get_facecolor()) for x in cells}
    numbers = [x for x in ax.texts if x.get_text().lstrip("-").isdigit()]
    shown = [(x.get_text(), inside.get(x.get_position())) for x in numbers]
    pairs = {(number, colour) for number, colour in shown if colour}
    assert len(pairs) == len(dict(pairs)) > 3, "one number, one colour"


def test_bars_are_in_proportion_and_wrong_ones_in_colour():
    figure = FIGURES["memories"]()
    assert figure.alt == (
        "Written one after the other: a is 4; a is 6. What memories say then: adds: a 10; corrects: a 6. "
        "Right is a 6."
    )
    bars = patches(figure)
    assert [round(10 * x.get_width() / bars[1].get_width()) for x in bars] == [4, 10, 4, 6]
    assert [to_hex(x.get_facecolor()) == ACCENT for x in bars] == [False, True, False, False]
    with pytest.raises(ValueError, match="expected 2 answers of 'adds', one for each write; got 1"):
        diagrams.memories(["a is 4", "a is 6"], {"adds": [{"a": 4}]}, {"a": 6})
