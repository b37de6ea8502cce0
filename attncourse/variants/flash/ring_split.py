"""Who holds which positions of a sequence that is split across processes, and which of them read which.

Under a causal rule the place of a chunk decides how much work it brings: a late position reads more than an
early one. The contiguous split gives the last process the most. The zigzag split cuts the sequence into
twice as many pieces as there are processes and gives each an early and a late one, which come to the same:

    4 processes      contiguous   0 1 | 2 3 | 4 5 | 6 7      zigzag   0 7 | 1 6 | 2 5 | 3 4
"""

from typing import NamedTuple

import torch
from torch import Tensor

SPLITS = ("contiguous", "zigzag")


class Part(NamedTuple):
    """What of a visiting block is read: these of our rows read these of its columns.

    Args:
        rows, columns: positions within the chunks, ours and the visitor's.
        diagonal: row i reads columns 0..i only.
    """

    rows: slice
    columns: slice
    diagonal: bool


def pieces_of(rank: int, size: int, split: str = "contiguous") -> tuple[int, ...]:
    """The pieces that this process holds, in their order, of 2 ``size`` equal pieces of the sequence."""
    check_split(split)
    return (rank, 2 * size - 1 - rank) if split == "zigzag" else (2 * rank, 2 * rank + 1)


def positions(n: int, rank: int, size: int, split: str = "contiguous") -> Tensor:
    """(n,): where in the whole sequence each of this process's n positions stands.

    Whatever depends on the position, as rotary embeddings do, needs these numbers and not 0..n - 1.
    """
    return cut(torch.arange(n * size), rank, size, split, dim=0)


def cut(x: Tensor, rank: int, size: int, split: str = "contiguous", dim: int = -2) -> Tensor:
    """This process's chunk of a whole sequence, which lies along ``dim``.

    Raises:
        ValueError: the length is not a multiple of ``size``, or for "zigzag" of 2 ``size``.
    """
    check_split(split)
    if split == "contiguous":
        check_length(x.size(dim), size)
        return x.chunk(size, dim)[rank]
    check_length(x.size(dim), 2 * size)
    pieces = x.chunk(2 * size, dim)
    return torch.cat([pieces[i] for i in pieces_of(rank, size, split)], dim)


def join(chunks: list[Tensor], split: str = "contiguous", dim: int = -2) -> Tensor:
    """The whole sequence, from the chunks of all processes in the order of their ranks.

    Reduces to: ``torch.cat`` when the split is contiguous.
    """
    check_split(split)
    size = len(chunks)
    if split == "contiguous":
        return torch.cat(chunks, dim)
    pieces = dict(
        pair
        for rank, chunk in enumerate(chunks)
        for pair in zip(pieces_of(rank, size, split), chunk.chunk(2, dim), strict=True)
    )
    return torch.cat([pieces[i] for i in range(2 * size)], dim)


def part_of(n: int, rank: int, source: int, is_causal: bool, split: str) -> Part | None:
    """What process ``rank`` reads of the n keys of process ``source``; ``None``: nothing of it.

    Zigzag, with early and late for the two halves of a chunk. A visitor from a lower rank is earlier than
    us in its early half and later in its late one: all our rows read its early half. A visitor from a
    higher rank lies as a whole between our halves: our late rows read all of it. Either way half of the
    scores are needed, in one rectangle. Our own chunk is in order, so it has the usual diagonal.
    """
    everything, early, late = slice(0, n), slice(0, n // 2), slice(n // 2, n)
    if not is_causal:
        return Part(everything, everything, False)
    if source == rank:
        return Part(everything, everything, True)
    if split == "zigzag":
        return Part(everything, early, False) if source < rank else Part(late, everything, False)
    return Part(everything, everything, False) if source < rank else None


def pairs(part: Part | None) -> int:
    """How many pairs of a query and a key are scored: the unit of work, for one head."""
    if part is None:
        return 0
    rows, columns = (x.stop - x.start for x in (part.rows, part.columns))
    return rows * (rows + 1) // 2 if part.diagonal else rows * columns


def check_split(split: str) -> None:
    """Refuse a split that does not exist."""
    if split not in SPLITS:
        raise ValueError(
            f"split must be one of {', '.join(SPLITS)}; got {split!r}. Under a causal rule zigzag "
            f"gives all processes equal work"
        )


def check_length(length: int, pieces: int) -> None:
    """Refuse a sequence that cannot be cut into equal pieces."""
    if length % pieces:
        raise ValueError(
            f"the length of the sequence must be a multiple of {pieces}, the number of its pieces; got "
            f"{length}. Pad it to {-(-length // pieces) * pieces}"
        )


def check_chunk(queries: int, keys: int, size: int, split: str) -> None:
    """Refuse a chunk that no cut of a sequence into ``size`` chunks makes."""
    check_split(split)
    if queries != keys:
        raise ValueError(
            f"a chunk has as many queries as keys; got {queries} and {keys}. Cut query, key and value of "
            f"one sequence at the same places"
        )
    if split == "zigzag" and keys % 2:
        raise ValueError(
            f"a zigzag chunk is two pieces of equal length, so its length is even; got {keys}. Pad the "
            f"sequence to a multiple of {2 * size}, then cut it with ring_split.cut"
        )
