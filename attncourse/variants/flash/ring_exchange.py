"""What the processes of a ring say to each other: blocks go from each to the next, and options are compared."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from attncourse.variants.flash.ring_split import Part, pairs, part_of


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

    def visits(
        self, key: Tensor, value: Tensor, is_causal: bool, split: str
    ) -> Iterator[tuple[Tensor, Tensor, Part | None]]:
        """Every block of keys and values, our own first, with what we read of it: all, a part or nothing."""
        for step in range(self.size):
            # The overlap: the next block is on its way while the caller computes with this one.
            arrived = self.pass_on(key, value) if step + 1 < self.size else None
            source = (self.rank - step) % self.size
            part = part_of(key.size(-2), self.rank, source, is_causal, split)
            self.counts["skipped" if part is None else "computed"] += 1
            self.counts["pairs"] += pairs(part)
            yield key, value, part
            if arrived:
                key, value = arrived()


def check_agreement(ring: Ring, inputs: tuple, **options: object) -> None:
    """Refuse, in every process, what differs between processes: it would hang, or give wrong numbers."""
    names = ("query", "key", "value")
    shapes = [f"{x} {tuple(y.shape)} {y.dtype}" for x, y in zip(names, inputs, strict=True)]
    ours = ", ".join(shapes + [f"{name}={value}" for name, value in options.items()])
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
