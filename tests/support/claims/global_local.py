"""What must hold for global tokens, planned blocks and distances, beyond the contracts."""

import copy
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module
from support.cases.global_local import some_global
from support.cases.window import ends_hidden
from support.claims import refused
from support.claims.window import numbers_made
from support.contracts import close, largest_tensor, same


def global_tokens_equal_their_loops(p):
    is_global = some_global(3, 7)
    rule = p.masks.global_tokens(is_global)
    assert p.masks.dense(rule, 3, 1, 7, 7).equal(spec.global_tokens(is_global))
    assert [bool(rule(0, 0, i, j)) for i, j in ((0, 5), (5, 0), (5, 6))] == [True, True, False]


def a_longformer_of_many_blocks_equals_its_mask(p):
    """Windows that differ in both directions, lengths that no block divides, global tokens at the edges."""
    for left, right in ((40, 3), (0, 70), (0, 0)):
        q, k, v = (x.requires_grad_() for x in draw((3, 2, 83, 4), (3, 2, 83, 4), (3, 2, 83, 3)))
        is_global = some_global(3, 83)
        visible = spec.longformer_mask(is_global, left, right)
        attend = p.longformer.longformer_attention
        ours = attend(q, k, v, is_global, (left, right), scale=0.7)
        same(ours, F.scaled_dot_product_attention(q, k, v, visible, scale=0.7), (q, k, v))
        present = ends_hidden(3, 83)  # the global token at the front of sample 0 is padding, too
        ours = attend(q, k, v, is_global, (left, right), scale=0.7, key_mask=present)
        seen = visible & present[:, None, None]
        same(ours, F.scaled_dot_product_attention(q, k, v, seen, scale=0.7), (q, k, v))


def more_global_tokens_than_announced_are_local(p):
    q, k, v = draw(*[(1, 2, 40, 4)] * 3)
    is_global = torch.zeros(1, 40, dtype=torch.bool)
    is_global[0, [3, 17, 30]] = True
    first = is_global & (torch.arange(40) < 20)
    attend = partial(p.longformer.longformer_attention, q, k, v, window_size=(2, 1))
    close(attend(is_global=is_global, most=2), attend(is_global=first))
    for most in (3, 5, 50):
        close(attend(is_global=is_global, most=most), attend(is_global=is_global))


def without_global_tokens_it_is_a_window(p):
    q, k, v = draw(*[(2, 2, 40, 4)] * 3)
    nobody = torch.zeros(2, 40, dtype=torch.bool)
    ours = p.longformer.longformer_attention(q, k, v, nobody, (2, 1))
    close(ours, p.window.sliding_window_attention(q, k, v, (2, 1)))
    layer = p.longformer.LongformerAttention(8, 2, 6).double()
    window = p.window.SlidingWindowAttention(8, 2, 6).double()
    window.load_state_dict(layer.state_dict(), strict=False)
    (x,) = draw((2, 40, 8))
    close(layer(x, nobody), window(x))
    close(layer(x), window(x))


def _layers(p, **options):
    """A layer with global tokens and one with blocks, and calls of them that leave nothing to chance."""
    torch.manual_seed(0)
    longformer = p.longformer.LongformerAttention(8, 2, 6, num_global=2, **options)
    for name in "qkv":  # they start as copies
        getattr(longformer, f"{name}_global_proj").reset_parameters()
    yield longformer
    yield p.bigbird.BigBirdAttention(8, 2, 16, 2, seed=3, **options)


def the_first_tokens_are_global_unless_the_call_says_which(p):
    (x,) = draw((2, 40, 8))
    layer = next(_layers(p)).double()
    first, others = torch.arange(40).expand(2, 40) < 2, some_global(2, 40)
    close(layer(x), layer(x, first))
    close(layer(x, need_weights=True), layer(x, is_global=first, need_weights=True))
    for call in (partial(layer, x), partial(layer, x, x, x), partial(layer, query=x, key=x)):
        close(call(is_global=others), layer(x, others))
    assert not torch.allclose(layer(x), layer(x, others))
    assert layer(x[:, :1]).shape == (2, 1, 8)


def padding_is_read_by_nobody(p):
    """In both forms: with weights, and without a table. What lies there changes nothing, and no weight goes there."""
    (x,) = draw((2, 128, 8))
    present = ends_hidden(2, 128)
    loud = x + 100 * ~present[..., None]
    for layer in _layers(p):
        layer = layer.double()
        padded = partial(layer, attn_mask=present[:, None, None])
        out, weights = padded(x, need_weights=True)
        close(padded(x), out)
        assert not weights.masked_select(~present[:, None, None]).any()
        close(padded(loud)[present], out[present])
        close(layer(x, attn_mask=torch.ones(2, 1, 1, 128).bool()), layer(x))
        assert not torch.allclose(layer(x), out)
        assert largest_tensor(padded, x) < 2 * 128 * 128 * 8
    is_global = ends_hidden(2, 128).roll(1, 1)
    out, weights = next(_layers(p)).double()(
        x, is_global, attn_mask=present[:, None, None], need_weights=True
    )
    assert not weights.masked_select(~present[:, None, None]).any()


def positions_turn_queries_and_keys_of_both_kinds(p):
    """Weights depend on distances alone; and those of a token far away are others."""
    (x,) = draw((1, 128, 8))
    for layer in _layers(p):
        layer, at = layer.double(), torch.arange(128)
        out, weights = layer(x, positions=at, need_weights=True)
        close(layer(x, positions=at), out)
        close(layer(x, positions=at + 7, need_weights=True), (out, weights))
        for row in (0, 70):  # a global token, or one of the first block; and one in the middle
            spread = layer(x, positions=3 * at, need_weights=True)[1]
            assert not torch.allclose(weights[:, :, row], spread[:, :, row])
        seen = []
        layer.rotary = lambda x, positions, seen=seen: seen.append(1) or x
        layer(x, positions=at)
        assert len(seen) == (4 if hasattr(layer, "q_global_proj") else 2)
        close(layer(x, positions=at), layer(x))


def dropout_needs_no_weights(p):
    x = torch.randn(2, 128, 8)
    for layer in _layers(p, dropout=0.5):
        assert largest_tensor(layer, x) < 2 * 2 * 128 * 128 * 4
        rows = (layer(x) != layer(x)).any(-1)
        assert rows.all(), "every row, those of global tokens too"
        assert layer.eval()(x).equal(layer(x))


def a_plan_is_drawn_once(p):
    x = torch.randn(1, 128, 8)
    _, layer = _layers(p)
    assert layer.plan(128) is layer.plan(128)
    assert layer.state_dict().keys() == p.layers.SelfAttention(8, 2).state_dict().keys()
    close(copy.deepcopy(layer)(x), layer(x), atol=0.0)
    assert not layer.plan(128).blocks.equal(
        p.bigbird.BigBirdAttention(8, 2, 16, 2, seed=4).plan(128).blocks
    )


def projections_of_global_tokens_start_as_copies(p):
    layer = p.longformer.LongformerAttention(8, 2, 6)
    for name in "qkv":
        local, own = getattr(layer, f"{name}_proj"), getattr(layer, f"{name}_global_proj")
        assert own is not local
        close(dict(own.named_parameters()), dict(local.named_parameters()), atol=0.0)
    assert sum(x.numel() for x in layer.parameters()) == 7 * (8 * 8 + 8)


def the_work_with_global_tokens_and_planned_blocks_grows_with_the_length(p):
    """Forward and backward. A table of all pairs, or slices in the loop, would make four times as many numbers."""

    def longformer(n):
        is_global = some_global(1, n)
        return lambda *x: p.longformer.longformer_attention(*x, is_global, (16, 16))

    def bigbird(n):
        plan = p.bigbird.bigbird_plan(n // 32, 1, 1)
        return lambda *x: p.bigbird.bigbird_attention(*x, plan, 32)

    def numbers(make, n: int) -> int:
        return numbers_made(make(n), *[torch.randn(1, 1, n, 16) for _ in range(3)])

    for make in (longformer, bigbird):
        assert numbers(make, 2048) < 2.2 * numbers(make, 1024)


def a_bigbird_of_any_plan_equals_its_mask(p):
    for blocks, random, size in ((12, 3, 2), (6, 1, 3), (5, 0, 4), (4, 0, 3), (3, 0, 3), (2, 0, 2)):
        plan = p.bigbird.bigbird_plan(blocks, random, 2, seed=blocks)
        n = blocks * size
        q, k, v = (x.requires_grad_() for x in draw((2, 2, n, 4), (2, 2, n, 4), (2, 2, n, 3)))
        visible = p.masks.dense(p.bigbird.bigbird_mask(plan, size), 1, 2, n, n)
        assert visible.equal(spec.bigbird_mask(plan.blocks, size))
        assert visible.all() == (blocks < 5)
        ours = p.bigbird.bigbird_attention(q, k, v, plan, size, scale=0.7)
        same(ours, F.scaled_dot_product_attention(q, k, v, visible, scale=0.7), (q, k, v))


def a_plan_says_who_reads_what(p):
    plan = p.bigbird.bigbird_plan(9, 2, 3, seed=4)
    assert plan.blocks.shape == (3, 7, 7)
    assert repr(plan) == "BigBirdPlan(num_blocks=9, num_random=2, num_heads=3)"
    for head in plan.blocks.tolist():
        for row, (first, last, before, itself, behind, *drawn) in enumerate(head, start=1):
            assert (first, last, before, itself, behind) == (0, 8, row - 1, row, row + 1)
            fixed = {0, 8, row - 1, row, row + 1}
            assert len(fixed | {*drawn}) == len(fixed) + 2
    again, other = (p.bigbird.bigbird_plan(9, 2, 3, seed=seed) for seed in (4, 5))
    assert plan.blocks.equal(again.blocks)
    assert not plan.blocks.equal(other.blocks)
    assert not plan.blocks[0].equal(plan.blocks[1]), "every head draws for itself"


def hops_are_shortest_ways(p):
    generator = torch.Generator().manual_seed(0)
    for n, share in ((1, 0.0), (7, 0.1), (7, 0.3), (12, 0.15)):
        visible = torch.rand(n, n, generator=generator) < share
        assert p.reach.hops(visible).equal(spec.hops(visible))
    chain = torch.eye(6, dtype=torch.bool).roll(1, 1)
    chain[5, 0] = False  # token i reads token i + 1 only
    assert p.reach.hops(chain)[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert p.reach.hops(chain)[5].tolist() == [-1, -1, -1, -1, -1, 0]
    assert p.reach.farthest(chain) == -1
    assert p.reach.farthest(chain | chain.mT) == 5


def wrong_inputs_of_global_attention_are_named(p):
    x = torch.zeros(2, 3, 5, 4)
    nobody = torch.zeros(2, 5, dtype=torch.bool)
    plan = p.bigbird.bigbird_plan(5, 0, 3)
    attend = p.longformer.longformer_attention
    layer, tokens = p.longformer.LongformerAttention(12, 3, 4), torch.zeros(2, 5, 12)
    bigbird, whole = p.bigbird.BigBirdAttention(12, 3, 5), "must be a whole number; got 2.5"
    assert p.longformer.LongformerAttention(12, 3, 4, num_global=np.int64(2)).num_global == 2
    assert p.bigbird.BigBirdAttention(12, 3, np.int64(5), np.int64(0))(tokens).shape == tokens.shape
    assert len(p.bigbird.bigbird_plan(np.int64(7), np.int64(1), 3).blocks) == 3
    refused(
        TypeError,
        ("must be bool, .* got torch.int64", lambda: p.masks.global_tokens(nobody.long())),
        ("must be bool, .* got torch.int64", lambda: attend(x, x, x, nobody.long(), (1, 1))),
        ("must be bool, .* got torch.int64", lambda: layer(tokens, nobody.long())),
        ("num_global " + whole, lambda: p.longformer.LongformerAttention(12, 3, 4, num_global=2.5)),
        ("window_size " + whole, lambda: p.longformer.LongformerAttention(12, 3, 2.5)),
        ("block_size " + whole, lambda: p.bigbird.BigBirdAttention(12, 3, 2.5)),
        ("num_random " + whole, lambda: p.bigbird.BigBirdAttention(12, 3, 5, 2.5)),
        ("num_blocks " + whole, lambda: p.bigbird.bigbird_plan(2.5, 0, 3)),
    )
    refused(
        ValueError,
        (r"\(2, 5\); got shape \(1, 5\)", lambda: attend(x, x, x, nobody[:1], (1, 1))),
        ("same length", lambda: attend(x, x[:, :, 1:], x, nobody, (1, 1))),
        ("same tokens.* got 5 queries and 4 keys", lambda: attend(x, *[x[:, :, 1:]] * 2, nobody, (1, 1))),
        ("same tokens.* got 4 queries and 5 keys", lambda: attend(x[:, :, 1:], x, x, nobody[:, 1:], (1, 1))),
        ("same batch and heads", lambda: attend(x, x[:1], x[:1], nobody, (1, 1))),
        ("one token or more", lambda: attend(*[x[:, :, :0]] * 3, nobody[:, :0], (1, 1))),
        ("one token or more", lambda: layer(torch.zeros(2, 0, 12))),
        (r"shape \(1, 3\)\. Make it", lambda: attend(x, x, x, nobody, (1, 1), key_mask=nobody[:1, :3])),
        ("takes no is_causal: its global tokens read the whole", lambda: layer(tokens, nobody, is_causal=True)),
        ("takes padding, .* its global tokens read", lambda: layer(tokens, attn_mask=torch.ones(5, 5).bool())),
        ("takes no key and no value: a window and global", lambda: layer(tokens, tokens + 1)),
        ("num_global counts tokens .* got -1", lambda: p.longformer.LongformerAttention(12, 3, 4, num_global=-1)),
        ("takes no is_causal: its first and last block read", lambda: bigbird(tokens, is_causal=True)),
        ("takes padding, .* its first and last block read", lambda: bigbird(tokens, attn_mask=torch.ones(5, 5).bool())),
        ("block_size must be 1 or more .* got 0 and 3", lambda: p.bigbird.BigBirdAttention(12, 3, 0)),
        ("num_random 0 or more; got 4 and -1", lambda: p.bigbird.BigBirdAttention(12, 3, 4, -1)),
        ("one token or more", lambda: bigbird(tokens[:, :0])),
        ("multiple of block_size=5; got 4 tokens", lambda: bigbird(tokens[:, :4])),
        ("multiple of block_size=5; got 0 tokens", lambda: bigbird.plan(0)),
        (r"must be 0 or more; got 1 and -1", lambda: attend(x, x, x, nobody, (1, -1))),
        (r"must be \(batch, seq, 12\); got shape \(5, 12\)", lambda: layer(torch.zeros(5, 12), nobody)),
        ("num_random=1. Use smaller", lambda: p.bigbird.bigbird_plan(5, 1, 3)),
        ("num_blocks=0", lambda: p.bigbird.bigbird_plan(0, 0, 3)),
        ("3 heads and 5 blocks of 2 tokens", lambda: p.bigbird.bigbird_attention(x, x, x, plan, 2)),
        ("same batch and heads", lambda: p.bigbird.bigbird_attention(x, x[:, :2], x, plan, 1)),
        ("3 heads and 5 blocks of 1 tokens; got", lambda: p.bigbird.bigbird_attention(x, *[x[:, :, 1:]] * 2, plan, 1)),
        ("3 heads and 5 blocks of 1 tokens; got", lambda: p.bigbird.bigbird_attention(x[:, :, 1:], x, x, plan, 1)),
        ("3 heads and 5 blocks of 1 tokens; got", lambda: p.bigbird.bigbird_attention(*[x[:, :2]] * 3, plan, 1)),
        (r"\(n, n\), .* got shape \(2, 5\)", lambda: p.reach.hops(nobody)),
    )  # fmt: skip


def padding_in_the_place_of_a_global_token_is_not_read(p):
    """A sample without global tokens has its first tokens in their places, and here they are padding."""
    attend = module(p, "longformer").longformer_attention
    q, k, v, other = draw(*[(2, 3, 9, 4)] * 4)
    is_global = torch.tensor([[True, True] + [False] * 7, [False] * 9])
    real = torch.arange(9) >= torch.tensor([0, 2])[:, None]
    hidden = ~real[:, None, :, None]
    outputs = [
        attend(q, *x, is_global, (2, 2), key_mask=real)
        for x in ((k, v), (torch.where(hidden, other, k), torch.where(hidden, other, v)))
    ]
    close(outputs[0][1, :, 2:], outputs[1][1, :, 2:])
