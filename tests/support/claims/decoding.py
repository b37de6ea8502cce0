"""What must hold behind a cache, whatever the layer: its cost, its dtypes, padding, drafts and beams; and what is refused."""

from functools import partial

import pytest
import torch

from support.cases import draw, module
from support.claims import decoded, refused
from support.contracts import close, largest_tensor

B, N, WIDTH, H = 2, 9, 24, 3


def _layers(p):
    """Layers of every kind of cache that keeps keys and values."""
    torch.manual_seed(0)
    yield p.layers.MultiHeadAttention(WIDTH, H)
    yield p.shared_heads.GroupedQueryAttention(WIDTH, H, 1)
    yield module(p, "sinks").SinkAttention(WIDTH, H, num_kv_heads=1)
    yield module(p, "sinks").GatedAttention(WIDTH, H)
    yield module(p, "differential").DifferentialAttention(WIDTH, H, num_kv_heads=1)
    yield module(p, "latent").LatentAttention(WIDTH, H, 8, 6, 4, query_latent_dim=5)


def a_new_cache_goes_on_in_any_chunks(p):
    (x,) = draw((B, N, WIDTH))
    for layer in _layers(p):
        layer = layer.double()
        for at in (None, torch.arange(N)):
            options = {} if at is None else {"use_rotary": True}
            full = layer(x, is_causal=True, positions=at)
            for size in (1, 4, N):
                cache = p.decoding.new_cache(layer, B, N)
                close(decoded(p, layer, x, cache, size, **options), full)
            with pytest.raises(ValueError, match=f"holds {N} tokens"):
                p.decoding.decode(layer, x, cache, **options)


def latents_side_by_side_are_read_in_one_pass(p):
    """Absorbed, behind the cache that `new_cache` makes: padded, cropped and reordered."""
    (x,) = draw((B, N, WIDTH))
    layer = module(p, "latent").LatentAttention(WIDTH, H, 8, 6, 4, query_latent_dim=5).double()
    real = (torch.arange(N) >= torch.tensor([5, 0])[:, None])[:, None, None]
    rows = torch.tensor([1, 0, 1])
    for mask in (None, real):
        full = layer(x, attn_mask=mask)
        for size in (1, 4, N):
            cache, found = p.decoding.new_cache(layer, B, N), []
            for a in range(0, N, size):
                part = None if mask is None else mask[..., a : a + size]
                options = {"absorbed": True, "attn_mask": part}
                found.append(p.decoding.decode(layer, x[:, a : a + size], cache, **options))
            close(torch.cat(found, dim=1)[:, 5:], full[:, 5:])
        cache.crop(7)
        cache.reorder(rows)
        part = None if mask is None else mask[rows, ..., 7:]
        last = p.decoding.decode(layer, x[rows, 7:], cache, absorbed=True, attn_mask=part)
        close(last, full[rows, 7:])
    assert cache.nbytes == 3 * N * (6 + 4) * 8
    assert cache.key.untyped_storage().data_ptr() == cache.value.untyped_storage().data_ptr()


def a_decoded_token_makes_no_table_of_all_tokens(p):
    """Twice as many tokens behind it: twice as large a tensor at most."""
    for layer in _layers(p):
        sizes = []
        for n in (300, 600):
            cache = p.decoding.new_cache(layer, 1, n + 1)
            p.decoding.decode(layer, torch.randn(1, n, WIDTH), cache)
            sizes.append(
                largest_tensor(
                    partial(p.decoding.decode, layer, cache=cache), torch.randn(1, 1, WIDTH)
                )
            )
        assert sizes[1] <= 2.1 * sizes[0], f"{type(layer).__name__} makes {sizes} bytes"


def a_cache_keeps_its_dtype(p):
    x = torch.randn(B, N, WIDTH)
    for layer in _layers(p):
        expected = layer(x, is_causal=True).detach()
        for dtype in (torch.bfloat16, torch.float64):
            cache = p.cache.KVCache.of(layer, B, N, dtype=dtype)
            out = decoded(p, layer, x, cache, 4)
            assert (cache.key.dtype, out.dtype) == (dtype, torch.float32)
            close(out, expected, atol=0.02 if dtype == torch.bfloat16 else 1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            out = decoded(p, layer, x, p.decoding.new_cache(layer, B, N), 4)
        close(out.float(), expected, atol=0.05)


def padding_on_the_left_is_not_read(p):
    """Sequences of 4 and 9 tokens in one batch, and each alone."""
    (x,) = draw((B, N, WIDTH))
    real = torch.ones(B, N, dtype=torch.bool)
    real[0, : N - 4] = False
    for layer in _layers(p):
        layer = layer.double()
        for use_rotary in (False, True):
            at = torch.arange(N) if use_rotary else None
            options = {"is_causal": True, "positions": at}
            together = layer(x, attn_mask=real[:, None, None], **options)
            alone = layer(x[:1, -4:], is_causal=True, positions=None if at is None else at[:4])
            close(together[:1, -4:], alone)
            cache = p.decoding.new_cache(layer, B, N)
            rows = [
                p.decoding.decode(layer, x[:, a:b], cache, attn_mask=mask, use_rotary=use_rotary)
                for a, b, mask in ((0, 6, real[:, None, None, :6]), (6, 8, None), (8, 9, None))
            ]
            close(torch.cat(rows, dim=1)[:, -4:], together[:, -4:])


def a_draft_is_taken_back_and_beams_go_on(p):
    x, other = draw((B, N, WIDTH), (B, N, WIDTH))
    rows = torch.tensor([1, 1, 0])
    for layer in _layers(p):
        layer = layer.double()
        cache = p.decoding.new_cache(layer, B, N)
        p.decoding.decode(layer, torch.cat([x[:, :5], other[:, 5:8]], dim=1), cache)
        cache.crop(5)
        close(p.decoding.decode(layer, x[:, 5:8], cache), layer(x[:, :8], is_causal=True)[:, 5:])
        cache.reorder(rows)
        last = layer(x[rows], is_causal=True)[:, 8:]
        close(p.decoding.decode(layer, x[rows, 8:], cache), last)
        for length in (-1, N + 1):
            with pytest.raises(ValueError, match=f"length must be 0 to {N}, .*; got {length}"):
                cache.crop(length)


def reordered_padding_stays_with_its_sequence(p):
    cache = p.cache.KVCache(2, 1, 4, 3)
    one = torch.ones(2, 1, 2, 3)
    assert cache.visible() is None
    cache.append(one, one, torch.tensor([[False, True], [True, True]]))
    cache.reorder(torch.tensor([1, 0, 0]))
    assert cache.visible()[:, 0, 0].tolist() == [[True, True], [False, True], [False, True]]


def an_adapter_or_a_quantized_matrix_is_absorbed_as_it_acts(p):
    class Adapted(torch.nn.Module):
        def __init__(self, proj):
            super().__init__()
            self.proj, self.more = proj, torch.nn.Linear(proj.in_features, proj.out_features, False)

        def forward(self, x):
            return self.proj(x) + self.more(x)

    (x,) = draw((B, N, WIDTH))
    layer = module(p, "latent").LatentAttention(WIDTH, H, 8, 6, 4).double()
    layer.k_proj, layer.v_proj = Adapted(layer.k_proj).double(), Adapted(layer.v_proj).double()
    close(layer(x, absorbed=True), layer(x))
    close(layer(x, absorbed=True, is_causal=False), layer(x, is_causal=False))


def another_rotation_is_used_everywhere(p):
    (x,) = draw((B, N, WIDTH))
    for layer in _layers(p):
        layer = layer.double()
        usual = layer(x, is_causal=True, positions=torch.arange(N))
        layer.rotary = partial(p.positions.rotary, base=10.0)
        slower = layer(x, is_causal=True, positions=torch.arange(N))
        assert (slower - usual).abs().max() > 1e-3
        cache = p.decoding.new_cache(layer, B, N)
        close(decoded(p, layer, x, cache, 4, use_rotary=True), slower)


def what_does_not_fit_is_refused_by_every_layer(p):
    x, empty = torch.zeros(2, 4, WIDTH), torch.zeros(2, 0, WIDTH)
    mask = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    by_head = torch.ones(2, H, 1, 4, dtype=torch.bool)
    for layer in _layers(p):
        cache = p.decoding.new_cache(layer, 2, 8)
        refused(
            ValueError,
            ("one token or more; got", partial(layer, empty)),
            ("one token or more; got", partial(p.decoding.decode, layer, empty, cache)),
            (rf"query must be \(batch, seq, {WIDTH}\)", partial(layer, x[0])),
            (rf"query must be \(batch, seq, {WIDTH}\)", partial(p.decoding.decode, layer, x[..., :5], cache)),
            ("takes padding, .* behind a cache only", partial(p.decoding.decode, layer, x, cache, attn_mask=mask)),
            ("takes padding, .* behind a cache only", partial(p.decoding.decode, layer, x, cache, attn_mask=by_head)),
        )  # fmt: skip
        if not isinstance(layer, p.layers.MultiHeadAttention):
            with pytest.raises(
                ValueError, match="takes no key and no value: its keys are turned .* got key"
            ):
                layer(x, x + 1)
            continue
        refused(
            ValueError,
            ("key and value must have the same length", partial(layer, x, x, x[:, :2])),
            ("key and value must have the same length", partial(layer, x, x[:, :2], x)),
            ("of one batch; .*expand", partial(layer, x, x[:1])),
            ("one token or more", partial(layer, x, empty)),
            ("key must be", partial(layer, x, x[..., :5])),
        )


def functions_refuse_what_does_not_fit(p):
    q, k = torch.zeros(2, 4, 3, 8), torch.zeros(2, 2, 5, 8)
    sink = torch.zeros(4)
    sinks, streaming = module(p, "sinks").sink_attention, module(p, "streaming").streaming_attention
    differential = module(p, "differential").differential_attention
    disentangled, tables = module(p, "disentangled").disentangled_attention, torch.zeros(4, 6, 8)
    for call in (
        lambda q, k, v: p.steps.attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)),
        p.cache.cached_attention,
        lambda q, k, v: sinks(q, k, v, sink),
        lambda q, k, v: streaming(q, k, v, 1, 2),
        lambda q, k, v: differential(q, k, v[:, ::2], 0.5),
        lambda q, k, v: disentangled(q, k[:, [0, 0, 1, 1]], v[:, [0, 0, 1, 1]], tables),
    ):
        refused(
            ValueError,
            ("same length", partial(call, q, k, k[:, :, :2])),
            ("one token or more", partial(call, q[:, :, :0], k, k)),
            ("one token or more", partial(call, q, k[:, :, :0], k[:, :, :0])),
            ("same head_dim", partial(call, q[..., :3], k, k)),
            ("batch", partial(call, q, k[:1], k[:1])),
        )
    with pytest.raises(ValueError, match=r"must be \(batch, heads, seq, head_dim\)"):
        sinks(q[None], k[None], k[None], sink)
    with pytest.raises(ValueError, match="query and key need two heads for each of value's 1"):
        differential(q[:, :3], k, k[:, :1], 0.5)
    with pytest.raises(ValueError, match="multiple of the number of key/value heads; got 3 and 2"):
        p.cache.cached_attention(q[:, :3], k, k)


def one_sequence_may_be_named_three_times(p):
    x = torch.randn(1, 4, WIDTH)
    layer = p.layers.SelfAttention(WIDTH, H)
    close(layer(x, x, x), layer(x), atol=0.0)
    causal = p.layers.CausalSelfAttention(WIDTH, H)
    close(causal(x, x, is_causal=True), causal(x), atol=0.0)
    refused(
        ValueError,
        ("takes no key and no value: queries, keys and values come from one sequence; got key", partial(layer, x, x + 1)),
        ("takes no is_causal=False: it is always causal", partial(causal, x, is_causal=False)),
    )  # fmt: skip


def a_closed_sink_and_an_empty_row_are_0(p):
    softmax = module(p, "sinks").softmax_with_sink
    scores = torch.tensor([[[[1.0, 2.0], [-torch.inf, -torch.inf]]]], requires_grad=True)
    for closed in (-torch.inf, 0.5):
        sink = torch.tensor([closed], requires_grad=True)
        weights = softmax(scores, sink)
        assert weights[0, 0, 1].tolist() == [0.0, 0.0]
        if closed == -torch.inf:
            close(weights[0, 0, 0], scores[0, 0, 0].softmax(-1), atol=1e-6)
        for gradient in torch.autograd.grad(weights.square().sum(), (scores, sink)):
            assert gradient.isfinite().all()


def weights_are_returned_where_they_are_asked_for(p):
    attend = module(p, "disentangled").disentangled_attention
    q, k, v = draw(*[(1, 2, 3, 4)] * 3)
    for learns in (False, True):
        tables = torch.ones(2, 6, 4, dtype=torch.float64, requires_grad=learns)
        assert attend(q, k, v, tables, need_weights=False)[1] is None
        assert attend(q, k, v, tables)[1].shape == (1, 2, 3, 3)


def the_lowest_number_of_half_precision_hides_as_well(p):
    attend = module(p, "multi_token").multi_token_attention
    q, k, v, kernel = (x.half() for x in draw(*[(1, 2, 5, 4)] * 3, (2, 2, 3)))
    visible = (torch.arange(5) >= 2).expand(1, 1, 1, 5)
    low = torch.zeros(1, 1, 1, 5).half().masked_fill(~visible, torch.finfo(torch.float16).min)
    hidden, lowest = (attend(q, k, v, kernel, attn_mask=mask)[0] for mask in (visible, low))
    close(lowest[:, :, 2:], hidden[:, :, 2:], atol=1e-3)


def a_draft_of_reordered_states_is_taken_back(p):
    (x,) = draw((2, 7, 12))
    torch.manual_seed(0)
    layer, rows = module(p, "delta").GatedDeltaAttention(12, 3).double(), torch.tensor([1, 0])
    cache = p.decoding.new_cache(layer, 2, 7)
    p.decoding.decode(layer, x[:, :3], cache)
    p.decoding.decode(layer, x[:, 3:6], cache)
    cache.reorder(rows)
    cache.crop(5)
    close(p.decoding.decode(layer, x[rows, 5:], cache), layer(x[rows])[:, 5:])
