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


# By generation of the card and widest head: tiles of `forward_kernel`, of `query_kernel`, and of
# `key_value_kernel` in full and causal. Ampere's fit into the 99 KB that its smaller cards have.
TILES = {
    "ampere": {
        64: (Tile(128, 64, 8, 2), Tile(128, 64, 8, 2), Tile(32, 128, 8, 2), Tile(32, 128, 8, 2)),
        128: (Tile(128, 32, 8, 2), Tile(128, 32, 8, 2), Tile(64, 64, 8, 2), Tile(64, 64, 8, 2)),
        256: (Tile(64, 32, 8, 2), Tile(32, 32, 8, 2), Tile(32, 32, 8, 2), Tile(32, 32, 8, 2)),
    },
    "hopper": {
        64: (Tile(128, 64, 4, 3), Tile(128, 128, 8, 2), Tile(64, 128, 8, 2), Tile(64, 128, 8, 2)),
        128: (Tile(128, 128, 8, 2), Tile(128, 64, 8, 2), Tile(64, 128, 8, 2), Tile(32, 128, 8, 2)),
        256: (Tile(128, 32, 8, 2), Tile(64, 32, 8, 2), Tile(32, 64, 8, 2), Tile(32, 32, 8, 2)),
    },
}


def tiles_for(query: Tensor, value: Tensor, is_causal: bool) -> tuple[Tile, Tile, Tile]:
    """The tiles of the three kernels. Numbers of four bytes take Ampere's, with half the rows and columns."""
    is_wide = query.element_size() == 4
    table = TILES["hopper" if capability_of(query) == (9, 0) and not is_wide else "ampere"]
    width = max(query.size(-1), value.size(-1))
    forward, query_tile, full, causal = table[min(x for x in table if x >= width)]
    tiles = (forward, query_tile, causal if is_causal else full)
    if is_wide:
        tiles = tuple(t._replace(rows=t.rows // 2, columns=t.columns // 2) for t in tiles)
    return tiles


def capability_of(x: Tensor) -> tuple[int, int] | None:
    """Compute capability of the card that a tensor is on; ``None`` on a CPU."""
    return torch.cuda.get_device_capability(x.device) if x.is_cuda else None
