"""What must hold for scores that hear of their neighbours, beyond the contracts."""

import pytest
import torch

from support.cases import Sizes, draw, mix, module, qkv
from support.cases.multi_token import SMALL, identity_kernel, layer_of
from support.claims import refused
from support.claims.differential import a_token_costs_little, goes_on, is_exported_and_batched
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
    lowest = torch.finfo(torch.float64).min
    low = [added.clamp(min=x) for x in (-1e9, lowest)]
    low += [added.float().clamp(min=torch.finfo(torch.float32).min).double()]
    for attn_mask in (~is_padding.expand(9, 9), added, *low):
        options = {"kernel_after": kernel_after, "attn_mask": attn_mask}
        here, weights = attend(q, k, v, kernel, **options)
        close(attend(q, other, v, kernel, **options)[0], here)
        assert not weights[..., 4].any()
        assert not weights.triu(1).any()
        outputs.append(here)
    for output in outputs[1:]:
        close(output, outputs[0])
    # In the narrowest of floats the lowest hides as well; what only weakens does not.
    half = added.half().clamp(min=torch.finfo(torch.float16).min)
    narrow = attend(*(x.half() for x in (q, other, v, kernel)), attn_mask=half, is_causal=False)
    assert not narrow[1][..., 4].any()
    weak = attend(q, k, v, kernel, attn_mask=added.clamp(min=-5e4))[0]
    assert (
        weak - attend(q, other, v, kernel, attn_mask=added.clamp(min=-5e4))[0]
    ).abs().max() > 0.1
    nothing = torch.full((9, 9), -1e9, dtype=torch.float64)
    assert not attend(q, k, v, kernel, attn_mask=nothing)[0].any()
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
        ("takes no key and no value: its kernel looks along .* got key", lambda: layer(x, x + 1)),
        ("one token or more", lambda: layer(x[:, :0])),
        ("norm must be .* got 'layer'", lambda: make(12, 3, norm="layer")),
        ("odd width.*got 10 keys", lambda: make(12, 3, (6, 10))),
    )
    with pytest.raises(TypeError, match="with a NeighbourCache, .*; got KVCache"):
        p.decoding.decode(layer, x, p.cache.KVCache.of(layer, 2, 7))


def functions_refuse_what_does_not_fit_together(p):
    q, k = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 5, 8)
    kernel, eye = identity_kernel(4, 2, 3).float(), torch.eye(4)
    multi_token = module(p, "multi_token").multi_token_attention
    talking = module(p, "talking_heads").talking_heads_attention
    for call in (
        lambda q, k, v: multi_token(q, k, v, kernel),
        lambda q, k, v: talking(q, k, v, eye, eye),
    ):
        refused(
            ValueError,
            ("same length", lambda: call(q, k, k[:, :, :2])),  # noqa: B023
            ("one token or more", lambda: call(q[:, :, :0], k, k)),  # noqa: B023
            ("same head_dim", lambda: call(q[..., :3], k, k)),  # noqa: B023
            ("batch", lambda: call(q, k[:1], k[:1])),  # noqa: B023
        )


def queries_are_kept_for_the_kernels_that_look_back(p):
    (x,) = draw((2, 11, 24))
    s = Sizes(h=3, g=1, d=8)
    sizes = {}
    for name, options in {
        "one": {},
        "all": {"after": True, "mix_heads": True, "norm": "group"},
    }.items():
        layer = layer_of(p, s, **options)
        goes_on(p, layer, x)
        cache = p.decoding.new_cache(layer, 2, 11)
        plain = cache.nbytes
        for part in x.split(4, 1):
            p.decoding.decode(layer, part, cache)
        sizes[name] = (cache.nbytes - plain) // (2 * 24 * 8)
        assert not cache.query.requires_grad
        with pytest.raises(ValueError, match="length must be 8 or more, or 0: .*; got 6"):
            cache.crop(6)
        assert cache.length == 11
        a_token_costs_little(p, layer.float())
        fixed = p.decoding.new_cache(layer.double(), 2, 11)
        narrow = p.cache.KVCache.of.__func__(
            type(fixed), layer, 2, 11, num_heads=3, rows=2, dtype=torch.float32
        )
        assert p.decoding.decode(layer, x, narrow).dtype == torch.float64
    assert sizes == {"one": 3 + 1, "all": 3 + 2}  # of the last call and before it


def heads_that_talk_go_on_and_ask_others(p):
    x, y = draw((2, 11, 24), (2, 7, 24))
    make = module(p, "talking_heads").TalkingHeadsAttention
    for g in (1, 3):
        torch.manual_seed(0)
        layer = make(24, 3, num_kv_heads=g).double()
        with torch.no_grad():
            layer.before += draw((3, 3))[0]
            layer.after += draw((3, 3))[0]
        goes_on(p, layer, x)
        a_token_costs_little(p, layer.float())
        layer = layer.double()
        real = (torch.arange(7) < 5).expand(2, 1, 1, 7)
        close(layer(x, y, attn_mask=real), layer(x, y[:, :5]))
        close(layer(x, y, y), layer(x, y))


def neighbours_and_other_heads_are_exported_and_batched(p):
    multi_token = module(p, "multi_token").multi_token_attention
    talking = module(p, "talking_heads").talking_heads_attention
    kernel, after, before, behind = draw((3, 2, 3), (3, 2, 3), (3, 3), (3, 3))
    options = {"kernel_after": after, "mix": before, "mix_after": behind}
    shapes = lambda n: [(1, 3, n, 4)] * 3  # noqa: E731
    for run in (
        lambda q, k, v: multi_token(q, k, v, kernel)[0],
        lambda q, k, v: multi_token(q, k, v, kernel, **options)[0],
        lambda q, k, v: talking(q, k, v, before, behind, is_causal=True)[0],
    ):
        is_exported_and_batched(run, *draw(*shapes(5)), longer=draw(*shapes(8)))
    layer = layer_of(p, Sizes(h=3, g=3, d=4), after=True, mix_heads=True, norm="group")
    is_exported_and_batched(layer, *draw((1, 5, 12)), longer=draw((1, 8, 12)))
    layer = module(p, "talking_heads").TalkingHeadsAttention(12, 3).double()
    is_exported_and_batched(layer, *draw((1, 5, 12)), longer=draw((1, 8, 12)))
