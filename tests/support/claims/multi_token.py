"""What must hold for scores that hear of their neighbours, beyond the contracts."""

import pytest
import torch

from support.cases import Sizes, draw, mix, module, qkv
from support.cases.multi_token import SMALL, identity_kernel
from support.claims import refused
from support.contracts import close


def an_unhidden_future_leaks_through_the_kernel(p):
    """Only the scores to the right of the diagonal change, and rows that may not read them do as well."""
    multi_token = module(p, "multi_token")
    q, k, v = qkv(Sizes(**SMALL | {"n": 9, "m": 9}))
    (kernel,) = draw((3, 2, 5))
    visible = torch.ones(9, 9, dtype=torch.bool).tril()

    def forgetful(q, k, v):
        scores = multi_token.convolve(p.steps.score(q, k), kernel)
        return mix(p.steps.normalize(p.steps.mask(scores, visible)), q, k, v)

    def careful(q, k, v):
        return multi_token.multi_token_attention(q, k, v, kernel)[0]

    for t in range(2, 8):  # row 0 has one key, and reads it whatever its score
        later = [torch.cat([x[:, :, :t], -x[:, :, t:]], dim=2) for x in (q, k, v)]
        close(careful(*later)[:, :, :t], careful(q, k, v)[:, :, :t])
        moved = (forgetful(*later) - forgetful(q, k, v)).abs().amax(dim=(0, 1, 3))
        assert moved[t - 1] > 0.05, f"nothing leaked into row {t - 1}"
        # The kernel reaches two keys to the right, so the rows before know nothing of key t.
        assert t < 3 or moved[: t - 2].max() < 1e-12


def a_mask_hides_from_the_kernel_as_the_future_does(p):
    """A key that is padding changes nothing, neither read nor beside what is read."""
    attend = module(p, "multi_token").multi_token_attention
    q, k, v = qkv(Sizes(**SMALL | {"n": 9, "m": 9}))
    kernel, kernel_after, changed = draw((3, 2, 3), (3, 2, 3), (2, 3, 1, 4))
    is_padding = torch.arange(9) == 4
    other = k.clone()
    other[:, :, is_padding] += 10 * changed
    added = torch.zeros(9, 9, dtype=torch.float64).masked_fill(is_padding, -torch.inf)
    full = attend(q, k, v, kernel, kernel_after=kernel_after)[0]
    outputs = []
    for attn_mask in (~is_padding.expand(9, 9), added):
        options = {"kernel_after": kernel_after, "attn_mask": attn_mask}
        here, weights = attend(q, k, v, kernel, **options)
        close(attend(q, other, v, kernel, **options)[0], here)
        assert not weights[..., 4].any()
        assert not weights.triu(1).any()
        outputs.append(here)
    close(*outputs)
    assert (outputs[0] - full).abs().max() > 0.1
    with pytest.raises(TypeError, match="must be bool"):
        attend(q, k, v, kernel, attn_mask=torch.ones(9, 9, dtype=torch.long))


def a_kernel_moves_a_table_as_it_says(p):
    convolve = module(p, "multi_token").convolve
    (table,) = draw((1, 2, 4, 6))
    for above in range(3):
        for right in (-1, 0, 1):
            kernel = identity_kernel(2, 3, 3).roll((-above, right), dims=(1, 2))
            expected = torch.zeros_like(table)
            for i in range(above, 4):
                for j in range(max(0, -right), min(6, 6 - right)):
                    expected[:, :, i, j] = table[:, :, i - above, j + right]
            close(convolve(table, kernel), expected)
    with pytest.raises(ValueError, match="odd width.*got 4 keys"):
        convolve(table, torch.ones(2, 3, 4, dtype=torch.float64))
    for shape in ((3, 3), (1, 3, 3)):
        with pytest.raises(ValueError, match=r"must be \(2 heads, queries, keys\)"):
            convolve(table, torch.ones(shape, dtype=torch.float64))


def a_multi_token_layer_learns_and_says_what_it_refuses(p):
    make = module(p, "multi_token").MultiTokenAttention
    x = torch.randn(2, 7, 12)
    padding = torch.arange(7) != 3
    layer = make(12, 3, (2, 3), after=True, mix_heads=True)
    layer(x, positions=torch.arange(7)).square().sum().backward()
    own = [layer.kernel, layer.kernel_after, layer.mix, layer.mix_after]
    assert [tuple(part.shape) for part in own] == [(3, 2, 3), (3, 2, 3), (3, 3), (3, 3)]
    count = lambda layer: sum(part.numel() for part in layer.parameters())  # noqa: E731
    assert count(layer) - count(p.layers.SelfAttention(12, 3)) == 2 * 3 * 2 * 3 + 2 * 3 * 3
    for part in own:
        assert part.grad.abs().min() > 0
    assert not layer(x, attn_mask=padding.expand(7, 7), need_weights=True)[1][..., 3].any()
    assert [make(12, 3, (2, 3)).kernel_after, make(12, 3, (2, 3)).mix] == [None, None]
    assert "kernel_size=(6, 11)" in repr(make(12, 3))
    refused(
        ValueError,
        ("got is_causal=False", lambda: layer(x, is_causal=False)),
        (r"no dropout; got 0\.1", lambda: make(12, 3, dropout=0.1)),
        ("norm must be .* got 'layer'", lambda: make(12, 3, norm="layer")),
        ("odd width.*got 10 keys", lambda: make(12, 3, (6, 10))),
    )
    with pytest.raises(TypeError, match="MultiTokenAttention, which attends in its own way"):
        p.cache.decode(layer, x, p.cache.KVCache.of(layer, 2, 7))
