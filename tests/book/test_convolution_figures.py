"""Pictures of kernels: the sums are those of the convolution, hidden scores count as 0, rows fit their words."""

import pytest
import torch
from support.book.figures import speaks, texts

from attncourse.show import diagrams
from attncourse.variants.multi_token import convolve

WORDS = ["Alice", "saw", "a", "hat", "."]
TABLE = torch.tensor([[1.0, 0, 2, 0, 3], [4, 1, 0, 5, 0], [0, 2, 1, 0, 1], [1, 1, 3, 2, 0]])
KERNEL = torch.tensor([[1.0, 0, -1], [0, 1, 2]])


@pytest.mark.parametrize("causal", [False, True])
def test_the_sums_below_are_those_of_the_convolution(causal):
    rows = ["0", "1", "2", "3"]
    figure = diagrams.sliding_kernel(TABLE, KERNEL, (3, 2), rows, WORDS, causal)
    seen = TABLE.tril() if causal else TABLE
    sums = convolve(seen[None, None], KERNEL[None])[0, 0, 3].tolist()[: 4 if causal else 5]
    assert figure.alt.endswith(f"The sums of this row: {', '.join(f'{x:g}' for x in sums)}.")
    assert (
        f"row 3, column a; the scores under it, each times its number, add up to {sums[2]:g}"
        in figure.alt
    )
    hatched = [x for x in figure.canvas.axes[0].patches if x.get_hatch()]
    assert len(hatched) == (10 + 1 if causal else 0)
    speaks(lambda: diagrams.sliding_kernel(TABLE, KERNEL, (3, 2), rows, WORDS, causal))


def test_kernels_say_their_numbers_and_which_query_and_key_they_belong_to():
    figure = diagrams.kernel_tables({"by hand": KERNEL, "learned": KERNEL / 2})
    assert figure.alt.startswith("by hand: 1.00, 0.00, -1.00; 0.00, 1.00, 2.00. learned: 0.50,")
    written = texts(figure)
    for name in ("by hand", "learned", "query i", "i − 1", "key j", "j + 1", "j − 1", "-0.50"):
        assert name in written
    speaks(lambda: diagrams.kernel_tables({"by hand": KERNEL, "learned": KERNEL / 2}))


def test_rows_below_words_write_what_is_not_0():
    figure = diagrams.word_rows(WORDS, {"before": [0, 38, 0, 43, 0.2], "after": [0, 91, 0, 9, 0]})
    assert [x for x in texts(figure) if x.isdigit()] == ["38", "43", "91", "9"]
    assert "before: most at hat, position 3, 43; after: most at saw, position 1, 91." in figure.alt
    bare = diagrams.word_rows(WORDS, {"before": [0, 38, 0, 43, 0.2]}, write=False)
    assert not [x for x in texts(bare) if x.isdigit()]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="expected 5 numbers in 'before'; got 2"):
        diagrams.word_rows(WORDS, {"before": [1, 2]})
