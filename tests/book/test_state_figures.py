"""Pictures of states: the table between the brackets is to scale, and what grows is the sum that it says."""

import pytest
import torch
from matplotlib.colors import to_hex
from support.book.figures import speaks

from attncourse.show import diagrams
from attncourse.show.figure import ACCENT

KEYS = torch.tensor([[1.0, 0], [0, 2], [1, 1]])
VALUES = torch.tensor([[3.0, 1, 0], [1, 0, 0], [0, 2, -1]])


@pytest.mark.parametrize(("n", "d"), [(8, 2), (6, 3)])
def test_what_stands_between_the_brackets_is_to_scale(n, d):
    figure = diagrams.two_orders(n, d)
    coloured = [x for x in figure.canvas.axes[0].patches if to_hex(x.get_facecolor()) == ACCENT]
    assert [(x.get_width(), x.get_height()) for x in coloured] == [(n, n), (d, d), (d, d)]
    assert f"{n * n} numbers, " in figure.alt
    assert f"{d * d} numbers, " in figure.alt
    speaks(lambda: diagrams.two_orders(n, d))


def test_the_state_is_the_sum_of_keys_times_values():
    figure = diagrams.growing_state(KEYS, VALUES, ["Alice", "has", "a"])
    state = (KEYS.T @ VALUES).flatten().tolist()
    assert figure.alt.endswith(f"then the state is {', '.join(f'{x:g}' for x in state)}.")
    (ax,) = figure.canvas.axes
    cells = [x for x in ax.patches if x.get_width() == 1]
    assert len(cells) == 3 * 3 * 2 * 3
    written = [x.get_text() for x in ax.texts]
    assert {"Alice", "has", "a", "state", "key × value", "new state", "-1"} <= {*written}
    assert written.count("+") == written.count("=") == 3
    by_number = {}
    texts = [x for x in ax.texts if x.get_text().lstrip("-").isdigit()]
    inside = {(x.get_x() + 0.5, x.get_y() + 0.5): to_hex(x.get_facecolor()) for x in cells}
    for text in texts:
        if text.get_position() in inside:
            by_number.setdefault(text.get_text(), set()).add(inside[text.get_position()])
    assert {number: len(colours) for number, colours in by_number.items()} == dict.fromkeys(
        by_number, 1
    ), "one number, one colour"
    speaks(lambda: diagrams.growing_state(KEYS, VALUES, ["Alice", "has", "a"]))
