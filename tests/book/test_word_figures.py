"""The pictures of words, masks and positions: what they show is what was computed."""

import math
import re

import pytest
import torch
from matplotlib.patches import Arc
from matplotlib.text import Annotation
from support.book.figures import patches, speaks, texts

from attncourse.show import diagrams

WORDS = ["She", "sat", "there"]
Q = torch.tensor([[1.0, 0.0], [0.0, 2.0], [2.0, -1.0]])
K = torch.tensor([[0.0, 1.0], [1.0, 1.0], [3.0, 0.0]])
V = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
WEIGHTS = torch.softmax(Q[2] @ K.T, dim=-1)
FOUR = ["the", "dog", "ate", "my"]
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()
SCORES = torch.arange(16.0).view(4, 4) / 4
CURVES = {"ours": [2.0, 2.5, 3.0], "theirs": [2.0, 2.1, 2.95]}
OF_WORDS = {
    "arcs": lambda: diagrams.arcs(WORDS, [0.25, 0.7, 0.05], reader=2),
    "arrows": lambda: diagrams.arrows(
        {"query": {"there": Q[2]}, "key": dict(zip(WORDS, K, strict=True))},
        xlabel="first", ylabel="second", shadows_on="there",
    ),
    "score_table": lambda: diagrams.score_table(WORDS, Q, K, marked=(2, 1)),
    "one_row": lambda: diagrams.one_row(WORDS, Q[2] @ K.T, WEIGHTS, V),
    "samples": lambda: diagrams.samples(
        torch.arange(3.0), torch.ones(3), {"flat": (torch.arange(3.0), torch.ones(3))},
        asked=2.0, weights=WEIGHTS,
    ),
}  # fmt: skip
OF_MASKS = {
    "mask_then_softmax": lambda: diagrams.mask_then_softmax(SCORES, CAUSAL, FOUR),
    "mask_too_late": lambda: diagrams.mask_too_late(SCORES, CAUSAL, FOUR),
    "mask_rules": lambda: diagrams.mask_rules({"causal": CAUSAL, "none": ~CAUSAL}, FOUR),
    "padded_batch": lambda: diagrams.padded_batch([FOUR, FOUR[:1]]),
}
OF_POSITIONS = {
    "words": lambda: diagrams.same_words(["a", "b", "c"], ["c", "b", "a"]),
    "clocks": lambda: diagrams.clocks([0, 1, 30], [1.0, 0.1]),
    "pairs": lambda: diagrams.turned_pairs(1.2, 0.3, 0.5, [(1, 0), (3, 2), (3, 0)]),
    "lengths": lambda: diagrams.beyond_training([CURVES, CURVES], [8, 24, 40], 16, "loss (nats)"),
}
FIGURES = OF_WORDS | OF_MASKS | OF_POSITIONS
INCHES = (
    dict.fromkeys(OF_WORDS, 4.2) | dict.fromkeys(OF_MASKS, 4.5) | dict.fromkeys(OF_POSITIONS, 7)
)


@pytest.mark.parametrize("name", FIGURES)
def test_a_phone_shows_it_without_making_it_much_smaller(name):
    speaks(FIGURES[name], INCHES[name], letters=70 if name in OF_POSITIONS else 60)


# Words


def test_the_thickest_arc_leads_to_the_largest_weight():
    figure = FIGURES["arcs"]()
    arcs = patches(figure, Arc)
    assert len(arcs) == 2, "none from a word to itself"
    assert arcs[0].get_linewidth() < arcs[1].get_linewidth()
    assert {"25%", "70%", "5%"} <= set(texts(figure))


def test_a_shadow_falls_at_a_right_angle_and_its_length_is_the_dot_product():
    (ax,) = FIGURES["arrows"]().canvas.axes
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    for line, key in zip(dotted, K, strict=True):
        tip, foot = torch.tensor(line.get_xydata(), dtype=torch.float32)
        assert torch.equal(tip, key)
        assert ((tip - foot) @ Q[2]).item() == pytest.approx(0, abs=1e-6)
        assert (foot @ Q[2]).item() == pytest.approx((key @ Q[2]).item(), abs=1e-6)


def test_the_score_table_holds_the_products():
    figure = FIGURES["score_table"]()
    assert {f"{score + 0.0:.2f}" for score in (Q @ K.T).flatten().tolist()} <= {*texts(figure)}
    assert "meet in the score 1.00" in figure.alt


def test_a_row_ends_in_the_weighted_mean():
    figure = FIGURES["one_row"]()
    bars = patches(figure)
    widths = torch.tensor([bar.get_width() for bar in bars])
    torch.testing.assert_close(widths / widths.sum(), WEIGHTS)
    assert len({bar.get_x() for bar in bars}) == 1, "all bars start at zero"
    x, y = (WEIGHTS @ V).tolist()
    assert {f"({x:.2f}, {y:.2f})", "score"} <= {*texts(figure)}
    named = diagrams.one_row(WORDS, Q[2] @ K.T, WEIGHTS, V, score_label="score / √2")
    assert "score / √2" in texts(named), "the column of scores says what it holds"


def test_a_louder_sample_is_larger():
    (points,) = FIGURES["samples"]().canvas.axes[0].collections
    sizes = torch.tensor(points.get_sizes())
    assert sizes.argsort().equal(WEIGHTS.argsort())
    assert math.isclose(sizes.max().item(), 272, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: diagrams.arcs(WORDS, [1.0], 0), "expected 3 weights, one for each word; got 1"),
        (lambda: diagrams.arrows({"head": {}}, xlabel="", ylabel=""), "roles are query, key"),
        (lambda: diagrams.score_table(WORDS, Q[:2], K, (0, 0)), "expected 3 queries and keys"),
        (lambda: diagrams.same_words(["a"], ["b"]), "the same words"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Masks


def test_what_is_hidden_is_hatched():
    for make, count in zip(OF_MASKS.values(), (12, 12, 16, 3), strict=True):
        assert sum(x.get_hatch() is not None for x in patches(make())) == count


def test_weights_are_written_where_they_may_be_read():
    shares = [x for x in texts(FIGURES["mask_then_softmax"]()) if "." in x]
    expected = SCORES.masked_fill(~CAUSAL, -torch.inf).softmax(-1)[CAUSAL]
    assert shares == [f"{x:.2f}" for x in expected.tolist()]


def test_masked_too_late_the_sums_are_below_1():
    (ax,) = FIGURES["mask_too_late"]().canvas.axes
    written = [text.get_text() for text in ax.texts if text.get_position()[0] > 10 - 0.2]
    late = (SCORES.softmax(-1) * CAUSAL).sum(-1)
    assert written[-4:] == [f"{x:.2f}" for x in late.tolist()]


@pytest.mark.parametrize(("side", "first"), [("right", "the"), ("left", "fill")])
def test_the_filler_stands_on_its_side(side, first):
    (ax,) = diagrams.padded_batch([FOUR, FOUR[:1]], side=side).canvas.axes
    row = [text.get_text() for text in ax.texts if text.get_position()[1] == 1.5]
    assert row[0] == first
    assert sorted(row) == ["fill"] * 3 + ["the"]


# Positions


def notes(figure) -> list[Annotation]:
    return [x for x in figure.canvas.axes[0].texts if isinstance(x, Annotation)]


def hands(figure) -> list[float]:
    """The angles of all hands, in degrees from 0 to 360."""
    ends = [(x.xy[0] - x.xyann[0], x.xy[1] - x.xyann[1]) for x in notes(figure)]
    return [math.degrees(math.atan2(y, x)) % 360 for x, y in ends]


def test_hands_start_at_3_o_clock_and_turn_counter_clockwise():
    expected = [0.0, 0.0, *(math.degrees(p * w) % 360 for p in (1, 30) for w in (1.0, 0.1))]
    assert hands(FIGURES["clocks"]()) == pytest.approx(expected)
    assert "they stand at 279, 172 degrees" in FIGURES["clocks"]().alt


def test_the_angle_between_the_hands_is_told():
    figure = FIGURES["pairs"]()
    angles = hands(figure)
    between = [abs(a - b) for a, b in zip(angles[::2], angles[1::2], strict=True)]
    said = [int(x) for x in re.findall(r"(\d+) degrees between", figure.alt)]
    assert said == [round(x) for x in between] == [80, 80, 138]


def test_names_of_curves_keep_apart():
    figure = FIGURES["lengths"]()
    heights = sorted(x.xy[1] for x in notes(figure))
    assert heights[1] - heights[0] >= 0.15
    assert set(texts(figure)) >= set(CURVES)
