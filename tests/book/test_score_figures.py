"""Maps of scores: 0 is white in all of them, a frame is where it was asked for, the text counts."""

import pytest
import torch
from support.book.figures import speaks

from attncourse.show import diagrams

SCORES = torch.tensor([[2.0, -1.0, 0.0], [-4.0, 1.0, 0.5]])
MARKED = torch.tensor([[True, False, False], [False, False, True]])


def test_one_scale_of_colours_has_0_in_the_middle():
    figure = diagrams.score_maps({"small": SCORES / 8, "large": SCORES})
    pictures = [ax.images[0] for ax in figure.canvas.axes if ax.images][:2]
    assert [x.get_clim() for x in pictures] == [(-4, 4), (-4, 4)]
    assert min(pictures[0].to_rgba([0.0])[0]) > 0.99, "0 is white"
    speaks(lambda: diagrams.score_maps({"small": SCORES / 8, "large": SCORES}))


def test_frames_stand_at_the_marked_cells_and_the_text_counts_the_rows_they_hold():
    figure = diagrams.score_maps({"one": SCORES}, marked=MARKED)
    assert [x.get_xy() for x in figure.canvas.axes[0].patches] == [(-0.5, -0.5), (1.5, 0.5)]
    assert "one: scores of 2 queries by 3 keys from -4.0 to 2.0" in figure.alt
    assert figure.alt.endswith("the largest of a row is in its frame in 1 of 2 rows.")


def test_tokens_name_rows_and_columns():
    figure = diagrams.score_maps({"one": torch.eye(2)}, labels=["a", "b"])
    ax = figure.canvas.axes[0]
    for axis in (ax.xaxis, ax.yaxis):
        assert [x.get_text() for x in axis.get_ticklabels()] == ["a", "b"]


def test_maps_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"one shape \(n, m\); got \[\(2, 2\), \(2, 3\)\]"):
        diagrams.score_maps({"one": SCORES, "two": torch.eye(2)})
