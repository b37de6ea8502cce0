"""What must hold for maps that are subtracted, beyond the contracts."""

import warnings

import pytest
import torch
from torch import nn

from support.cases import Sizes, draw, module, some_pairs
from support.cases.differential import differential_layer, pairs
from support.claims import decoded, refused
from support.contracts import close, largest_tensor

B, N, WIDTH, H = 2, 11, 24, 3


def goes_on(p, layer, x):
    """Decoding is the full pass: in any chunks, turned or not, with padding on the left, behind a draft, for beams."""
    (b, n, _) = x.shape
    new = lambda: p.decoding.new_cache(layer, b, n)  # noqa: E731
    real = torch.ones(b, n, dtype=torch.bool)
    real[0, :4] = False
    for use_rotary in (False, True):
        for mask in (None, real[:, None, None]):
            at = torch.arange(n) if use_rotary else None
            full = layer(x, is_causal=True, positions=at, attn_mask=mask)
            for size in (1, 2, 5, n):
                cache, rows = new(), []
                for part in torch.arange(n).split(size):
                    seen = None if mask is None else mask[..., part]
                    options = {"use_rotary": use_rotary, "attn_mask": seen}
                    rows.append(p.decoding.decode(layer, x[:, part], cache, **options))
                close(torch.cat(rows, dim=1), full)
    alone = layer(x[:1, 4:], is_causal=True)
    close(layer(x, is_causal=True, attn_mask=real[:, None, None])[:1, 4:], alone)
    cache = new()
    p.decoding.decode(layer, x[:, :4], cache)
    p.decoding.decode(layer, x[:, 4:8].flip(1), cache)
    cache.crop(6)
    cache.crop(4)
    close(p.decoding.decode(layer, x[:, 4:8], cache), layer(x[:, :8], is_causal=True)[:, 4:])
    rows = torch.tensor([1, 1, 0])
    cache.reorder(rows)
    last = layer(x[rows, :9], is_causal=True)[:, 8:]
    close(p.decoding.decode(layer, x[rows, 8:9], cache), last)
    cache.crop(0)
    first = p.decoding.decode(layer, x[rows, :3], cache)
    close(first, layer(x[rows, :3], is_causal=True))


def a_token_costs_little(p, layer):
    """Twice as many tokens behind it: a tensor of twice the size, and no table of all of them."""
    sizes, width = [], layer.embed_dim
    for n in (300, 600):
        cache = p.decoding.new_cache(layer, 1, n + 1)
        p.decoding.decode(layer, torch.randn(1, n, width), cache)
        step = lambda x, cache=cache: p.decoding.decode(layer, x, cache)  # noqa: E731
        sizes.append(largest_tensor(step, torch.randn(1, 1, width)))
    assert sizes[1] <= 2.1 * sizes[0], sizes


class Called(nn.Module):
    """A function as a module, as ``torch.export`` wants it."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def is_exported_and_batched(function, *inputs, longer):
    """Exported for any length; batched over all inputs together, and over each alone."""
    n = torch.export.Dim("n", min=2, max=4096)
    lengths = (tuple({x.dim() - 2: n} for x in inputs),)
    exported = torch.export.export(Called(function), tuple(inputs), dynamic_shapes=lengths)
    close(exported.module()(*longer), function(*longer))
    several = [torch.stack([x, x + 1, x * 2]) for x in inputs]
    count = range(len(inputs))
    for batched in (set(count), *({k} for k in count)):
        given = [several[k] if k in batched else inputs[k] for k in count]
        alone = [[several[k][i] if k in batched else inputs[k] for k in count] for i in range(3)]
        axes = tuple(0 if k in batched else None for k in count)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            found = torch.vmap(function, axes)(*given)
        close(found, torch.stack([function(*one) for one in alone]))


def both_maps_are_exported_and_batched(p):
    attend = module(p, "differential").differential_attention
    shapes = lambda n: ((1, 4, n, 4), (1, 4, n, 4), (1, 2, n, 3))  # noqa: E731
    causal = lambda q, k, v: attend(q, k, v, 0.4, is_causal=True)[0]  # noqa: E731
    is_exported_and_batched(causal, *draw(*shapes(5)), longer=draw(*shapes(8)))
    layer = differential_layer(p, 16, 2)
    run = lambda x: layer(x, is_causal=True)  # noqa: E731
    is_exported_and_batched(run, *draw((1, 5, 16)), longer=draw((1, 8, 16)))


def a_layer_that_subtracts_decodes(p):
    (x,) = draw((B, N, WIDTH))
    layer = differential_layer(p, WIDTH, H)
    for use_rotary in (False, True):
        positions = torch.arange(N) if use_rotary else None
        full = layer(x, is_causal=True, positions=positions)
        cache = p.cache.KVCache.of(layer, B, N)
        close(decoded(p, layer, x, cache, 4, use_rotary=use_rotary), full)
    cache = module(p, "streaming").SinkCache.of(layer, B, 2, 3)
    with pytest.raises(TypeError, match="with a KVCache, which keeps every token; got SinkCache"):
        p.decoding.decode(layer, x, cache)
    for g in (1, H):
        goes_on(p, differential_layer(p, WIDTH, H, num_kv_heads=g), x)
    a_token_costs_little(p, differential_layer(p, WIDTH, H).float())


def a_pair_may_ask_another_sequence(p):
    """Queries of one, keys and values of another, and padding in it."""
    x, y = draw((B, 5, WIDTH), (B, N, WIDTH))
    layer = differential_layer(p, WIDTH, H, num_kv_heads=1)
    q, k, v = layer.project(x, y, y)
    real = (torch.arange(N) < 7).expand(B, 1, 1, N)
    heads, weights = layer.attend(q, k[:, :, :7], v[:, :, :7], need_weights=True)
    output, found = layer(x, y, attn_mask=real, need_weights=True)
    close(output, layer.join(heads, x))
    close(layer(x, y, attn_mask=real), output)
    close(found[..., :7], weights)
    assert not found[..., 7:].any()


def shared_pairs_are_those_of_a_layer_that_repeats_them(p):
    (x,) = draw((B, N, WIDTH))
    shared = differential_layer(p, WIDTH, H, num_kv_heads=1)
    full = differential_layer(p, WIDTH, H)
    parts = dict(shared.state_dict())
    for name in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        parts[name] = torch.cat([parts[name]] * H)
    full.load_state_dict(parts)
    for options in ({}, {"is_causal": True}, {"positions": torch.arange(N)}):
        close(shared(x, **options), full(x, **options))
    assert p.cache.KVCache.of(full, B, N).nbytes == H * p.cache.KVCache.of(shared, B, N).nbytes


def in_half_precision_the_norm_keeps_its_own(p):
    layer = differential_layer(p, WIDTH, H).float()
    x = torch.randn(B, N, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        close(layer(x).float(), layer.bfloat16()(x.bfloat16()).float(), atol=0.1)


def positions_turn_both_heads_of_a_pair(p):
    """Only distances count, so that a shift of all positions changes nothing; an order does."""
    (x,) = draw((B, N, WIDTH))
    layer = differential_layer(p, WIDTH, H)
    at = torch.arange(N)
    close(layer(x, positions=at + 100), layer(x, positions=at), atol=1e-10)
    assert (layer(x, positions=at.flip(0)) - layer(x)).abs().max() > 0.01
    q, k, _ = layer.project(x, x, x, at)
    both = [p.layers.split_heads(f(x), 2 * H) for f in (layer.q_proj, layer.k_proj)]
    close([q, k], [p.positions.rotary(y, at) for y in both])


def a_mask_for_each_pair_hides_from_both_of_its_heads(p):
    (x,) = draw((B, N, WIDTH))
    layer = differential_layer(p, WIDTH, H)
    for heads in (1, H):
        visible = some_pairs(B, heads, N, N)
        for options in ({}, {"is_causal": True}):
            fused = layer(x, attn_mask=visible, **options)
            close(layer(x, attn_mask=visible, need_weights=True, **options)[0], fused)


def what_is_subtracted_starts_small_and_grows_with_depth(p):
    differential = module(p, "differential")
    starts = [differential.lambda_init(layer) for layer in range(40)]
    assert abs(starts[0] - 0.2) < 1e-12
    assert starts == sorted(starts)
    assert 0.799 < starts[-1] < 0.8
    torch.manual_seed(0)
    layers = [differential.DifferentialAttention(64, 1, layer=1) for _ in range(100)]
    lams = torch.stack([layer.lam() for layer in layers])
    assert abs(lams.mean() - starts[1]) < 0.05
    assert 0.02 < lams.std() < 0.2


def a_pair_needs_two_heads(p):
    differential = module(p, "differential")
    q, k, v = pairs(Sizes())
    for wrong in ((q[:, :3], k[:, :3], v), (q, k[:, :3], v), (q, k, v[:, :1])):
        with pytest.raises(ValueError, match="two heads for each of value's"):
            differential.differential_attention(*wrong, 0.5)
    same = torch.zeros(2, 4, 3, 8), torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 3, 8)
    attend = differential.differential_attention
    refused(
        ValueError,
        ("same length", lambda: attend(same[0], same[1], same[2][:, :, :1], 0.5)),
        ("one token or more", lambda: attend(same[0][:, :, :0], *same[1:], 0.5)),
        ("batch", lambda: attend(same[0][:1], *same[1:], 0.5)),
    )
    with pytest.raises(ValueError, match="each head is a pair; got embed_dim=6 and num_heads=2"):
        differential.DifferentialAttention(6, 2)
