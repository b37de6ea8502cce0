"""Pictures of heads, of their scores and kernels, and of the transformer: what they show is what was computed."""

import itertools

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch
from support.book.figures import patches, speaks, texts

from attncourse import split_heads
from attncourse.show import diagrams, plots
from attncourse.show.diagrams.reshape import TINTS
from attncourse.variants.multi_token import convolve

PAIR = [[(2, 1, "who?"), (2, 4, "whom?")]]
SHARES = {"one": torch.tensor([[0.1, 0.9], [0.2, 0.3]]), "two\nwords": torch.full((2, 2), 0.5)}
SCORES = torch.tensor([[2.0, -1.0, 0.0], [-4.0, 1.0, 0.5]])
MARKED = torch.tensor([[True, False, False], [False, False, True]])
WORDS = ["Alice", "saw", "a", "hat", "."]
TABLE = torch.tensor([[1.0, 0, 2, 0, 3], [4, 1, 0, 5, 0], [0, 2, 1, 0, 1], [1, 1, 3, 2, 0]])
KERNEL = torch.tensor([[1.0, 0, -1], [0, 1, 2]])
KERNELS = {"by hand": KERNEL, "learned": KERNEL / 2}


def slid(causal: bool):
    return diagrams.sliding_kernel(TABLE, KERNEL, (3, 2), ["0", "1", "2", "3"], WORDS, causal)


FIGURES = {
    "heads": lambda: diagrams.heads_diagram(),
    "multi_head": lambda: diagrams.multi_head_diagram(3),
    "arcs": lambda: diagrams.arcs_diagram(["The cat chased the mouse"], PAIR),
    "head_table": lambda: diagrams.head_table(SHARES, {"one": 0.05, "two\nwords": 0.25}),
    "score_maps": lambda: diagrams.score_maps({"small": SCORES / 8, "large": SCORES}),
    "sliding_kernel": lambda: slid(causal=False),
    "sliding_kernel, causal": lambda: slid(causal=True),
    "kernel_tables": lambda: diagrams.kernel_tables(KERNELS),
    "next_word": lambda: diagrams.next_word(["The", "cat"], {"sat": 0.5, "ran": 0.25}, layers=3),
    "norm_places": diagrams.norm_places,
    "transformer": lambda: diagrams.transformer_diagram(layers=6),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_fits_a_phone_and_has_a_text(name):
    speaks(FIGURES[name], inches=4.5 if "head" in name or name == "arcs" else 4.6)


# Heads


@pytest.mark.parametrize("cut", [True, False])
def test_numbers_stand_where_the_cut_puts_them(cut):
    figure = diagrams.heads_diagram(cut=cut)
    written = [int(text) for text in texts(figure) if text.isdigit()]
    x = 10.0 * torch.arange(3)[:, None] + torch.arange(4)
    heads = split_heads(x[None], 2) if cut else x.reshape(1, 2, 3, 2)
    assert written == x.flatten().tolist() + heads.flatten().tolist()
    colours = [TINTS.index(to_hex(cell.get_facecolor())) for cell in patches(figure)]
    assert colours == [number % 10 // 2 for number in written]


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_no_arrow_crosses_another(num_heads):
    drawn = patches(diagrams.multi_head_diagram(num_heads), FancyArrowPatch)
    arrows = [patch._posA_posB for patch in drawn]
    assert len(arrows) == 2 + 2 * num_heads
    assert all(start[0] == end[0] for start, end in arrows), "all lead straight down"
    spans = [(x, low, high) for (x, high), (_, low) in arrows]
    for (x, low, high), (y, bottom, top) in itertools.combinations(spans, 2):
        assert x != y or high <= bottom or top <= low


def test_arcs_are_told_in_words():
    assert "chased to cat: who?, from chased to mouse: whom?" in FIGURES["arcs"]().alt


def test_the_table_holds_every_share_and_names_the_largest():
    figure = FIGURES["head_table"]()
    written = [text.get_text() for text in figure.canvas.axes[0].texts]
    assert written == ["0.10", "0.90", "0.20", "0.30", "0.05"] + ["0.50"] * 4 + ["0.25"]
    assert "one, 0.90 in head 0.1 (even 0.05); two words, 0.50 in head 0.0" in figure.alt


def test_marked_cells_get_a_frame():
    figure = plots.heatmap(torch.rand(3, 3), marked=torch.eye(3, dtype=torch.bool))
    assert [frame.get_xy() for frame in patches(figure)] == [(0, 0), (1, 1), (2, 2)]


# Scores


def test_one_scale_of_colours_has_0_in_the_middle():
    figure = FIGURES["score_maps"]()
    pictures = [ax.images[0] for ax in figure.canvas.axes if ax.images][:2]
    assert [x.get_clim() for x in pictures] == [(-4, 4), (-4, 4)]
    assert min(pictures[0].to_rgba([0.0])[0]) > 0.99, "0 is white"


def test_frames_stand_at_the_marked_cells_and_the_text_counts_the_rows_they_hold():
    figure = diagrams.score_maps({"one": SCORES}, marked=MARKED)
    assert [x.get_xy() for x in figure.canvas.axes[0].patches] == [(-0.5, -0.5), (1.5, 0.5)]
    assert "one: scores of 2 queries by 3 keys from -4.0 to 2.0" in figure.alt
    assert figure.alt.endswith("the largest of a row is in its frame in 1 of 2 rows.")


def test_tokens_name_rows_and_columns():
    ax = diagrams.score_maps({"one": torch.eye(2)}, labels=["a", "b"]).canvas.axes[0]
    for axis in (ax.xaxis, ax.yaxis):
        assert [x.get_text() for x in axis.get_ticklabels()] == ["a", "b"]


# Kernels


@pytest.mark.parametrize("causal", [False, True])
def test_the_sums_below_are_those_of_the_convolution(causal):
    figure, seen = slid(causal), TABLE.tril() if causal else TABLE
    sums = convolve(seen[None, None], KERNEL[None])[0, 0, 3].tolist()[: 4 if causal else 5]
    assert figure.alt.endswith(f"The sums of this row: {', '.join(f'{x:g}' for x in sums)}.")
    added = f"the scores under it, each times its number, add up to {sums[2]:g}"
    assert f"row 3, column a; {added}" in figure.alt
    hatched = [x for x in figure.canvas.axes[0].patches if x.get_hatch()]
    assert len(hatched) == (10 + 1 if causal else 0), "hidden scores count as 0"


def test_kernels_say_their_numbers_and_which_query_and_key_they_belong_to():
    figure = FIGURES["kernel_tables"]()
    assert figure.alt.startswith("by hand: 1.00, 0.00, -1.00; 0.00, 1.00, 2.00. learned: 0.50,")
    names = {"by hand", "learned", "query i", "i − 1", "key j", "j + 1", "j − 1", "-0.50"}
    assert names <= {*texts(figure)}


def test_rows_below_words_write_what_is_not_0():
    figure = diagrams.word_rows(WORDS, {"before": [0, 38, 0, 43, 0.2], "after": [0, 91, 0, 9, 0]})
    assert [x for x in texts(figure) if x.isdigit()] == ["38", "43", "91", "9"]
    assert "before: most at hat, position 3, 43; after: most at saw, position 1, 91." in figure.alt
    bare = diagrams.word_rows(WORDS, {"before": [0, 38, 0, 43, 0.2]}, write=False)
    assert not [x for x in texts(bare) if x.isdigit()]


# The transformer


def test_chances_are_bars_from_zero():
    figure = FIGURES["next_word"]()
    assert {"The", "cat", "sat", "0.50", "0.25", "3\ntimes"} <= set(texts(figure))
    assert "sat 0.50, ran 0.25" in figure.alt
    (ax,) = figure.canvas.axes
    bars = [p.get_width() for p in ax.patches if hasattr(p, "get_width") and p.get_height() == 0.55]
    assert sorted(bars) == pytest.approx([max(bars) / 2, max(bars)])


def test_both_places_of_the_norm():
    shown = texts(FIGURES["norm_places"]())
    assert shown.count("norm") == shown.count("+") == 4
    assert shown.count("attention") == shown.count("feed-forward") == 2


def test_the_decoder_has_one_part_more():
    shown = texts(FIGURES["transformer"]())
    assert (shown.count("feed-forward"), shown.count("cross-attention")) == (2, 1)
    assert {"encoder, 6 layers", "decoder, 6 layers", "memory", "next word"} <= set(shown)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: diagrams.multi_head_diagram(5), "1 to 4; got 5"),
        (lambda: diagrams.score_maps({"one": SCORES, "two": torch.eye(2)}),
         r"one shape \(n, m\); got \[\(2, 2\), \(2, 3\)\]"),
        (lambda: diagrams.word_rows(WORDS, {"before": [1, 2]}), "expected 5 numbers in 'before'; got 2"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
