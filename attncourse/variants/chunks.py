"""Causal sums of features times values, chunk by chunk, and all chunks at once."""

from itertools import accumulate

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


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
    # What is exported is for any n: nothing may depend on it, so there is a rest always, and two chunks or more.
    chunk = chunk if exported else min(chunk, n)
    rest = (n // chunk + 2) * chunk - n if exported else -n % chunk
    if exported or rest:
        queries, keys, values = (F.pad(x, (0, 0, 0, rest)) for x in (queries, keys, values))
    queries, keys, values = (_in_chunks(x, chunk, exported) for x in (queries, keys, values))
    inside = (queries @ keys.mT).tril()
    read = [inside @ values, *([inside.sum(dim=-1, keepdim=True)] if normalize else [])]
    starts, after = zip(*map(_running, written(keys, values, normalize), before), strict=True)
    read = [(x + queries @ start).flatten(2, 3) for x, start in zip(read, starts, strict=True)]
    if exported or rest:
        read = [F.pad(x, (0, 0, 0, -rest)) for x in read]
    return read, list(after)


def _in_chunks(
    x: Float[Tensor, "b h n d"], chunk: int, exported: bool
) -> Float[Tensor, "b h c chunk d"]:
    """The axis of tokens cut in two. The exporter cannot see that `unflatten` fits; `unfold` is slow backwards."""
    return x.unfold(2, chunk, chunk).mT if exported else x.unflatten(2, (-1, chunk))


def _running(
    added: Float[Tensor, "b h c f e"], before: Float[Tensor, "b h f e"]
) -> tuple[Float[Tensor, "b h c f e"], Float[Tensor, "b h f e"]]:
    """The state before each chunk, and behind the last: sums of what was written, without the chunk's own."""
    if torch.compiler.is_compiling():  # one operation for any number of chunks, and slower
        sums = torch.cat([before[:, :, None], added], dim=2).cumsum(dim=2)
        return sums[:, :, :-1], sums[:, :, -1]
    *starts, after = accumulate(added.unbind(dim=2), initial=before)
    return torch.stack(starts, dim=2), after
