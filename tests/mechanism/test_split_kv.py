"""`split_kv_attention`: a cache in pieces, against attention over the whole of it."""

import pytest
import torch
import torch.nn.functional as F

from attncourse.variants.flash import split_kv
from attncourse.variants.flash.split_kv import split_kv_attention

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 1e-2}


def whole(query, key, value, scale=None):
    """The last n of m positions: the mask's lower right corner."""
    n, m = query.size(-2), key.size(-2)
    mask = torch.ones(m, m, dtype=torch.bool).tril()[m - n :]
    rule = {"attn_mask": mask, "scale": scale, "enable_gqa": True}
    return F.scaled_dot_product_attention(query, key, value, **rule)


def draw(n, m, dtype=torch.float64, h=6, g=2):
    generator = torch.Generator().manual_seed(3)
    shapes = (2, h, n, 5), (2, g, m, 5), (2, g, m, 11)
    # Large scores: without the shares of the merge nothing would agree.
    large = [3 * torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    return [x.to(dtype) for x in large]


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 17, 40])
@pytest.mark.parametrize("n", [1, 4, 17])
def test_pieces_do_not_change_the_result(n, pieces):
    inputs = draw(n, 17)
    difference = split_kv_attention(*inputs, pieces) - whole(*inputs)
    assert difference.abs().max() <= 1e-12


@pytest.mark.parametrize("dtype", BOUNDS)
def test_dtypes(dtype):
    inputs = [x / 3 for x in draw(2, 600, dtype)]
    output = split_kv_attention(*inputs, 3, scale=0.3)
    expected = whole(*(x.double() for x in inputs), scale=0.3)
    assert output.dtype == dtype
    assert (output - expected).abs().max() <= BOUNDS[dtype] * expected.abs().max()


def test_gradients():
    inputs = [x.requires_grad_() for x in draw(2, 13)]
    mixture = torch.randn(2, 6, 2, 11, dtype=torch.float64)
    found = torch.autograd.grad(split_kv_attention(*inputs, 4), inputs, mixture)
    expected = torch.autograd.grad(whole(*inputs), inputs, mixture)
    assert all((x - y).abs().max() <= 1e-10 for x, y in zip(found, expected, strict=True))


def test_no_piece_sees_more_than_its_keys(monkeypatch):
    lengths, attend = [], split_kv.flash_attention
    noting = lambda q, k, *a, **b: (lengths.append(k.size(-2)), attend(q, k, *a, **b))[1]  # noqa: E731
    monkeypatch.setattr(split_kv, "flash_attention", noting)
    split_kv_attention(*draw(1, 17), 5)
    assert lengths == [4, 4, 4, 4, 1]


@pytest.mark.parametrize(
    ("n", "pieces", "message"), [(1, 0, "1 or more; got 0"), (18, 2, "got 18 queries and 17 keys")]
)
def test_refusals(n, pieces, message):
    with pytest.raises(ValueError, match=message):
        split_kv_attention(*draw(n, 17), pieces)
