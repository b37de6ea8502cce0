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
    layer = module(p, "longformer").LongformerAttention(s.h * s.d, s.h, (2, 1), dropout=0.5)
    layer = layer.double().eval()
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

    def dropped(x):
        return layer.train()(x, is_global, need_weights=True)

    more = {"spec": by_loops, "remake": remake, "masked": None, "dropped": dropped, "fused": True}
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
    layer = module(p, "bigbird").BigBirdAttention(s.h * s.d, s.h, size, 9, seed=1, dropout=0.5)
    (x,) = draw((s.b, s.n, s.h * s.d))
    plan = layer.plan(s.n)
    visible = spec.bigbird_mask(plan.blocks, size) if plan.num_blocks > 1 else None

    def few_blocks(layer, _):
        general = p.layers.SelfAttention(s.h * s.d, s.h).double()
        general.load_state_dict(layer.state_dict())
        few = x[:, : 4 * size] if s.n > 4 * size else x
        return layer(few), general(few)

    return replace(layered(s, layer, [x], few_blocks, visible), masked=None)


MUTANTS += [
    ("bigbird", "max(0, num_blocks - 5))\n        return", "max(0, num_blocks - 6))\n        return"),
    ("bigbird", "if n < 1 or n % self.block_size:", "if n < 1:"),
    ("bigbird", "return super().attend(q, k, v, visible, need_weights=True)", "return super().attend(q, k, v, need_weights=True)"),
    ("bigbird", "dense(rule, 1, self.num_heads,", "dense(rule, 1, 1,"),
    ("bigbird", "num_random, self.num_heads, self.seed", "num_random, self.num_heads, 0"),
    ("bigbird", "refuse(self, BOTH_WAYS, is_causal=is_causal)", "pass"),
    ("bigbird", "if n < 1 or n % self.block_size:", "if n % self.block_size:"),
    ("bigbird", "lru_cache(maxsize=64)(bigbird_plan)", "bigbird_plan"),
    ("bigbird", '"dropout_p": self.dropout_p}', '"dropout_p": 0.0}'),
    ("bigbird", '"dropout_p": self.dropout_p}', '"dropout_p": self.dropout}'),
    ("bigbird", "visible if real is None else visible & real[:, None, None]", "visible"),
    ("bigbird", "if self.block_size < 1 or self.num_random < 0:", "if self.block_size < 1:"),
    ("bigbird", "if self.block_size < 1 or self.num_random < 0:", "if self.num_random < 0:"),
    ("bigbird", 'self.block_size = whole("block_size", block_size)', "self.block_size = int(block_size)"),
    ("bigbird", "whole = real[:, None, None]", "whole = None"),
    ("bigbird", "seen = seen & joined(present, columns)[:, :, None]", "pass"),
    ("bigbird", "query.size(2) == key.size(2) == n", "query.size(2) == n"),
    ("bigbird", "query.size(2) == key.size(2) == n", "key.size(2) == n"),
    ("bigbird", "== n and query.size(1) == heads", "== n"),
    ("bigbird", ".tril(-1).any(-1)", ".tril(-1).all(-1)"),
    ("bigbird", "[0, last, row - 1, row, row + 1]", "[0, 0, row - 1, row, row + 1]"),
    ("bigbird", "for block in sorted({*fixed}):", "for block in sorted(fixed):"),
    ("bigbird", "for block in sorted({*fixed}):", "for block in fixed[:2]:"),
    ("bigbird", "rank += rank >= block", "rank += rank > block"),
    ("bigbird", "num_blocks - len({*fixed})", "num_blocks - len(fixed)"),
    ("bigbird", "[head[row - 1] for head in read]", "[read[0][row - 1] for head in read]"),
    ("bigbird", "if 0 < row < last:", "if row < last:"),
    ("bigbird", "once.repeat_interleave(block_size, dim=1)[:, None]", "None"),
    ("bigbird", "table[:, 1:-1] = False", "table[:, 1:] = False"),
    ("bigbird", "table[h, q_idx // block_size, kv_idx // block_size]", "table[h, kv_idx // block_size, q_idx // block_size]"),
    ("bigbird", "manual_seed(seed)", "manual_seed(0)"),
    ("masks", "is_global[b, q_idx] | is_global[b, kv_idx]", "is_global[b, q_idx] & is_global[b, kv_idx]"),
    ("masks", "is_global[b, q_idx] | is_global[b, kv_idx]", "is_global[b, kv_idx]"),
    ("longformer", "real.gather(1, positions) & ~found[1])", "real.gather(1, positions))"),
    ("longformer", "real.gather(1, positions) & ~found[1])", "~found[1])"),
    ("longformer", "there = there & real.gather(1, positions)", "pass"),
    ("longformer", "local = real[:, start : near.stop * ROWS]", "local = torch.ones_like(real[:, start : near.stop * ROWS])"),
    ("longformer", "first - start, key.device) & local[:, None]", "0, key.device) & local[:, None]"),
    ("longformer", "neighbours(first - left, first + ROWS - 1 + right,", "neighbours(first - left, first + right,"),
    ("longformer", "neighbours(first - left, first + ROWS - 1 + right,", "neighbours(first, first + ROWS - 1 + right,"),
    ("longformer", "torch.cat([there[:, None].expand", "torch.cat([torch.ones_like(there)[:, None].expand"),
    ("longformer", "at(q, found[0]), k, v, seen, **options)", "at(q, found[0]), key, v, seen, **options)"),
    ("longformer", "at(q, found[0]), k, v, seen, **options)", "at(q, found[0]), k, value, seen, **options)"),
    ("longformer", "at(q, found[0]), k, v, seen, **options)", "at(q, found[0]), k, v, seen)"),
    ("longformer", "at(q, found[0]), k, v, seen, **options)", "at(q, found[0]), k, v, **options)"),
    ("longformer", '{"scale": scale, "dropout_p": dropout_p}', '{"scale": scale}'),
    ("longformer", "global_key, global_value = at(key, positions)", "global_key, global_value = at(query, positions)"),
    ("longformer", "is_global.int().argsort(dim=1, descending=True, stable=True)", "is_global.int().argsort(dim=1)"),
    ("longformer", "most = int(is_global.sum(1).max()) if", "most = int(is_global.sum(1).min()) if"),
    ("longformer", "    if most is None:\n", "    if True:\n"),
    ("longformer", "torch.where(there[:, None, :, None], rows, at(x, positions))", "rows"),
    ("longformer", "q, k, v = global_projections or (query, key, value)", "q, k, v = query, key, value"),
    ("longformer", "torch.where(row, of_global, local)", "torch.where(row, local, of_global)"),
    ("longformer", "torch.where(row, of_global, local)", "local"),
    ("longformer", "visible = visible & real[:, None, None]", "pass"),
    ("longformer", '"attn_mask": visible, "dropout_p": dropout_p', '"attn_mask": visible'),
    ("longformer", "deepcopy(self.v_proj)", "deepcopy(self.k_proj)"),
    ("longformer", "deepcopy(self.v_proj)", "self.v_proj"),
    ("longformer", "k = torch.cat([global_key, *keys[near]], dim=2)", "k = torch.cat([global_key, key[:, :, near.start * ROWS : near.stop * ROWS]], dim=2)"),
    ("longformer", "device=x.device) < self.num_global", "device=x.device) <= self.num_global"),
    ("longformer", "q, k = self.rotary(q, positions), self.rotary(k, positions)", "k = self.rotary(k, positions)"),
    ("longformer", "*self.project(query, query, query, positions)", "*self.project(query, query, query)"),
    ("longformer", "own = self.project_global(query, positions)", "own = self.project_global(query)"),
    ("longformer", "key is not None and not key.is_floating_point()", "key is not None"),
    ("longformer", "refuse(self, BOTH_WAYS, is_causal=is_causal)", "pass"),
    ("longformer", "if self.num_global < 0:", "if self.num_global < -1:"),
    ("longformer", 'options["dropout_p"] = self.dropout_p', 'options["dropout_p"] = self.dropout'),
    ("longformer", "if query.size(2) != key.size(2):", "if query.size(2) > key.size(2):"),
    ("reach", "(reads @ known.float() > 0)", "(reads.mT @ known.float() > 0)"),
    ("reach", "known = known | new", "known = new"),
    ("reach", "range(1, n)", "range(1, n - 1)"),
    ("reach", "int(distance.max())", "int(distance.float().mean())"),
]  # fmt: skip
