"""Attention over a sequence that is split across processes: queries stay, keys and values go round a ring.

No process ever holds the whole sequence, so its length is limited by all memories together. What makes it
exact is `online.merge`: results over different blocks of keys can be joined in any order.

    python -m attncourse.variants.flash.ring --demo
    torchrun --nproc-per-node 4 -m attncourse.variants.flash.ring --demo
"""

import importlib
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attncourse.variants.flash import check_inputs
from attncourse.variants.flash.backends import MODULES, choose
from attncourse.variants.flash.online import merge


def ring_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g n d"],
    value: Float[Tensor, "b g n e"],
    is_causal: bool = False,
    scale: float | None = None,
    group: "dist.ProcessGroup | None" = None,
    *,
    counts: Counter | None = None,
) -> Float[Tensor, "b h n e"]:
    """Exact attention on a sequence of w n positions, of which each of w processes holds n.

        output_r = merge over s of attention(query_r, key_s, value_s)       r, s: processes

    Every process of the group makes the same calls, forward and backward, in the same order; a process
    that leaves one out keeps its neighbours waiting.

    Args:
        query, key, value: this process's chunk: positions r n .. r n + n - 1 for rank r. Query head h
            reads KV head h // (h / g); values may have another width.
        is_causal: a position reads itself and what comes before it in the whole sequence.
        scale: factor on the dot products; ``None`` means 1 / sqrt(head_dim).
        group: the processes that form the ring; ``None`` means all of them.
        counts: receives what this process did: "computed" and "skipped" blocks, bytes "sent". It goes on
            counting in the backward pass.

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
        With is_causal rank r computes r + 1 blocks and skips the others. The work is then uneven: all wait
        for the last process, which skips nothing. Other splits, "zigzag" and "striped", give each process
        early and late positions, and so equal work; they are not implemented here.
    Reduces to: `attncourse.variants.flash.flash_attention` with one process.
    Source: liu2023; dao2023 for the work on each block.
    """
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else float(scale)
    ring = Ring(group, Counter() if counts is None else counts)
    check_agreement(ring, (query, key, value), is_causal, scale)
    check_inputs(query, key, value, attn_mask=None, enable_gqa=True)
    if query.size(-2) != key.size(-2):
        raise ValueError(
            f"a chunk has as many queries as keys; got {query.size(-2)} and {key.size(-2)}. "
            f"Cut query, key and value of one sequence at the same places"
        )
    if scale <= 0:  # the kernels rely on a positive scale
        query, scale = query * scale, 1.0
    backend = MODULES[choose(None, query, value, attn_mask=None)]
    module = importlib.import_module(f"attncourse.variants.flash.{backend}")
    return RingAttention.apply(query, key, value, ring, module, is_causal, scale)


class Ring:
    """This process's place in the ring: it receives from the rank before and sends to the rank after."""

    def __init__(self, group: "dist.ProcessGroup | None", counts: Counter):
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(
                "ring_attention needs a process group; torch.distributed is not initialised. Call "
                "torch.distributed.init_process_group in every process, or use flash_attention in one"
            )
        self.group, self.counts = group, counts
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise RuntimeError(
                f"ring_attention runs in the processes of its group; process {dist.get_rank()} is not "
                f"one of them. Call it in those only, or leave out group="
            )

    def pass_on(self, *blocks: Tensor) -> Callable[[], list[Tensor]]:
        """Start to send ``blocks`` and to receive as many; the returned function waits and hands these over."""
        if self.size == 1:
            return lambda: list(blocks)
        arriving = [torch.empty_like(x) for x in blocks]
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        sends = [(dist.isend, x, after) for x in blocks]
        receives = [(dist.irecv, x, before) for x in arriving]
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(do, x, group=self.group, group_peer=peer)
                for do, x, peer in sends + receives
            ]
        )
        self.counts["sent"] += sum(x.nbytes for x in blocks)

        def wait() -> list[Tensor]:
            for work in works:
                work.wait()
            return arriving

        return wait

    def visits(self, key: Tensor, value: Tensor, is_causal: bool) -> Iterator[tuple]:
        """Every block of keys and values, our own first: (key, value, is hidden from us, has the diagonal).

        Chunks are equally long, so under a causal rule there are three kinds of blocks: those before ours
        are read as a whole, our own has the diagonal, and those after ours are not read at all.
        """
        for step in range(self.size):
            # The overlap: the next block is on its way while the caller computes with this one.
            arrived = self.pass_on(key, value) if step + 1 < self.size else None
            source = (self.rank - step) % self.size
            hidden = is_causal and source > self.rank
            self.counts["skipped" if hidden else "computed"] += 1
            yield key, value, hidden, is_causal and source == self.rank
            if arrived:
                key, value = arrived()


class RingAttention(torch.autograd.Function):
    """The two journeys: keys and values go round once forward and once backward."""

    @staticmethod
    def forward(ctx, query, key, value, ring: Ring, module: ModuleType, is_causal, scale):
        """Merge the results of all blocks, in float32 or wider."""
        wide = torch.promote_types(query.dtype, torch.float32)
        query, key, value = (x.contiguous() for x in (query, key, value))
        output = value.new_zeros(*query.shape[:-1], value.size(-1), dtype=wide)
        lse = output.new_full(query.shape[:-1], -math.inf)
        for k, v, hidden, diagonal in ring.visits(key, value, is_causal):
            if not hidden:
                part, part_lse = module.forward(query, k, v, scale, diagonal)
                output, lse = merge(output, lse, part.to(wide), part_lse)
        output = output.to(query.dtype)
        ctx.save_for_backward(query, key, value, output, lse)
        ctx.rule = ring, module, is_causal, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        """Each block collects its gradients on its way, and brings them home after the last stop."""
        query, key, value, output, lse = ctx.saved_tensors
        ring, module, is_causal, scale = ctx.rule
        dq, dk, dv = (torch.zeros_like(x, dtype=lse.dtype) for x in (query, key, value))
        grads, arrived = (grad_output, torch.zeros_like(lse)), None
        for k, v, hidden, diagonal in ring.visits(key, value, is_causal):
            parts = (0, 0, 0)
            if not hidden:
                # Given the output and lse of whole rows, these are the parts that this block has in them.
                parts = module.backward(*grads, query, k, v, output, lse, scale, diagonal)
            if arrived:  # what the processes before us added to this block's gradients
                dk, dv = arrived()
            for total, part in zip((dq, dk, dv), parts, strict=True):
                total += part
            arrived = ring.pass_on(dk, dv)  # on its way while we compute with the next block
        dk, dv = arrived()
        return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype), None, None, None, None


def check_agreement(ring: Ring, inputs: tuple, is_causal: bool, scale: float) -> None:
    """Refuse, in every process, what differs between processes: it would hang, or give wrong numbers."""
    names = ("query", "key", "value")
    ours = [f"{x} {tuple(y.shape)} {y.dtype}" for x, y in zip(names, inputs, strict=True)]
    ours = f"{', '.join(ours)}, is_causal={is_causal}, scale={scale}"
    # A checksum is enough to know, and cheap; the words travel only if there is something to say.
    checksum = torch.tensor([zlib.crc32(ours.encode())], device=inputs[0].device)
    checksums = [torch.empty_like(checksum) for _ in range(ring.size)]
    dist.all_gather(checksums, checksum, group=ring.group)
    if len(set(torch.cat(checksums).tolist())) == 1:
        return
    everyone = [""] * ring.size
    dist.all_gather_object(everyone, ours, group=ring.group)
    other = next(rank for rank, theirs in enumerate(everyone) if theirs != everyone[0])
    raise ValueError(
        f"all processes must bring chunks of the same shape and dtype, and the same options; "
        f"process 0 brings {everyone[0]}; process {other} brings {everyone[other]}. "
        f"Pad the sequence to a multiple of {ring.size} and give every process an equal share"
    )


if __name__ == "__main__":
    from attncourse.variants.flash.ring_demo import main

    main()
