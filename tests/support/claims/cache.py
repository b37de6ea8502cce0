"""What must hold for caches, shared key heads, and their costs, beyond the contracts."""

from functools import partial

import torch

from support.cases import draw
from support.claims import decoded, refused
from support.contracts import close, largest_tensor

B, N, WIDTH, H = 2, 11, 24, 6


def _layers(p):
    """One of each layout of heads."""
    yield p.layers.MultiHeadAttention(WIDTH, H).double()
    yield p.shared_heads.GroupedQueryAttention(WIDTH, H, 2).double()
    yield p.shared_heads.MultiQueryAttention(WIDTH, H, bias=False).double()


def decoding_in_any_chunks_is_the_full_pass(p):
    (x,) = draw((B, N, WIDTH))
    for layer in _layers(p):
        for use_rotary in (False, True):
            positions = torch.arange(N) if use_rotary else None
            full = layer(x, is_causal=True, positions=positions)
            for size in range(1, N + 1):
                cache = p.cache.KVCache.of(layer, B, N + 3)
                close(decoded(p, layer, x, cache, size, use_rotary=use_rotary), full)
                assert cache.length == N


def latents_decoded_in_any_chunks_are_the_full_pass(p):
    (x,) = draw((B, N, WIDTH))
    layer = p.latent.LatentAttention(WIDTH, 3, head_dim=5, latent_dim=7, rotary_dim=4).double()
    full = layer(x)
    for absorbed in (False, True):
        for size in range(1, N + 1):
            cache = p.cache.KVCache(B, 1, N, 7, value_dim=4, dtype=torch.float64)
            close(decoded(p, layer, x, cache, size, absorbed=absorbed), full)


def a_cache_keeps_what_it_was_given(p):
    cache = p.cache.KVCache(2, 3, 5, 7, value_dim=4, dtype=torch.float64)
    k, v = draw((2, 3, 4, 7), (2, 3, 4, 4))
    for start, end in ((0, 1), (1, 4)):
        assert cache.positions(end - start).tolist() == list(range(start, end))
        keys, values = cache.append(k[:, :, start:end].requires_grad_(), v[:, :, start:end])
        close((keys, values), (k[:, :, :end], v[:, :, :end]), atol=0.0)
        assert not keys.requires_grad
        assert keys.data_ptr() == cache.key.data_ptr(), "a view, not a copy"
    assert (cache.length, cache.max_length) == (4, 5)
    assert repr(cache) == "KVCache(4 of 5 tokens, batch 2, 3 key/value heads of width 7)"


def a_full_cache_says_so_and_loses_nothing(p):
    cache = p.cache.KVCache(1, 2, 4, 3)
    k = torch.ones(1, 2, 3, 3)
    cache.append(k, 2 * k)
    for message, *wrong in (
        ("holds 4 tokens, 3 are used and 3 more.*max_length=6", k, k),
        ("3 are used and 2 more.*max_length=5", k[:, :, :2], k[:, :, :2]),
        (r"must be \(1, 2, \d, 3\)", k[:, :1], k[:, :1]),
        (r"must be \(1, 2, \d, 3\)", k[..., :2], k[..., :2]),
        (r"must be \(1, 2, \d, 3\)", k.expand(2, 2, 3, 3), k.expand(2, 2, 3, 3)),
        (r"must be \(1, 2, 3, 3\) and \(1, 2, 3, 3\)", k, k[:, :, :2]),
    ):
        refused(ValueError, (message, partial(cache.append, *wrong)))
    assert cache.length == 3
    close(cache.append(k[:, :, :1], k[:, :, :1])[0], torch.ones(1, 2, 4, 3))


def a_decoding_step_copies_no_cache(p):
    """Folding the group into the queries: nothing as large as the repeated keys is made."""
    q, k, v = torch.randn(1, 8, 1, 16), torch.randn(1, 2, 512, 16), torch.randn(1, 2, 512, 16)
    assert largest_tensor(p.cache.cached_attention, q, k, v) < k.nbytes


def a_cache_has_the_shape_and_place_of_its_layer(p):
    for layer in _layers(p):
        cache = p.cache.KVCache.of(layer, 3, 9)
        assert cache.key.shape == cache.value.shape == (3, layer.num_kv_heads, 9, WIDTH // H)
        assert cache.key.dtype == torch.float64


def bytes_of_a_cache_are_those_of_the_formula(p):
    for model in p.cost.MODELS.values():
        # A hundredth of the length and one layer of the real shape.
        options = {"value_dim": model.value_dim, "dtype": torch.float16}
        cache = p.cache.KVCache(2, model.num_kv_heads, 40, model.head_dim, **options)
        assert cache.nbytes == cache.key.nbytes + cache.value.nbytes
        assert cache.nbytes * model.layers == model.bytes(40, batch=2)
    assert p.cost.kv_cache_bytes(1, 80, 64, 4096, 128) == 10 * 2**30
    assert p.cost.MODELS["Llama 2 70B"].bytes(4096) == 10 * 2**30 / 8
    assert p.cost.kv_cache_bytes(3, 5, 7, 11, 13, 17, 4) == 3 * 5 * 7 * 11 * (13 + 17) * 4


def parameters_of_shared_heads_are_counted(p):
    for layer in _layers(p):
        bias = layer.q_proj.bias is not None
        count = sum(x.numel() for x in layer.parameters())
        assert count == p.cost.grouped_query_parameters(WIDTH, H, layer.num_kv_heads, bias)
    assert p.cost.grouped_query_parameters(512, 8, 1, bias=False) == 589_824


def grouping_a_trained_layer_pools_its_heads(p):
    (x,) = draw((B, N, WIDTH))
    layer = p.layers.MultiHeadAttention(WIDTH, H, dropout=0.25).double().eval()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    assert p.shared_heads.group_kv_heads(layer, H)(x).equal(layer(x)), "nothing to pool"
    for how in ("mean", "first", "random"):
        grouped = p.shared_heads.group_kv_heads(layer, 2, how).eval()
        assert (grouped.num_kv_heads, grouped.dropout) == (2, 0.25)
        assert grouped.q_proj.weight.equal(layer.q_proj.weight)
        for name in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
            heads = before[name].unflatten(0, (H, -1))
            pooled = grouped.state_dict()[name].unflatten(0, (2, -1))
            if how == "mean":
                close(pooled, torch.stack([heads[:3].mean(0), heads[3:].mean(0)]))
            elif how == "first":
                assert pooled.equal(heads[[0, 3]])
            else:
                assert (pooled - heads[[0, 3]]).abs().min() > 0
    close(layer.state_dict(), before, atol=0.0)
    again = p.shared_heads.group_kv_heads(p.shared_heads.group_kv_heads(layer, 2), 1)
    close(again.k_proj.weight, before["k_proj.weight"].unflatten(0, (H, -1)).mean(0))
    one, two = (p.shared_heads.group_kv_heads(layer, 2, "random").k_proj.weight for _ in range(2))
    assert (one - two).abs().min() > 0


def messages_about_shared_heads_say_what_to_do(p):
    layer = p.layers.MultiHeadAttention(12, 6)
    x = torch.zeros(1, 3, 12)
    refused(
        ValueError,
        ("num_heads=6 is not a multiple of num_kv_heads=4; use 1, 2, 3 or 6", lambda: p.shared_heads.GroupedQueryAttention(12, 6, 4)),
        ("num_kv_heads=6 is not a multiple of the new num_kv_heads=4", lambda: p.shared_heads.group_kv_heads(layer, 4)),
        ('"mean", "first" or "random"; got \'median\'', lambda: p.shared_heads.group_kv_heads(layer, 2, "median")),
        ("one sequence; got 3 queries and 2 keys", lambda: layer(x, x[:, :2], positions=torch.arange(3))),
    )  # fmt: skip
