"""What must hold for global tokens, planned blocks and distances, beyond the contracts."""

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw
from support.cases.global_local import some_global
from support.claims import refused
from support.claims.window import numbers_made
from support.contracts import close, same


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
        ours = p.longformer.longformer_attention(q, k, v, is_global, (left, right), scale=0.7)
        same(ours, F.scaled_dot_product_attention(q, k, v, visible, scale=0.7), (q, k, v))


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
    layer = p.longformer.LongformerAttention(12, 3, 4)
    refused(
        TypeError,
        ("must be bool, .* got torch.int64", lambda: p.masks.global_tokens(nobody.long())),
        ("must be bool, .* got torch.int64", lambda: attend(x, x, x, nobody.long(), (1, 1))),
    )
    refused(
        ValueError,
        (r"\(2, 5\); got shape \(1, 5\)", lambda: attend(x, x, x, nobody[:1], (1, 1))),
        ("same tokens and heads", lambda: attend(x, x[:, :, 1:], x, nobody, (1, 1))),
        (r"must be 0 or more; got 1 and -1", lambda: attend(x, x, x, nobody, (1, -1))),
        (r"must be \(batch, seq, 12\); got shape \(5, 12\)", lambda: layer(torch.zeros(5, 12), nobody)),
        ("num_random=1. Use smaller", lambda: p.bigbird.bigbird_plan(5, 1, 3)),
        ("num_blocks=0", lambda: p.bigbird.bigbird_plan(0, 0, 3)),
        ("3 heads and 5 blocks of 2 tokens", lambda: p.bigbird.bigbird_attention(x, x, x, plan, 2)),
        ("same tokens and heads", lambda: p.bigbird.bigbird_attention(x, x[:, :2], x, plan, 1)),
        (r"\(n, n\), .* got shape \(2, 5\)", lambda: p.reach.hops(nobody)),
    )  # fmt: skip
