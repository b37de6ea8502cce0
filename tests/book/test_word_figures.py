"""The pictures of chapter 1: what they show is what was computed."""

import math

import pytest
import torch
from matplotlib.patches import Arc, Rectangle
from support.book.figures import speaks, texts

from attncourse.show import diagrams

WORDS = ["She", "sat", "there"]
Q = torch.tensor([[1.0, 0.0], [0.0, 2.0], [2.0, -1.0]])
K = torch.tensor([[0.0, 1.0], [1.0, 1.0], [3.0, 0.0]])
V = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
WEIGHTS = torch.softmax(Q[2] @ K.T, dim=-1)
FIGURES = {
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


@pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)
def test_a_phone_shows_it_without_making_it_much_smaller(make):
    speaks(make, inches=4.2, letters=60)


def test_the_thickest_arc_leads_to_the_largest_weight():
    figure = FIGURES["arcs"]()
    arcs = [patch for patch in figure.canvas.axes[0].patches if isinstance(patch, Arc)]
    assert len(arcs) == 2, "none from a word to itself"
    assert arcs[0].get_linewidth() < arcs[1].get_linewidth()
    assert {"25%", "70%", "5%"} <= set(texts(figure))


def test_a_shadow_falls_at_a_right_angle_and_its_length_is_the_dot_product():
    (ax,) = FIGURES["arrows"]().canvas.axes
    dotted = [line for line in ax.lines if line.get_linestyle() == ":"]
    assert len(dotted) == len(K)
    for line, key in zip(dotted, K, strict=True):
        tip, foot = torch.tensor(line.get_xydata(), dtype=torch.float32)
        assert torch.equal(tip, key)
        assert ((tip - foot) @ Q[2]).item() == pytest.approx(0, abs=1e-6)
        assert (foot @ Q[2]).item() == pytest.approx((key @ Q[2]).item(), abs=1e-6)


def test_the_score_table_holds_the_products():
    written = texts(FIGURES["score_table"]())
    for score in (Q @ K.T).flatten().tolist():
        assert f"{score + 0.0:.2f}" in written
    assert "meet in the score 1.00" in FIGURES["score_table"]().alt


def test_a_row_ends_in_the_weighted_mean():
    figure = FIGURES["one_row"]()
    bars = [patch for patch in figure.canvas.axes[0].patches if isinstance(patch, Rectangle)]
    widths = torch.tensor([bar.get_width() for bar in bars])
    torch.testing.assert_close(widths / widths.sum(), WEIGHTS)
    assert len({bar.get_x() for bar in bars}) == 1, "all bars start at zero"
    x, y = (WEIGHTS @ V).tolist()
    assert f"({x:.2f}, {y:.2f})" in texts(figure)


def test_the_column_of_scores_says_what_it_holds():
    assert "score" in texts(FIGURES["one_row"]())
    assert "score / √2" in texts(
        diagrams.one_row(WORDS, Q[2] @ K.T, WEIGHTS, V, score_label="score / √2")
    )


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
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
