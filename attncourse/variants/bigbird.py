"""BigBird: blocks of tokens read their neighbours, the first and the last block, and a few at random."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from attncourse.interface import check_sequences, key_mask, refuse, whole
from attncourse.layers import SelfAttention
from attncourse.masks import dense
from attncourse.mods import Index, MaskMod
from attncourse.variants.window import of_every_sample

Rows = list[list[list[int]]]  # of each head and row the blocks that it reads


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
        return first_time(self.blocks)


def first_time(x: Int[Tensor, "*rows k"]) -> Bool[Tensor, "*rows k"]:
    """Which numbers of a row have not stood in it before."""
    return ~(x[..., :, None] == x[..., None, :]).tril(-1).any(-1)


def bigbird_plan(num_blocks: int, num_random: int, num_heads: int, seed: int = 0) -> BigBirdPlan:
    """Draw the random blocks of every row and head, and write down who reads what.

    Args:
        num_blocks: of the sequence; up to 4 every block reads every other.
        num_random: random blocks of a row, none of which it reads anyway.
        num_heads: each draws its own.
        seed: the same one gives the same plan.

    Raises:
        ValueError: a row has fewer blocks left to draw from than num_random. TypeError: numbers that are not whole.

    Cost: num_heads * (num_blocks - 2) * (5 + num_random) numbers.
    Source: zaheer2020, section 2, and appendix D for the blocks.
    Chapter: 14_global_local.
    """
    num_blocks, num_random = whole("num_blocks", num_blocks), whole("num_random", num_random)
    if num_blocks < 1 or not 0 <= num_random <= max(0, num_blocks - 5):
        raise ValueError(
            f"a row reads up to 5 blocks anyway and draws num_random from the others; got num_blocks="
            f"{num_blocks} and num_random={num_random}. Use smaller blocks, or fewer random ones"
        )
    generator, last = torch.Generator().manual_seed(seed), num_blocks - 1
    blocks = []
    for _ in range(num_heads):
        for row in range(1, last):
            fixed = [0, last, row - 1, row, row + 1]
            drawn = torch.randperm(num_blocks - len({*fixed}), generator=generator, device="cpu")[
                :num_random
            ]
            blocks.append(fixed + [other(rank, fixed) for rank in drawn.tolist()])
    found = torch.tensor(blocks, dtype=torch.int64, device="cpu")
    return BigBirdPlan(num_blocks, found.view(num_heads, -1, 5 + num_random))


def other(rank: int, fixed: list[int]) -> int:
    """The block of this rank among those that are not fixed: as many further on as fixed ones stand before it."""
    for block in sorted({*fixed}):
        rank += rank >= block
    return rank


_kept_plan = lru_cache(maxsize=64)(bigbird_plan)


def _read_by(num_blocks: int, num_random: int, num_heads: int, seed: int) -> Rows:
    """The kept plan as numbers, which a traced graph takes as they are: it cannot draw."""
    return _kept_plan(num_blocks, num_random, num_heads, seed).blocks.tolist()


# As torch.compiler.assume_constant_result, which would load the compiler with the package.
_read_by._dynamo_marked_constant = True  # type: ignore[attr-defined]


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
    key_mask: Bool[Tensor, "*b n"] | None = None,
    dropout_p: float = 0.0,
) -> Float[Tensor, "b h n e"]:
    """Block by block: the keys that the plan names are joined, and one softmax goes over them.

        o_i = sum_j softmax_j(q_i . k_j / sqrt(d)) v_j      over all j in the blocks that i's block reads

    Args:
        query, key, value: n = num_blocks * block_size.
        plan: see `bigbird_plan`.
        block_size: tokens of a block.
        scale: ``None`` means 1 / sqrt(head_dim).
        key_mask, dropout_p: as in `attncourse.variants.window.sliding_window_attention`.

    Raises:
        ValueError: a length or a number of heads that the plan does not fit.

    Cost: 2 n (7 + num_random) block_size (d + e) FLOPs per head, two of the blocks for the first and the last
        row; memory for the inputs and one row, and in training for 5 + num_random copies of key and value.
    Reduces to: full attention when there are no more than 4 blocks.
    Source: zaheer2020, appendix D.
    Chapter: 14_global_local.
    """
    _check(query, key, value, plan, block_size)
    options: dict[str, Any] = {"scale": scale, "key_mask": key_mask, "dropout_p": dropout_p}
    return by_rows(query, key, value, plan.blocks.tolist(), block_size, **options)


def by_rows(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h n d"],
    value: Float[Tensor, "b h n e"],
    read: Rows,
    block_size: int,
    *,
    key_mask: Bool[Tensor, "*b n"] | None = None,
    **options,
) -> Float[Tensor, "b h n e"]:
    """What each row of blocks reads, one after the other; the first and the last one all keys."""
    real, last = of_every_sample(key_mask, key), query.size(2) // block_size - 1
    keys, values = by_block(key, block_size), by_block(value, block_size)
    whole = present = None
    if real is not None:
        whole = real[:, None, None]
        present = by_block(real[:, None].expand(-1, key.size(1), -1), block_size)
    outputs = []
    for row, q in enumerate(query.split(block_size, dim=2)):
        k, v, seen = key, value, whole
        if 0 < row < last:
            columns = [head[row - 1] for head in read]
            k, v = joined(keys, columns), joined(values, columns)
            once = first_time(torch.tensor(columns, device=q.device))
            seen = once.repeat_interleave(block_size, dim=1)[:, None]
            if present is not None:
                seen = seen & joined(present, columns)[:, :, None]
        outputs.append(F.scaled_dot_product_attention(q, k, v, seen, **options))
    return torch.cat(outputs, dim=2)


def by_block(x: Shaped[Tensor, "b h n *d"], block_size: int) -> list[tuple[Tensor, ...]]:
    """Head h's block c, (b, block_size, d), is ``[h][c]``; cut once, so that the gradient is joined once."""
    return [head.split(block_size, dim=1) for head in x.unbind(1)]


def joined(cut: list[tuple[Tensor, ...]], read: list[list[int]]) -> Shaped[Tensor, "b h m *d"]:
    """The blocks that each head reads, one behind the other."""
    named = [blocks[c] for blocks, columns in zip(cut, read, strict=True) for c in columns]
    return torch.cat(named, dim=1).unflatten(1, (len(cut), -1))


def _check(query, key, value, plan, block_size) -> None:
    check_sequences(query, key, value)
    n, heads = plan.num_blocks * block_size, plan.blocks.size(0)
    if not (query.size(2) == key.size(2) == n and query.size(1) == heads):
        raise ValueError(
            f"the plan is for {heads} heads and {plan.num_blocks} blocks of {block_size} tokens; got query "
            f"{tuple(query.shape)} and key {tuple(key.shape)}. Make another plan, for seq / block_size blocks"
        )


# Why there is no other mask than padding.
BOTH_WAYS = "its first and last block read the whole sequence and are read by all"


class BigBirdAttention(SelfAttention):
    """Self-attention by BigBird's blocks; the plan is drawn from the seed, once for every length.

        head_h = bigbird_attention(x W_h^Q, x W_h^K, x W_h^V, plan, block_size)

    Args:
        embed_dim, num_heads, bias, dropout: as in `MultiHeadAttention`.
        block_size: tokens of a block; a sequence is a multiple of it.
        num_random: random blocks of a row; fewer where a short sequence has no others left.
        seed: of the plan. Layers of a model should have different ones.

    Padding is hidden block by block, too. Under ``torch.vmap`` and a non-strict ``torch.export`` nothing can be drawn:
    call ``layer.plan(n)`` before.

    Raises:
        ValueError: a sequence of another length, another mask, ``is_causal``. TypeError: numbers that are not whole.

    Cost: see `bigbird_attention`; with ``need_weights`` all n n pairs are computed.
    Reduces to: `SelfAttention` when there are no more than 4 blocks.
    Source: zaheer2020, section 2, and appendix D for the blocks.
    Chapter: 14_global_local.
    """

    one_sequence = "its blocks are of one sequence"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        block_size: int,
        num_random: int = 3,
        *,
        seed: int = 0,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__(embed_dim, num_heads, dropout, bias)
        self.block_size = whole("block_size", block_size)
        self.num_random, self.seed = whole("num_random", num_random), whole("seed", seed)
        if self.block_size < 1 or self.num_random < 0:
            raise ValueError(
                f"block_size must be 1 or more and num_random 0 or more; got {block_size} and {num_random}. Use 64 and 3"
            )

    def plan(self, n: int) -> BigBirdPlan:
        """Who reads whom in a sequence of n tokens."""
        self._check_length(n)
        return _kept_plan(*self._sizes(n // self.block_size))

    def _check_length(self, n: int) -> None:
        if n < 1 or n % self.block_size:
            raise ValueError(
                f"the sequence must be a multiple of block_size={self.block_size}; got {n} tokens. Pad it, or "
                f"choose another block_size"
            )

    def _sizes(self, num_blocks: int) -> tuple[int, int, int, int]:
        """What a plan depends on."""
        num_random = min(self.num_random, max(0, num_blocks - 5))
        return num_blocks, num_random, self.num_heads, self.seed

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        offset: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        refuse(self, BOTH_WAYS, is_causal=is_causal)
        real = of_every_sample(key_mask(attn_mask, self, BOTH_WAYS), k)
        self._check_length(q.size(2))
        # So counted, their number is one also in a graph, whose lengths may be symbols.
        sizes = self._sizes(len(q.split(self.block_size, dim=2)))
        if not need_weights:
            options: dict[str, Any] = {"key_mask": real, "dropout_p": self.dropout_p}
            return by_rows(q, k, v, _read_by(*sizes), self.block_size, **options), None
        blocks = torch.tensor(_read_by(*sizes), dtype=torch.int64, device="cpu")
        rule = bigbird_mask(
            BigBirdPlan(sizes[0], blocks.view(self.num_heads, -1, 5 + sizes[1])), self.block_size
        )
        visible = dense(rule, 1, self.num_heads, q.size(2), k.size(2)).to(q.device)
        visible = visible if real is None else visible & real[:, None, None]
        return super().attend(q, k, v, visible, need_weights=True)
