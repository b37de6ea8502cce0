"""Are weights dropped as they should be: each on its own, and what is kept enlarged?"""

import torch
from torch import Tensor

NOTHING = (
    "No returned weight is dropped: is dropout gone, or does it act later, or on something else?"
)


def kept(weights: Tensor, true: Tensor, p: float) -> bool | str:
    """True for ``true`` weights of which some are 0 and the others enlarged by 1 / (1 - p)."""
    if weights[true == 0].any():
        return "A hidden key has a weight: is the mask used, and does dropout put in 0?"
    if torch.allclose(weights, true, atol=1e-4):
        return NOTHING
    enlarged = torch.where(weights == 0, 0.0, true) / (1 - p)
    close = torch.allclose(weights, enlarged, atol=1e-4)
    return close or "The kept weights are not softmax / (1 - p), with the p of self.dropout."


def drawn_alone(dropped: Tensor, p: float) -> bool | str:
    """True where weights are dropped with probability p, and none together with others.

    Means of n independent draws vary as p (1 - p) / n; n times as much where all n are one draw.

    Args:
        dropped: 1 where a weight is dropped, of several calls: (calls, samples, heads, n, m).
    """
    rate, together = dropped.mean().item(), []
    if rate in (0, 1):
        return "Everything is dropped." if rate else NOTHING
    for k, axis in enumerate(("calls", "samples", "heads", "queries", "keys")):
        n = dropped.size(k)
        ratio = dropped.mean(k).var().item() * n / (rate * (1 - rate))
        together += [axis] * (not 0.5 < ratio < 1 + (n - 1) / 4)
    if together:
        return f"Weights are dropped together, along {' and '.join(together)}; drop each alone."
    return abs(rate - p) < 0.04 or f"{rate:.2f} of the weights are dropped, and {p:.2f} should be."
