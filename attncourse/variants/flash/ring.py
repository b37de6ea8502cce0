"""Attention over a sequence that is split across processes: queries stay, keys and values go round a ring.

No process ever holds the whole sequence, so its length is limited by all memories together. What makes it
exact is `online.merge`: results over different blocks of keys can be joined in any order.

    python -m attncourse.variants.flash.ring_demo --split zigzag
    torchrun --nproc-per-node 4 -m attncourse.variants.flash.ring_demo
"""

import importlib
import math
from collections import Counter
from types import ModuleType

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attncourse.variants.flash import check_inputs
from attncourse.variants.flash.backends import MODULES, choose
from attncourse.variants.flash.online import merge
from attncourse.variants.flash.ring_exchange import Ring, check_agreement
from attncourse.variants.flash.ring_split import check_chunk


def ring_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g n d"],
    value: Float[Tensor, "b g n e"],
    is_causal: bool = False,
    scale: float | None = None,
    group: "dist.ProcessGroup | None" = None,
    *,
    split: str = "contiguous",
    counts: Counter | None = None,
) -> Float[Tensor, "b h n e"]:
    """Exact attention on a sequence of w n positions, of which each of w processes holds n.

        output_r = merge over s of attention(query_r, key_s, value_s)       r, s: processes

    Every process of the group makes the same calls, forward and backward, in the same order; a process
    that leaves one out keeps its neighbours waiting.

    Args:
        query, key, value: this process's chunk, as `ring_split.cut` cuts it. Query head h reads KV head
            h // (h / g); values may have another width.
        is_causal: a position reads itself and what comes before it in the whole sequence.
        scale: factor on the dot products; ``None`` means 1 / sqrt(head_dim).
        group: the processes that form the ring; ``None`` means all of them.
        split: which positions rank r holds. "contiguous": r n .. r n + n - 1. "zigzag": pieces r and
            2 w - 1 - r of 2 w, so that under a causal rule all processes have the same work; n is even.
            Rotary embeddings need the positions that `ring_split.positions` gives.
        counts: receives what this process did: blocks "computed" and "skipped", "pairs" of a query and a
            key that were scored (for one head), bytes "sent". It goes on counting in the backward pass.

    Returns: this process's chunk of the output. In half precision the result of each block is rounded once
        before the merge, which is done in float32.

    Raises:
        RuntimeError: there is no process group, or this process is not in ``group``.
        ValueError: chunks or options that differ between processes, raised in all of them; or shapes
            that do not fit. TypeError: dtypes that do not fit.

    Cost: in each process 2 w n^2 (d + e) FLOPs per head. Sent: w - 1 times key and value; backward the same
        again, and w times their gradients, in float32 or wider. Memory: two blocks of keys and values, one
        here and one arriving, and backward the same of their gradients. The check that all processes
        agree is one all_gather of 8 bytes each; on a GPU the host waits for it.
        With is_causal and the contiguous split, rank r reads r + 1 blocks and all wait for the last, which
        reads all w. With zigzag each reads its own and half of every other: for large w half the time.
    Reduces to: `attncourse.variants.flash.flash_attention` with one process.
    Source: liu2023; brandon2023 for the uneven work and an even split; grattafiori2024, section 3.3.2, for the
        pieces of zigzag; dao2023 for the work on each block.
    Chapter: 12_ring.
    """
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else float(scale)
    ring = Ring(group, Counter() if counts is None else counts)
    check_agreement(ring, (query, key, value), is_causal=is_causal, scale=scale, split=split)
    check_inputs(query, key, value, attn_mask=None, enable_gqa=True)
    check_chunk(query.size(-2), key.size(-2), ring.size, split)
    if scale <= 0:  # the kernels rely on a positive scale
        query, scale = query * scale, 1.0
    backend = MODULES[choose(None, query, value, attn_mask=None)]
    module = importlib.import_module(f"attncourse.variants.flash.{backend}")
    return RingAttention.apply(query, key, value, ring, module, scale, (is_causal, split))


class RingAttention(torch.autograd.Function):
    """The two journeys: keys and values go round once forward and once backward."""

    @staticmethod
    def forward(ctx, query, key, value, ring: Ring, module: ModuleType, scale, rule: tuple):
        """Merge the results of all blocks, in float32 or wider."""
        wide = torch.promote_types(query.dtype, torch.float32)
        query, key, value = (x.contiguous() for x in (query, key, value))
        output = value.new_zeros(*query.shape[:-1], value.size(-1), dtype=wide)
        lse = output.new_full(query.shape[:-1], -math.inf)
        for k, v, part in ring.visits(key, value, *rule):
            if part is None:
                continue
            rows, columns, diagonal = part
            new, new_lse = module.forward(
                query[..., rows, :], k[..., columns, :], v[..., columns, :], scale, diagonal
            )
            output[..., rows, :], lse[..., rows] = merge(
                output[..., rows, :], lse[..., rows], new.to(wide), new_lse
            )
        output = output.to(query.dtype)
        ctx.save_for_backward(query, key, value, output, lse)
        ctx.rule = ring, module, scale, rule
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        """Each block collects its gradients on its way, and brings them home after the last stop."""
        query, key, value, output, lse = ctx.saved_tensors
        ring, module, scale, rule = ctx.rule
        dq, dk, dv = (torch.zeros_like(x, dtype=lse.dtype) for x in (query, key, value))
        arrived = None
        for k, v, part in ring.visits(key, value, *rule):
            if part is not None:
                rows, columns, diagonal = part
                of_rows = [x[:, :, rows].contiguous() for x in (grad_output, query, output, lse)]
                do, q, o, row_lse = of_rows
                # Given the output and lse of whole rows, these are the parts that this block has in them.
                grads = module.backward(
                    do, torch.zeros_like(row_lse), q, k[..., columns, :], v[..., columns, :],
                    o, row_lse, scale, diagonal,
                )  # fmt: skip
            if arrived:  # what the processes before us added to this block's gradients
                dk, dv = arrived()
            if part is not None:
                for total, here, new in zip(
                    (dq, dk, dv), (rows, columns, columns), grads, strict=True
                ):
                    total[..., here, :] += new
            arrived = ring.pass_on(dk, dv)  # on its way while we compute with the next block
        dk, dv = arrived()
        return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype), None, None, None, None
