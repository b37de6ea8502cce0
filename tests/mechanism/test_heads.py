"""What a head does: measures whose answer is known, on maps and texts made for the purpose."""

import pytest
import torch
from torch import Generator

from attncourse import MultiHeadAttention
from attncourse.lab import heads

WORDS = ["<start>", "say", "(", "a", '"', "b", '"', "[", "c", "]", ")", "d"]


def test_share_counts_the_queries_that_have_a_target():
    weights = torch.tensor([[[1.0, 0.0], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])[None]
    assert heads.share(weights, heads.previous(2)).tolist() == [0.25, 0.5]
    assert heads.share(weights, heads.start(2)).tolist() == [0.25, 0.5]
    assert heads.share(weights, torch.zeros(2, 2, dtype=torch.bool)).isnan().all()


def test_share_tells_the_samples_of_a_batch_apart():
    target = torch.eye(3, dtype=torch.bool).expand(2, 3, 3).clone()
    target[1] = False
    weights = torch.stack([torch.eye(3), torch.full((3, 3), 1 / 3)])[:, None]
    assert heads.share(weights, target).item() == 1
    assert heads.share(weights, target.flip(0)).item() == pytest.approx(1 / 3)


def test_even_is_the_mean_of_one_over_the_keys_in_view():
    assert heads.even(heads.previous(3)) == pytest.approx((1 / 2 + 1 / 3) / 2)
    tokens = torch.tensor([[0, 5, 6, 5, 6], [0, 1, 2, 3, 4]])
    assert heads.even(heads.copies(tokens)) == pytest.approx((1 / 4 + 1 / 5) / 2)


def test_copies_and_followers():
    tokens = torch.tensor([[0, 5, 6, 6, 5, 6]])
    pairs = heads.copies(tokens)[0].nonzero().tolist()
    assert pairs == [[3, 2], [4, 1], [5, 2], [5, 3]]
    pairs = heads.followers(tokens)[0].nonzero().tolist()
    assert pairs == [[4, 2], [5, 3], [5, 4]], "position 3 follows a copy of itself and is left out"


def test_the_innermost_open_bracket_or_quote():
    opening = dict(heads.openings(WORDS).nonzero().tolist())
    inside = {WORDS[i] + str(i): WORDS[j] for i, j in opening.items()}
    assert inside == {"a3": "(", '"4': "(", "b5": '"', "[7": "(", "c8": "["}
    assert not heads.openings(list(")a]")).any()


def test_twice_repeats_different_tokens_after_the_start():
    tokens = heads.twice(Generator().manual_seed(0), batch=3, length=10, vocab=20)
    assert tokens.shape == (3, 21)
    assert (tokens[:, 0] == 0).all()
    assert tokens[:, 1:11].equal(tokens[:, 11:])
    assert all(len(row.unique()) == 11 for row in tokens)
    assert int(tokens.max()) <= 19
    assert heads.followers(tokens).sum() == 3 * 10, "one for each query of the second copy"


def test_a_silenced_head_adds_nothing_and_comes_back():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, num_heads=3, bias=False), torch.randn(2, 5, 12)
    whole, without = layer(x), []
    for head in range(3):
        with heads.silenced(layer, head):
            without.append(layer(x))
    assert layer(x).equal(whole)
    torch.testing.assert_close(sum(whole - part for part in without), whole)
    assert not torch.allclose(without[0], whole)


def test_a_silenced_head_comes_back_after_an_error():
    layer = MultiHeadAttention(4, num_heads=2)
    own = layer.out_proj.weight.clone()
    with pytest.raises(RuntimeError), heads.silenced(layer, 1):
        raise RuntimeError
    assert layer.out_proj.weight.equal(own)
