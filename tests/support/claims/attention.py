"""What must hold for the steps, the masks and the layer beyond the contracts: heads, costs, dropout, messages."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attncourse import spec
from support.claims import refused
from support.contracts import Tensors, close

B, H, N, M, D, E = 2, 3, 5, 7, 11, 13


def table(p, rule, batch=1, heads=1):
    return p.masks.dense(rule, batch, heads, N, M)


def causal_rules_equal_their_loops(p):
    assert table(p, p.masks.causal)[0, 0].equal(spec.causal(N, M))
    for offset in (-2, 0, 3):
        assert table(p, p.masks.causal_at(offset))[0, 0].equal(spec.causal(N, M, offset))


def padding_equals_its_loops(p):
    lengths = [0, 3, 7]
    expected = spec.padding(lengths, M).expand(3, H, N, M)
    assert table(p, p.masks.padding(torch.tensor(lengths)), 3, H).equal(expected)
    keys = spec.padding(lengths, M)[:, 0, 0]
    assert table(p, p.masks.present(keys), 3, H).equal(expected)


def rules_compose(p):
    causal, late = p.masks.causal, p.masks.causal_at(2)
    one, two = spec.causal(N, M), spec.causal(N, M, 2)
    not_late = lambda b, h, i, j: ~late(b, h, i, j)  # noqa: E731
    assert table(p, p.masks.all_of(late, causal))[0, 0].equal(one)
    assert table(p, p.masks.any_of(causal, late))[0, 0].equal(two)
    assert table(p, p.masks.any_of(causal, not_late))[0, 0].equal(one | ~two)
    assert table(p, p.masks.all_of()).all()
    assert not table(p, p.masks.any_of()).any()
    assert table(p, lambda *_: True).all(), "a rule may answer with a plain bool"


def rules_take_plain_numbers(p):
    lengths = torch.tensor([4])
    assert [bool(p.masks.causal(0, 0, 2, j)) for j in (1, 2, 3)] == [True, True, False]
    assert [bool(p.masks.padding(lengths)(0, 0, 0, j)) for j in (3, 4)] == [True, False]


def rules_print_the_call_that_made_them(p):
    lengths = p.masks.padding(torch.tensor([3, 5]))
    assert p.masks.causal_at(2).__name__ == "causal_at(offset=2)"
    assert lengths.__name__ == "padding(lengths=[3, 5])"
    both = p.masks.all_of(p.masks.causal, lengths)
    assert str(both).startswith("<function all_of(causal, padding(lengths=[3, 5])) at ")
    present = p.masks.present(torch.ones(2, 9).bool())
    assert present.__name__ == "present(keys=a tensor of shape (2, 9))"
    assert p.scores.softcap(30.0).__name__ == "softcap(cap=30.0)"


def buckets_equal_their_loops(p):
    distances = torch.arange(-300, 301)
    for buckets, furthest in ((32, 128), (8, 20), (16, 100), (4, 3)):
        for both in (False, True):
            found = p.scores.t5_bucket(distances, buckets, furthest, bidirectional=both)
            wanted = [spec.t5_bucket(x, buckets, furthest, both) for x in distances.tolist()]
            assert found.tolist() == wanted
            assert found.max() == buckets - 1
    for buckets, furthest, both in ((6, 128, True), (5, 128, False), (32, 8, True), (0, 9, False)):
        with pytest.raises(ValueError, match="multiple of .* got buckets="):
            p.scores.t5_bucket(distances, buckets, furthest, both)


def heads_are_cut_and_joined_like_their_loops(p):
    x = torch.randn(B, N, H * D)
    heads = spec.split_heads(x, H)
    assert p.layers.split_heads(x, H).equal(heads)
    assert p.layers.merge_heads(heads).equal(x)
    assert spec.merge_heads(heads).equal(x)
    assert p.layers.split_heads(x, 1).equal(x[:, None])
    assert p.layers.split_heads(x, H).data_ptr() == x.data_ptr(), "a view, not a copy"


def scale_is_used(p):
    q, k, v = torch.randn(B, H, N, D), torch.randn(B, H, M, D), torch.randn(B, H, M, E)
    theirs = nn.functional.scaled_dot_product_attention(q, k, v, scale=0.3)
    close(p.steps.scaled_dot_product_attention(q, k, v, scale=0.3), theirs, atol=1e-5)


def normalizer_is_used(p):
    q, k, v = torch.randn(B, H, N, D), torch.randn(B, H, M, D), torch.randn(B, H, M, E)
    _, weights = p.steps.attention(q, k, v, normalize=lambda scores: torch.ones_like(scores))
    assert (weights == 1).all()


def one_step_at_a_time_is_attention(p):
    q, k, v = torch.randn(B, H, N, D), torch.randn(B, H, M, D), torch.randn(B, H, M, E)
    rule, visible = p.scores.softcap(2.0), torch.rand(N, M) > 0.3
    scores = p.steps.mask(p.steps.modify(p.steps.score(q, k), rule), visible)
    weights = p.steps.normalize(scores)
    together = p.steps.attention(q, k, v, attn_mask=visible, score_mod=rule)
    close((p.steps.mix(weights, v), weights), together, atol=0.0)


def training_keeps_one_table_of_weights(p):
    q, k, v = (torch.randn(B, H, *size, requires_grad=True) for size in ((N, D), (M, D), (M, E)))
    for mask in (None, spec.causal(N, M), torch.zeros(N, M)):
        weights = p.steps.attention(q, k, v, attn_mask=mask)[1]
        kept = tables_kept(lambda mask=mask: p.steps.attention(q, k, v, attn_mask=mask), N, M)
        assert len(kept) == 1, f"backward keeps {len(kept)} tables of {N} x {M}"
        close(kept[0].view_as(weights), weights, atol=0.0)


def tables_kept(call, n: int, m: int) -> list[Tensor]:
    """The float tensors of n x m that ``call`` leaves for backward, each storage once."""
    kept = {}

    def keep(x):
        if x.is_floating_point() and x.shape[-2:] == (n, m):
            kept[x.untyped_storage().data_ptr()] = x
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        result = call()  # kept alive, so that no storage is used twice
    del result
    return list(kept.values())


def without_an_empty_row_one_table_is_made(p):
    """It is looked for before anything is filled, and looking makes no table."""
    scores = torch.randn(B, H, N, M)
    for gradients in (False, True):
        with Tensors() as seen:
            p.steps.normalize(scores.requires_grad_(gradients))
        assert seen.numbers < 3.5 * scores.numel(), "two are views without their history"


def normalize_is_the_same_traced_batched_and_compiled(p):
    """With an empty row and without one; where nobody can look for it, both rows are filled."""
    torch.compiler.reset()  # copies of the package share their code, by which compiled code is kept
    for forbidden in ([], [(0, 1)]):
        scores = torch.randn(B, H, N, M)
        for b, i in forbidden:
            scores[b, :, i] = -torch.inf
        expected = p.steps.normalize(scores)
        close(torch.vmap(p.steps.normalize)(scores.clone().requires_grad_()), expected, atol=0.0)
        sums = torch.func.grad(lambda x: p.steps.normalize(x).square().sum())(scores)
        assert sums.isfinite().all()
        batched = torch.func.vmap(torch.func.grad(lambda x: p.steps.normalize(x)[0].sum()))
        assert batched(scores).isfinite().all()
        compiled = torch.compile(p.steps.normalize, backend="eager", fullgraph=True)
        close(compiled(scores.clone().requires_grad_()), expected, atol=0.0)
    meta = torch.empty(scores.shape, device="meta", requires_grad=True)
    assert p.steps.normalize(meta).shape == scores.shape


def dropout_of_the_function_is_that_of_torch(p):
    q = k = v = torch.randn(1, 1, 64, 8)
    dropped = p.steps.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert not dropped.equal(p.steps.scaled_dot_product_attention(q, k, v))
    gone = p.steps.scaled_dot_product_attention(q, k, v, dropout_p=1.0)
    assert (gone == 0).all()


def xavier_draws_from_its_interval(p):
    layer = p.layers.MultiHeadAttention(64, 4, kdim=256, init="xavier")
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        projection = getattr(layer, name)
        bound = (6 / sum(projection.weight.shape)) ** 0.5
        largest = projection.weight.abs().max().item()
        assert 0.95 * bound < largest <= bound, f"{name}: {largest:.3f}, bound {bound:.3f}"
        assert not projection.bias.any()
    assert p.layers.MultiHeadAttention(64, 4).k_proj.bias.any()


def flops_are_those_that_torch_counts(p):
    q, k, v = torch.randn(B, H, N, D), torch.randn(B, H, M, D), torch.randn(B, H, M, E)
    assert counted(lambda: p.steps.attention(q, k, v)) == p.cost.attention_flops(B, H, N, M, D, E)
    x, memory = torch.randn(B, N, H * D), torch.randn(B, M, H * D)
    for heads in (1, H):
        layer = p.layers.MultiHeadAttention(H * D, heads)
        flops = counted(lambda layer=layer: layer(x, memory, need_weights=True))
        assert flops == p.cost.multi_head_flops(B, N, M, H * D)
    linear = flops - p.cost.attention_flops(B, 1, N, M, H * D, H * D)
    assert linear == p.cost.projection_flops(B, N, M, H * D)


def counted(call) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def parameters_are_counted(p):
    for options in ({}, {"bias": False}, {"kdim": 17}, {"vdim": 19, "bias": False}):
        layer = p.layers.MultiHeadAttention(H * D, H, **options)
        numbers = sum(x.numel() for x in layer.parameters())
        assert numbers == p.cost.multi_head_parameters(H * D, **options)


def bytes_are_those_of_the_scores(p):
    scores = p.steps.score(torch.randn(B, H, N, D), torch.randn(B, H, M, D))
    assert scores.untyped_storage().nbytes() == p.cost.score_bytes(B, H, N, M)


def q(*shape):
    return torch.randn(shape)


def messages_say_what_to_do(p):
    """What users do wrong, and what the message must say: what was expected, what came, what to do."""
    attend, layer = p.steps.attention, p.layers.MultiHeadAttention
    qkv, ones = (q(B, H, N, D), q(B, H, M, D), q(B, H, M, E)), torch.ones
    function = p.steps.scaled_dot_product_attention
    refused(
        TypeError,
        (r"attn_mask must be bool .* got torch.int64. .*~attn_mask.bool", lambda: p.steps.mask(q(B, H, N, M), ones(N, M).long())),
        ("got torch.uint8", lambda: function(*qkv, ones(N, M, dtype=torch.uint8), is_causal=True)),
        (r"keys must be bool, True = a real token; got torch.int64. Use keys.bool", lambda: p.masks.present(ones(B, M).long())),
    )  # fmt: skip
    refused(
        ValueError,
        (r"2 axes .* or 4 .* got shape \(2, 5, 7\)\. .*attn_mask\[:, None\]", lambda: p.steps.mask(q(B, H, N, M), ones(B, N, M).bool())),
        (r"same head_dim .* got query \(5, 11\), key \(7, 12\), value \(7, 13\)", lambda: attend(q(N, D), q(M, D + 1), q(M, E))),
        ("key and value must have the same length", lambda: attend(q(N, D), q(M, D), q(M + 1, E))),
        ("same batch and heads; .* enable_gqa=True", lambda: attend(q(B, H, N, D), q(B, 1, M, D), q(B, 1, M, E))),
        ("query heads must be a multiple .* got 3 and 2; use a divisor of 3", lambda: function(q(B, 3, N, D), q(B, 2, M, D), q(B, 2, M, E), enable_gqa=True)),
        ("probability from 0 to 1; got 1.5", lambda: attend(q(N, D), q(M, D), q(M, E), dropout_p=1.5)),
        ("embed_dim=12 is not a multiple of num_heads=5; use 1, 2, 3, 4, 6 or 12", lambda: layer(12, 5)),
        ("width=1 is not a multiple of num_heads=2; use 1$", lambda: p.layers.split_heads(q(B, N, 1), 2)),
        (r'"default" or "xavier"; got \'kaiming\'', lambda: layer(12, 3, init="kaiming")),
        (r"query must be \(batch, seq, 12\); got shape \(5, 12\)\. .*x\[None\]", lambda: layer(12, 3)(q(N, 12))),
        (r"value must be \(batch, seq, 7\); got shape \(2, 5, 12\)", lambda: layer(12, 3, vdim=7)(q(B, N, 12))),
        ("2 axes .* or 4 ", lambda: layer(12, 3)(q(B, N, 12), attn_mask=ones(B, N, N).bool())),
        ("lengths count tokens and must be 0 or more; got", lambda: p.masks.padding(torch.tensor([3, -1]))),
        ("must be positive; got 0", lambda: p.scores.softcap(0)),
        ("odd number of columns, .* got 4", lambda: p.scores.relative_bias(q(H, 4))),
    )  # fmt: skip
