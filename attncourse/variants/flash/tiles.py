"""Sizes of the tiles: a table, because trying them out belongs into a benchmark and not into an import."""

from typing import NamedTuple

import torch
from torch import Tensor


class Tile(NamedTuple):
    """Rows and columns of a tile, warps that share one program, and tiles loaded ahead."""

    rows: int
    columns: int
    warps: int
    stages: int


CACHE = 32 * 2**20  # bytes of the L2 cache to count on: large cards have 40 MB and more

# By generation and widest head: tiles of `forward_kernel`, of `query_kernel`, and of `key_value_kernel` in
# full and causal. Those of Ampere and of float32 fit into the 99 KB that smaller cards have.
TILES = {
    "ampere": {
        64: (Tile(128, 64, 8, 2), Tile(128, 64, 8, 2), Tile(32, 128, 8, 2), Tile(32, 128, 8, 2)),
        128: (Tile(128, 32, 8, 2), Tile(128, 32, 8, 2), Tile(64, 64, 8, 2), Tile(64, 64, 8, 2)),
        256: (Tile(64, 32, 8, 2), Tile(32, 32, 8, 2), Tile(32, 32, 8, 2), Tile(32, 32, 8, 2)),
    },
    "hopper": {
        64: (Tile(128, 64, 8, 3), Tile(128, 64, 8, 3), Tile(64, 128, 8, 2), Tile(64, 128, 8, 2)),
        128: (Tile(128, 128, 8, 3), Tile(128, 64, 8, 3), Tile(64, 128, 8, 2), Tile(64, 128, 8, 2)),
        256: (Tile(128, 32, 8, 2), Tile(64, 32, 8, 2), Tile(32, 64, 8, 2), Tile(32, 32, 8, 2)),
    },
    "float32": {
        64: (Tile(64, 32, 8, 2), Tile(32, 32, 8, 2), Tile(16, 64, 8, 2), Tile(16, 64, 8, 2)),
        128: (Tile(32, 16, 8, 2), Tile(64, 16, 8, 2), Tile(32, 32, 8, 2), Tile(32, 32, 8, 2)),
        256: (Tile(32, 16, 8, 2), Tile(16, 16, 8, 2), Tile(16, 16, 8, 2), Tile(16, 16, 8, 2)),
    },
}


def tiles_for(query: Tensor, value: Tensor, is_causal: bool) -> tuple[Tile, Tile, Tile]:
    """The tiles of the three kernels."""
    table = TILES[generation(query)]
    width = max(query.size(-1), value.size(-1))
    forward, query_tile, full, causal = table[min(x for x in table if x >= width)]
    return forward, query_tile, causal if is_causal else full


def generation(x: Tensor) -> str:
    """Whose tiles a tensor takes: "float32" on every card; in 16 bits "hopper" on such a card, else "ampere"."""
    if x.element_size() == 4:
        return "float32"
    return "hopper" if capability_of(x) == (9, 0) else "ampere"


def capability_of(x: Tensor) -> tuple[int, int] | None:
    """Compute capability of the card that a tensor is on; ``None`` on a CPU."""
    return torch.cuda.get_device_capability(x.device) if x.is_cuda else None


def heads_at_a_time(x: Tensor, y: Tensor, is_causal: bool) -> int:
    """How many heads to work on together, so that what all their programs read, x and y, stays in the cache.

    Without a causal rule all programs take equally long, and one head after the other will do.
    """
    heads = x.size(0) * x.size(1)
    size = (x.nbytes + y.nbytes) // max(1, heads)
    return min(heads, max(1, CACHE // max(1, size))) if is_causal else 1
