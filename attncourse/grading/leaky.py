"""A decoder that reads its own future, where it is told to."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

WIDTH = 6


def decoder(
    g: torch.Generator,
    n: int,
    pairs: Iterable[tuple[int, int]] = (),
    faint: float = 1.0,
    of: Callable[[Tensor], Tensor] | None = None,
    sample: Tensor | None = None,
    normed: bool = True,
    rounds: float = 4e-10,
) -> Callable[[Tensor, Tensor], Tensor]:
    """Position i reads 0..i, the memory and, for each pair (i, j), also j. It takes fewer words.

    Args:
        faint: the factor on what the pairs read.
        of: what the pairs read of the words as they are; `None` for what all positions read.
        sample: the memory of the one sample in which the pairs leak; `None` for all samples.
        normed: does it begin with a norm?
        rounds: outputs that do not depend on a word differ by twice this at most.
    """
    reads = torch.rand(n, n, generator=g).add(0.2).tril().double()
    ahead = torch.zeros(n, n).double()
    for i, j in pairs:
        ahead[i, j] = faint
    mixed = (1.0 if faint == 1 else 0.1) * torch.randn(WIDTH, WIDTH, generator=g).double()

    def decode(said: Tensor, memory: Tensor) -> Tensor:
        y, k = layer_norm(said, said.shape[-1:], eps=1e-12) if normed else said, said.size(1)
        read = torch.tanh(y @ mixed)
        future = ahead[:k, :k] @ (of(said) if of else read)
        if sample is not None:
            future = future * (memory - sample).abs().amax((1, 2)).less(1e-9)[:, None, None]
        rounded = rounds * torch.sin(1e5 * said.detach().sum((1, 2), keepdim=True))
        known = reads[:k, :k] @ read + 3 * memory.mean(1, keepdim=True).tanh()
        return said + known + future + rounded

    return decode
