"""Models that read their own future, where they are told to."""

import math
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize

Pairs = Iterable[tuple[int, int]]


def decoder(
    g: torch.Generator,
    n: int,
    pairs: Pairs = (),
    faint: float = 1.0,
    of: Callable[[Tensor], Tensor] | None = None,
    sample: Tensor | None = None,
    normed: bool = True,
    rounds: float = 4e-10,
) -> Callable[[Tensor, Tensor], Tensor]:
    """Position i reads 0..i, the memory and, for each pair (i, j), also j; words have 6 features.

    Args:
        n: of so many words, or of fewer.
        faint: the factor on what the pairs read.
        of: what the pairs read of the words as they are; `None` for what all positions read.
        sample: the memory of the one sample in which the pairs leak; `None` for all samples.
        normed: does it begin with a norm?
        rounds: outputs that do not depend on a word differ by twice this at most.
    """
    reads = torch.rand(n, n, generator=g).add(0.2).tril().double()
    ahead = torch.zeros(n, n).double()
    for pair in pairs:
        ahead[pair] = faint
    mixed = (1.0 if faint == 1 else 0.1) * torch.randn(6, 6, generator=g).double()

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


def _moved(x0: Tensor, x: Tensor) -> Tensor:
    """Above 0 wherever position 5 moves; yet where it is, its gradient is not 0."""
    by = (x - x0)[:, 5].sum(-1, keepdim=True)
    return torch.where(by >= 0, by, -by / 2)


def _faint(x0: Tensor, x: Tensor, slope: float = 100.0) -> Tensor:
    return 1.2e-6 * torch.tanh(slope * (x - x0)[:, 4, :1])


def leaking_models(x0: Tensor, e: int, g: torch.Generator) -> dict[str, Callable]:
    """Models of inputs like x0 whose outputs are e wide, by what leaks; some know the input."""
    b, n, d = x0.shape
    every, signs = slice(None), (-1.0) ** torch.arange(max(b, e))

    def layer(pairs: Pairs = ()) -> Callable[[Tensor], Tensor]:
        """Attention in which pairs (i, j) of the future are visible, too."""
        w_q, w_k, w_v = (torch.randn(d, k, generator=g).double() for k in (d, d, e))
        visible = torch.ones(n, n, dtype=torch.bool).tril()
        for pair in pairs:
            visible[pair] = True

        def attend(x: Tensor) -> Tensor:
            scores = (x @ w_q) @ (x @ w_k).mT / d
            return scores.masked_fill(~visible, -math.inf).softmax(-1) @ (x @ w_v)

        return attend

    full, causal = [(i, j) for i in range(n) for j in range(i + 1, n)], layer()

    def beside(i, leak, sample=every, feature=every, scale=1, shift=0):
        """A causal layer; ``leak(x)`` is added to its output at position i."""

        def model(x):
            output = scale * causal(x) + shift
            output[sample, i, feature] += leak(x)
            return output

        return model

    moved, faint = partial(_moved, x0), partial(_faint, x0)
    return {
        "a causal layer": causal,
        "a strictly causal sum": lambda x: torch.ones(n, n).double().tril(-1) @ x,
        "rounding errors of 8e-7": beside(every, lambda x: 8e-7 * (x != x0).any(), shift=1e3),
        "a layer without a mask": layer(full),
        "no mask, and one sample, where samples cannot change places": layer(full),
        "a mask that is off by one": layer([(i, i + 1) for i in range(n - 1)]),
        "the last but one position reads the last": layer([(n - 2, n - 1)]),
        "forbidden pairs, 4 reads 5 and 1 reads the last": layer([(4, 5), (1, n - 1)]),
        "a leak in the last feature": beside(2, lambda x: moved(x)[:, 0] * signs[:b], feature=-1),
        "a leak of the difference of two": beside(1, lambda x: (x[:, 3] - x[:, 4])[:, :1]),
        "a leak behind a LayerNorm": beside(3, lambda x: layer_norm(x[:, 5], (d,))[:, :1]),
        "a leak of a sum of features that only raises the output": beside(3, moved),
        "a leak of a sum of features that only lowers it": beside(2, lambda x: -moved(x)),
        "a leak that cancels in a mean or sum": beside(
            1, lambda x: x[0, 4, 0] * signs[:2, None] * signs[:2], slice(2), slice(2)
        ),
        "a leak from the last feature to the first": beside(3, lambda x: x[0, 6, -1], 0, 0),
        "a leak from the first feature to the second": beside(4, lambda x: x[1, 5, 0], 1, 1),
        "the same for -x and 2 x": beside(3, lambda x: normalize(x[:, 5]).square()[:, :1]),
        "a leak of 1.2e-6 in one number": beside(0, lambda x: faint(x, 1e4)[1, 0], 1, -1, scale=0),
        "a leak of 1.2e-6 which a relative tolerance hides": beside(0, faint, shift=1e3),
    }
