"""Who holds which positions in a ring, against masks on the whole sequence; no processes are needed."""

import pytest
import torch

from attncourse.variants.flash.ring_split import SPLITS, cut, join, pairs, part_of, positions


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_join_undoes_cut(split, size):
    x = torch.randn(2, 2 * size * 3, 5)
    chunks = [cut(x, rank, size, split) for rank in range(size)]
    assert all(chunk.shape == (2, 6, 5) for chunk in chunks)
    assert torch.equal(join(chunks, split), x)


def test_zigzag_pairs_the_earliest_piece_with_the_latest():
    found = [positions(4, rank, 3, "zigzag").tolist() for rank in range(3)]
    assert found == [[0, 1, 10, 11], [2, 3, 8, 9], [4, 5, 6, 7]]
    assert positions(4, 1, 3).tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_part_is_what_the_rule_lets_a_chunk_read_of_another(split, size, is_causal):
    n = 6
    for rank in range(size):
        for source in range(size):
            ours, theirs = (positions(n, who, size, split) for who in (rank, source))
            allowed = ours[:, None] >= theirs if is_causal else torch.ones(n, n, dtype=torch.bool)
            part, read = part_of(n, rank, source, is_causal, split), torch.zeros_like(allowed)
            if part is not None:
                block = torch.ones_like(read[part.rows, part.columns])
                read[part.rows, part.columns] = block.tril() if part.diagonal else block
            assert torch.equal(read, allowed)
            assert pairs(part) == allowed.sum()


def test_only_equal_pieces_and_known_splits():
    x = torch.ones(10, 1)
    with pytest.raises(ValueError, match="multiple of 3, the number of its pieces; got 10.*to 12"):
        cut(x, 0, 3)
    with pytest.raises(ValueError, match="multiple of 4, the number of its pieces; got 10.*to 12"):
        cut(x, 0, 2, "zigzag")
    for call in (lambda: cut(x, 0, 2, "striped"), lambda: join([x], "striped")):
        with pytest.raises(ValueError, match="one of contiguous, zigzag; got 'striped'"):
            call()
