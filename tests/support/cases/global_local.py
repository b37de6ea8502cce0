"""Attention with a window and global tokens, and attention to planned blocks, among the variants."""

from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.spec import scaled_dot_product_attention
from support.cases import Variant, draw, module, variant
from support.cases.layers import attending, heads_of, layered
from support.cases.oracles import flex
from support.mutants import MUTANTS

WINDOW = (2, 1)


def some_global(b: int, n: int):
    """Sample 0 has two global tokens, if it has two tokens; sample 1 has none, and the others the last."""
    is_global = torch.zeros(b, n, dtype=torch.bool)
    is_global[0, 0] = is_global[0, n // 2] = True
    is_global[2:, n - 1] = True
    return is_global


@variant("longformer_attention", b=3, h=2, n=7)
def longformer(p, s):
    attend = module(p, "longformer").longformer_attention
    q, k, v = draw((s.b, s.h, s.n, s.d), (s.b, s.h, s.n, s.d), (s.b, s.h, s.n, s.e))
    is_global = some_global(s.b, s.n)
    rule = p.masks.any_of(p.masks.sliding_window(*WINDOW), p.masks.global_tokens(is_global))
    visible, everybody = p.masks.dense(rule, s.b, 1, s.n, s.n), torch.ones_like(is_global)
    return Variant(
        inputs=(q, k, v),
        run=lambda q, k, v: attend(q, k, v, is_global, WINDOW),
        spec=lambda q, k, v: spec.longformer_attention(q, k, v, is_global, *WINDOW),
        limit=lambda: (attend(q, k, v, everybody, WINDOW), F.scaled_dot_product_attention(q, k, v)),
        torch=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, visible),
        flex=partial(flex, mask_mod=rule),
        fused=True,
    )


@variant("longformer_attention, own projections", b=3, h=2, n=7)
def longformer_own(p, s):
    attend = module(p, "longformer").longformer_attention
    widths = (s.d, s.d, s.e) * 2
    q, k, v, *own = draw(*[(s.b, s.h, s.n, width) for width in widths])
    is_global = some_global(s.b, s.n)

    def remake(weights, q, k, v, *own):
        rows = is_global[:, None, :, None]
        return torch.where(rows, weights @ own[2], weights @ v)

    return Variant(
        inputs=(q, k, v, *own),
        run=lambda q, k, v, *own: attend(q, k, v, is_global, WINDOW, global_projections=own),
        spec=lambda q, k, v, *own: spec.longformer_attention(q, k, v, is_global, *WINDOW, own),
        remake=remake,
        limit=lambda: (
            attend(q, k, v, torch.ones_like(is_global), WINDOW, global_projections=own),
            F.scaled_dot_product_attention(*own),
        ),
        fused=True,
    )


@variant("LongformerAttention", b=3, h=2, n=7, d=5)
def longformer_layer(p, s):
    torch.manual_seed(0)
    layer = module(p, "longformer").LongformerAttention(s.h * s.d, s.h, (2, 1)).double()
    for name in "qkv":  # they start as copies
        getattr(layer, f"{name}_global_proj").reset_parameters()
    (x,) = draw((s.b, s.n, s.h * s.d))
    is_global = some_global(s.b, s.n)

    def remake(weights, x):
        v, own = (heads_of(layer, x, f"{name}_proj", s.h) for name in ("v", "v_global"))
        mixed = torch.where(is_global[:, None, :, None], weights @ own, weights @ v)
        return layer.out_proj(mixed.transpose(1, 2).flatten(2))

    def limit(layer, x):  # a window as wide as the sequence
        wide = p.layers.SelfAttention(s.h * s.d, s.h).double()
        wide.load_state_dict(layer.state_dict(), strict=False)
        whole = module(p, "longformer").LongformerAttention(s.h * s.d, s.h, 2 * s.n).double()
        whole.load_state_dict(layer.state_dict())
        return whole(x, torch.zeros_like(is_global)), wide(x)

    def by_loops(x):
        return spec.longformer_layer(x, dict(layer.named_parameters()), s.h, is_global, *WINDOW)

    more = {"spec": by_loops, "remake": remake, "masked": None, "fused": True}
    return attending(layer, x, limit, fixed={"is_global": is_global}, **more)


@variant("bigbird_attention", h=2, n=14)
def bigbird(p, s):
    bigbird = module(p, "bigbird")
    size = 2 if s.n % 2 == 0 else s.n  # an odd length is one block
    blocks = s.n // size
    plan = bigbird.bigbird_plan(blocks, 1 if blocks > 5 else 0, s.h)
    q, k, v = draw((s.b, s.h, s.n, s.d), (s.b, s.h, s.n, s.d), (s.b, s.h, s.n, s.e))
    rule = bigbird.bigbird_mask(plan, size)

    def visible():
        return spec.bigbird_mask(plan.blocks, size) if blocks > 1 else None

    few = 4 * 3  # four blocks of three tokens

    def limit():
        whole = [x[:, :, :few] for x in (q, k, v)]
        plan = bigbird.bigbird_plan(4, 0, s.h)
        return bigbird.bigbird_attention(*whole, plan, 3), F.scaled_dot_product_attention(*whole)

    return Variant(
        inputs=(q, k, v),
        run=lambda q, k, v: bigbird.bigbird_attention(q, k, v, plan, size),
        spec=lambda q, k, v: scaled_dot_product_attention(q, k, v, visible()),
        limit=limit,
        torch=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, visible()),
        flex=partial(flex, mask_mod=rule),
        fused=True,
    )


@variant("BigBirdAttention", h=2, n=14, m=14, d=5)
def bigbird_layer(p, s):
    """Blocks of 2 tokens, and one block where the length is odd."""
    torch.manual_seed(0)
    size = 2 if s.n % 2 == 0 else s.n
    layer = module(p, "bigbird").BigBirdAttention(s.h * s.d, s.h, size, 9, seed=1)
    (x,) = draw((s.b, s.n, s.h * s.d))
    plan = layer.plan(s.n)
    visible = spec.bigbird_mask(plan.blocks, size) if plan.num_blocks > 1 else None

    def few_blocks(layer, _):
        general = p.layers.SelfAttention(s.h * s.d, s.h).double()
        general.load_state_dict(layer.state_dict())
        few = x[:, : 4 * size] if s.n > 4 * size else x
        return layer(few), general(few)

    return replace(layered(s, layer, [x], few_blocks, visible), masked=None, dropped=None)


MUTANTS += [
    ("bigbird", "max(0, num_blocks - 5))\n        return", "max(0, num_blocks - 6))\n        return"),
    ("bigbird", "return bigbird_attention(q, k, v, plan, self.block_size), None", "return super().attend(q, k, v)"),
    ("bigbird", "return super().attend(q, k, v, visible, need_weights=True)", "return super().attend(q, k, v, need_weights=True)"),
    ("bigbird", "dense(rule, 1, self.num_heads,", "dense(rule, 1, 1,"),
    ("bigbird", "num_random, self.num_heads, self.seed)", "num_random, self.num_heads)"),
    ("bigbird", "if is_causal or attn_mask is not None:", "if is_causal:"),
    ("bigbird", "if is_causal or attn_mask is not None:", "if attn_mask is not None:"),
    ("bigbird", "if rest or not num_blocks:", "if rest:"),
    ("masks", "is_global[b, q_idx] | is_global[b, kv_idx]", "is_global[b, q_idx] & is_global[b, kv_idx]"),
    ("masks", "is_global[b, q_idx] | is_global[b, kv_idx]", "is_global[b, kv_idx]"),
    ("longformer", "rule(None, None, i[:, None], j) & ~is_global[:, None, j]", "rule(None, None, i[:, None], j) | is_global[:, None, j]"),
    ("longformer", "rule(None, None, i[:, None], j) & ~is_global[:, None, j]", "rule(None, None, i[:, None], j).expand(len(real), -1, -1)"),
    ("longformer", "neighbours(first - left, first + ROWS - 1 + right,", "neighbours(first - left, first + right,"),
    ("longformer", "neighbours(first - left, first + ROWS - 1 + right,", "neighbours(first, first + ROWS - 1 + right,"),
    ("longformer", "torch.cat([real[:, None].expand", "torch.cat([torch.ones_like(real)[:, None].expand"),
    ("longformer", "at(q, positions), k, v, scale=scale)", "at(q, positions), key, v, scale=scale)"),
    ("longformer", "at(q, positions), k, v, scale=scale)", "at(q, positions), k, value, scale=scale)"),
    ("longformer", "at(q, positions), k, v, scale=scale)", "at(q, positions), k, v)"),
    ("longformer", "global_key, global_value = at(key, positions)", "global_key, global_value = at(query, positions)"),
    ("longformer", "is_global.int().argsort(dim=1, descending=True, stable=True)", "is_global.int().argsort(dim=1)"),
    ("longformer", "most = int(is_global.sum(1).max())", "most = int(is_global.sum(1).min())"),
    ("longformer", "q, k, v = global_projections or (query, key, value)", "q, k, v = query, key, value"),
    ("longformer", "torch.where(row, of_global, local)", "torch.where(row, local, of_global)"),
    ("longformer", "torch.where(row, of_global, local)", "local"),
    ("longformer", "deepcopy(self.v_proj)", "deepcopy(self.k_proj)"),
    ("longformer", "deepcopy(self.v_proj)", "self.v_proj"),
    ("longformer", "k = torch.cat([global_key, *keys[near]], dim=2)", "k = torch.cat([global_key, key[:, :, near.start * ROWS : near.stop * ROWS]], dim=2)"),
    ("bigbird", "return ~same.tril(-1).any(-1)", "return torch.ones_like(self.blocks) > 0"),
    ("bigbird", "return ~same.tril(-1).any(-1)", "return ~same.triu(1).any(-1) & False"),
    ("bigbird", "[0, last, row - 1, row, row + 1]", "[0, 0, row - 1, row, row + 1]"),
    ("bigbird", "blocks[head, row - 1] = ", "blocks[:, row - 1] = "),
    ("bigbird", "if c not in fixed]", "]"),
    ("bigbird", "[head[row - 1] for head in blocks]", "[blocks[0][row - 1] for head in blocks]"),
    ("bigbird", "0 < row < plan.num_blocks - 1", "row < plan.num_blocks - 1"),
    ("bigbird", "counted[:, row - 1, None]", "None"),
    ("bigbird", "table[:, 1:-1] = False", "table[:, 1:] = False"),
    ("bigbird", "table[h, q_idx // block_size, kv_idx // block_size]", "table[h, kv_idx // block_size, q_idx // block_size]"),
    ("bigbird", "manual_seed(seed)", "manual_seed(0)"),
    ("reach", "(reads @ known.float() > 0)", "(reads.mT @ known.float() > 0)"),
    ("reach", "known = known | new", "known = new"),
    ("reach", "range(1, n)", "range(1, n - 1)"),
    ("reach", "int(distance.max())", "int(distance.float().mean())"),
]  # fmt: skip
