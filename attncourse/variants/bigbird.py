"""BigBird: blocks of tokens read their neighbours, the first and the last block, and a few at random."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attncourse.layers import SelfAttention
from attncourse.masks import dense
from attncourse.mods import Index, MaskMod


class BigBirdPlan(NamedTuple):
    """Which blocks of keys each block of queries reads, apart from the first and last, which read all.

    Args:
        num_blocks: of the sequence. Block 0 and block ``num_blocks - 1`` are global.
        blocks: row r stands for block r + 1. Its columns: the two global blocks, the neighbour before, the
            block itself, the neighbour behind, and then the random ones. They differ from head to head.
    """

    num_blocks: int
    blocks: Int[Tensor, "h rows k"]

    def __repr__(self) -> str:
        heads, _, k = self.blocks.shape
        return f"BigBirdPlan(num_blocks={self.num_blocks}, num_random={k - 5}, num_heads={heads})"

    @property
    def counted(self) -> Bool[Tensor, "h rows k"]:
        """``False`` where a block stands for the second time: block 1's neighbour before is block 0."""
        same = self.blocks[..., :, None] == self.blocks[..., None, :]
        return ~same.tril(-1).any(-1)


def bigbird_plan(num_blocks: int, num_random: int, num_heads: int, seed: int = 0) -> BigBirdPlan:
    """Draw the random blocks of every row and head, and write down who reads what.

    Args:
        num_blocks: of the sequence; up to 4 every block reads every other.
        num_random: random blocks of a row, none of which it reads anyway.
        num_heads: each draws its own.
        seed: the same one gives the same plan.

    Raises:
        ValueError: a row has fewer blocks left to draw from than num_random.

    Cost: num_heads * (num_blocks - 2) * (5 + num_random) numbers.
    Source: zaheer2020, section 2, and appendix D for the blocks.
    Chapter: 14_global_local.
    """
    if num_blocks < 1 or not 0 <= num_random <= max(0, num_blocks - 5):
        raise ValueError(
            f"a row reads up to 5 blocks anyway and draws num_random from the others; got num_blocks="
            f"{num_blocks} and num_random={num_random}. Use smaller blocks, or fewer random ones"
        )
    generator, last = torch.Generator().manual_seed(seed), num_blocks - 1
    blocks = torch.zeros(num_heads, max(0, num_blocks - 2), 5 + num_random, dtype=torch.int64)
    for head in range(num_heads):
        for row in range(1, last):
            fixed = [0, last, row - 1, row, row + 1]
            others = torch.tensor([c for c in range(num_blocks) if c not in fixed]).long()
            drawn = others[torch.randperm(len(others), generator=generator)[:num_random]]
            blocks[head, row - 1] = torch.cat([torch.tensor(fixed), drawn])
    return BigBirdPlan(num_blocks, blocks)


def bigbird_mask(plan: BigBirdPlan, block_size: int) -> MaskMod:
    """The plan as a rule about pairs of tokens.

        visible(h, i, j) = block of j is read by block of i, in head h

    Args:
        plan: see `bigbird_plan`.
        block_size: tokens of a block.

    Chapter: 14_global_local.
    """
    size = (len(plan.blocks), plan.num_blocks, plan.num_blocks)
    table = torch.ones(size, dtype=torch.bool, device=plan.blocks.device)
    table[:, 1:-1] = False
    table[:, 1:-1].scatter_(2, plan.blocks, True)

    def rule(b: Index, h: Index, q_idx: Index, kv_idx: Index):
        return table[h, q_idx // block_size, kv_idx // block_size]

    return rule


def bigbird_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    plan: BigBirdPlan,
    block_size: int,
    *,
    scale: float | None = None,
) -> Float[Tensor, "b h n e"]:
    """Block by block: the keys that the plan names are joined, and one softmax goes over them.

        o_i = sum_j softmax_j(q_i . k_j / sqrt(d)) v_j      over all j in the blocks that i's block reads

    Args:
        query, key, value: n = num_blocks * block_size.
        plan: see `bigbird_plan`.
        block_size: tokens of a block.
        scale: ``None`` means 1 / sqrt(head_dim).

    Raises:
        ValueError: a length or a number of heads that the plan does not fit.

    Cost: 2 n (7 + num_random) block_size (d + e) FLOPs per head, two of the blocks for the first and the last
        row; memory for the inputs and one row, and in training for 5 + num_random copies of key and value.
    Reduces to: full attention when there are no more than 4 blocks.
    Source: zaheer2020, appendix D.
    Chapter: 14_global_local.
    """
    _check(query, key, value, plan, block_size)
    keys, values = by_block(key, block_size), by_block(value, block_size)
    counted = plan.counted.repeat_interleave(block_size, dim=2).to(query.device)
    blocks, outputs = plan.blocks.tolist(), []
    for row, q in enumerate(query.split(block_size, dim=2)):
        k, v, seen = key, value, None
        if 0 < row < plan.num_blocks - 1:
            read = [head[row - 1] for head in blocks]
            k, v, seen = joined(keys, read), joined(values, read), counted[:, row - 1, None]
        outputs.append(F.scaled_dot_product_attention(q, k, v, seen, scale=scale))
    return torch.cat(outputs, dim=2)


def by_block(x: Float[Tensor, "b h n d"], block_size: int) -> list[tuple[Tensor, ...]]:
    """Head h's block c, (b, block_size, d), is ``[h][c]``; cut once, so that the gradient is joined once."""
    return [head.split(block_size, dim=1) for head in x.unbind(1)]


def joined(cut: list[tuple[Tensor, ...]], read: list[list[int]]) -> Float[Tensor, "b h m d"]:
    """The blocks that each head reads, one behind the other."""
    named = [blocks[c] for blocks, columns in zip(cut, read, strict=True) for c in columns]
    return torch.cat(named, dim=1).unflatten(1, (len(cut), -1))


def _check(query, key, value, plan, block_size) -> None:
    if query.shape != key.shape or key.shape[:3] != value.shape[:3]:
        raise ValueError(
            f"query, key and value must be of the same tokens and heads; got query "
            f"{tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    if query.size(2) != plan.num_blocks * block_size or query.size(1) != plan.blocks.size(0):
        raise ValueError(
            f"the plan is for {plan.blocks.size(0)} heads and {plan.num_blocks} blocks of "
            f"{block_size} tokens; got query {tuple(query.shape)}. Make another plan, for seq / block_size blocks"
        )


class BigBirdAttention(SelfAttention):
    """Self-attention by BigBird's blocks; the plan is drawn from the seed, anew for every length.

        head_h = bigbird_attention(x W_h^Q, x W_h^K, x W_h^V, plan, block_size)

    Args:
        embed_dim, num_heads, bias: as in `MultiHeadAttention`.
        block_size: tokens of a block; a sequence is a multiple of it.
        num_random: random blocks of a row; fewer where a short sequence has no others left.
        seed: of the plan. Layers of a model should have different ones.

    It takes no mask: the first block reads all tokens, so the layer cannot be causal.

    Raises:
        ValueError: a sequence of another length, a mask, ``is_causal``, or what `MultiHeadAttention` refuses.

    Cost: see `bigbird_attention`; with ``need_weights`` all n n pairs are computed.
    Reduces to: `SelfAttention` when there are no more than 4 blocks.
    Source: zaheer2020, section 2, and appendix D for the blocks.
    Chapter: 14_global_local.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        block_size: int,
        num_random: int = 3,
        *,
        seed: int = 0,
        bias: bool = True,
    ):
        super().__init__(embed_dim, num_heads, bias=bias)
        self.block_size, self.num_random, self.seed = block_size, num_random, seed

    def plan(self, n: int) -> BigBirdPlan:
        """Who reads whom in a sequence of n tokens."""
        num_blocks, rest = divmod(n, self.block_size)
        if rest or not num_blocks:
            raise ValueError(
                f"the sequence must be a multiple of block_size={self.block_size}; got {n} tokens. Pad it, or "
                f"choose another block_size"
            )
        num_random = min(self.num_random, max(0, num_blocks - 5))
        return bigbird_plan(num_blocks, num_random, self.num_heads, self.seed)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal or attn_mask is not None:
            raise ValueError(
                "the first and the last block of BigBird read all tokens, and all read them, so it takes no "
                "mask; got is_causal or an attn_mask"
            )
        plan = self.plan(q.size(2))
        if not need_weights:
            return bigbird_attention(q, k, v, plan, self.block_size), None
        rule = bigbird_mask(plan, self.block_size)
        visible = dense(rule, 1, self.num_heads, q.size(2), k.size(2)).to(q.device)
        return super().attend(q, k, v, visible, need_weights=True)
