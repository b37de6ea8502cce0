"""Causal sums of features times values, chunk by chunk, and all chunks at once."""

from collections.abc import Iterator
from itertools import accumulate, repeat
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

BLOCK = 512  # tokens: what is made of them stays in the cache of a processor


def blocks(chunk: int, *tensors: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Pieces of the axis of tokens, of some chunks each; all of it at once where that is traced, or not on a processor.

    Args:
        chunk: the length of a piece is a multiple of it.
        tensors: (b, h, n, width), or None, of which there is one for each piece.
    """
    whole = next(x for x in tensors if x is not None)
    if torch.compiler.is_compiling() or whole.device.type != "cpu":
        return iter([tensors])
    size = max(BLOCK // chunk, 1) * chunk
    pieces = (repeat(None) if x is None else x.split(size, dim=2) for x in tensors)
    return zip(*pieces, strict=False)


def written(keys: Tensor, values: Tensor, normalize: bool) -> list[Tensor]:
    """What keys and values add to the parts of a state: features times values and, to normalize, features.

    With a 1 beside each value both were one product, of an odd width, and slower.
    """
    return [keys.mT @ values, *([keys.sum(dim=-2)[..., None]] if normalize else [])]


def causal_sums(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    normalize: bool,
    before: list[Tensor],
    chunk: int,
) -> tuple[list[Tensor], list[Tensor]]:
    """What each query reads of the keys up to its own, and the state behind the last.

        read(i) = query(i) (before + sum_{j <= i} key(j) [value(j), 1]^T)

    All chunks at once, (b, h, chunks, chunk, width): what came before a chunk is a sum of sums, what stands inside it
    a small table of weights.

    Args:
        queries, keys: features, (b, h, n, f).
        normalize: sum the weights as well.
        before: the parts of the state: features times values, (b, h, f, e), and features, (b, h, f, 1).
        chunk: tokens that share a table.

    Cost: 4 n f e + 2 n chunk (f + e) FLOPs; n chunk numbers, and f e a chunk.
    Source: yang2024gla, section 3.
    Chapter: 18_linear.
    """
    n, exported = queries.size(2), torch.compiler.is_exporting()
    several = exported or n > chunk
    if several:
        # What is exported is for any n: nothing may depend on it, so there is a rest always, and two chunks or more.
        rest = (n // chunk + 2) * chunk - n if exported else -n % chunk
        queries, keys, values = (_in_chunks(x, chunk, rest) for x in (queries, keys, values))
    inside = (queries @ keys.mT).tril_()
    read = [inside @ values, *([inside.sum(dim=-1, keepdim=True)] if normalize else [])]
    added = written(keys, values, normalize)
    if several:
        starts, after = zip(*map(_running, added, before), strict=True)
    else:
        starts, after = tuple(before), tuple(map(torch.add, before, added))
    read = [x.add_(queries @ start) for x, start in zip(read, starts, strict=True)]
    return [_joined(x, rest) for x in read] if several else read, list(after)


def _in_chunks(
    x: Float[Tensor, "b h n d"], chunk: int, rest: int
) -> Float[Tensor, "b h c chunk d"]:
    """The axis of tokens cut in two, after zeros behind it."""
    if (
        torch.compiler.is_exporting()
    ):  # which cannot see that `unflatten` fits; `unfold` is slow backwards
        return F.pad(x, (0, 0, 0, rest)).unfold(2, chunk, chunk).mT
    return (F.pad(x, (0, 0, 0, rest)) if rest else x).unflatten(2, (-1, chunk))


def _joined(x: Float[Tensor, "b h c chunk d"], rest: int) -> Float[Tensor, "b h n d"]:
    """Undo `_in_chunks`."""
    x = x.flatten(2, 3)
    return F.pad(x, (0, 0, 0, -rest)) if torch.compiler.is_exporting() or rest else x


def _running(
    added: Float[Tensor, "b h c f e"], before: Float[Tensor, "b h f e"]
) -> tuple[Float[Tensor, "b h c f e"], Float[Tensor, "b h f e"]]:
    """The state before each chunk, and behind the last: sums of what was written, without the chunk's own."""
    if torch.compiler.is_compiling():  # one operation for any number of chunks, and slower
        sums = torch.cat([before[:, :, None], added], dim=2).cumsum(dim=2)
        return sums[:, :, :-1], sums[:, :, -1]
    *starts, after = accumulate(added.unbind(dim=2), initial=before)
    return torch.stack(starts, dim=2), after
