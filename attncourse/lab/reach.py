"""How far information travels: the graph of who reads whom, and its distances."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

NEVER = -1


def hops(visible: Bool[Tensor, "n n"]) -> Int[Tensor, "n n"]:
    """How many layers information needs from token j to token i, when every layer has the same mask.

        hops(i, i) = 0        hops(i, j) = 1 + min over all k that i reads of hops(k, j)

    A token keeps what it knows (the residual connection), so 0 layers suffice from a token to itself. With
    one layer more, i knows what those knew whom it reads: a step along an edge of the graph.

    Args:
        visible: ``True`` where query i may read key j, as ``masks.dense(rule, 1, 1, n, n)[0, 0]``.

    Returns: int64; `NEVER` (-1) where no number of layers suffices.

    Raises:
        ValueError: not a square table.

    Cost: 2 n^3 FLOPs for each layer up to the largest distance, and n n numbers.
    Chapter: 14_global_local.
    """
    if visible.dim() != 2 or visible.size(0) != visible.size(1):
        raise ValueError(
            f"visible must be (n, n), who reads whom among n tokens; got shape {tuple(visible.shape)}. "
            f"Of a mask with batch and heads take one: visible[b, h]"
        )
    n = visible.size(0)
    reads, known = visible.float(), torch.eye(n, dtype=torch.bool)
    distance = torch.full((n, n), NEVER).fill_diagonal_(0)
    for layers in range(1, n):
        new = (reads @ known.float() > 0) & ~known
        if not new.any():
            break
        distance[new] = layers
        known = known | new
    return distance


def farthest(visible: Bool[Tensor, "n n"]) -> int:
    """The number of layers after which every token has heard of every other; `NEVER` if that never happens."""
    distance = hops(visible)
    return NEVER if (distance == NEVER).any() else int(distance.max())
