"""The models of exercise find_the_leak, most of which read the future, and each in a way of its own."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize

from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case

ALONE = "one sample, a layer without a mask"


def cases(seed: int) -> list[Case]:
    """A model and an input for each label, all drawn on their own: one tells nothing about another, nor does their order."""
    g = seeded(seed, "sizes")
    b, d, e = (3 + torch.randperm(5, generator=g)[:3]).tolist()
    n = int(torch.randint(8, 11, (), generator=g))
    found = []
    for number in torch.randperm(len(LABELS), generator=seeded(seed, "order")).tolist():
        label = LABELS[number]
        g = seeded(seed, label)
        x = torch.randn(1 if label == ALONE else b, n, d, generator=g).double()
        model = models(x, e, g)[label]
        found.append(Case(label, (partial(called, model, x.shape), x), gradients=False))
    return found


def called(model, shape, x):
    """The output of a model that takes inputs of one shape only."""
    if not isinstance(x, Tensor) or x.shape != shape:
        raise ValueError(f"the model takes inputs of shape {tuple(shape)}")
    return model(x)


def models(x0, e, generator):
    """Models whose outputs are e wide, most of which leak; some know the input."""
    b, n, d = x0.shape
    every, signs = slice(None), (-1.0) ** torch.arange(max(b, e))

    def layer(*pairs):
        """A causal attention layer in which pairs (i, j) of the future are visible, too."""
        w_q, w_k, w_v = (torch.randn(d, k, generator=generator).double() for k in (d, d, e))
        visible = torch.ones(n, n, dtype=torch.bool).tril()
        for i, j in pairs:
            visible[i, j] = True

        def model(x):
            scores = (x @ w_q) @ (x @ w_k).mT / d
            return scores.masked_fill(~visible, -math.inf).softmax(-1) @ (x @ w_v)

        return model

    causal = layer()

    def beside(i, leak, sample=every, feature=every, layer=causal):
        """``leak(x)`` is added to the output at position i."""

        def model(x):
            output = layer(x)
            output[sample, i, feature] += leak(x)
            return output

        return model

    def moved(x):
        """Above 0 wherever the position moves; yet where it is, its gradient is not 0."""
        by = (x - x0)[:, 5].sum(-1, keepdim=True)
        return torch.where(by >= 0, by, -by / 2)

    def faint(x, slope=100.0):
        return 1.2e-6 * torch.tanh(slope * (x - x0)[:, 4, :1])

    return {
        "a causal layer": causal,
        "a strictly causal sum": lambda x: torch.ones(n, n).double().tril(-1) @ x,
        "a causal layer with rounding errors": beside(every, lambda x: 8e-7 * (x != x0).any(), 0, 0),
        "a layer without a mask": layer((every, every)),
        ALONE: layer((every, every)),
        "a mask that is off by one": layer(*((i, i + 1) for i in range(n - 1))),
        "the last but one position reads the last": layer((n - 2, n - 1)),
        "forbidden pairs, 4 reads 5 and 1 reads the last": layer((4, 5), (1, n - 1)),
        "a leak in one feature only": beside(2, lambda x: moved(x)[:, 0] * signs[:b], feature=-1),
        "a leak that reads a difference": beside(1, lambda x: (x[:, 3] - x[:, 4])[:, :1]),
        "a leak behind a LayerNorm": beside(3, lambda x: layer_norm(x[:, 5], (d,))[:, :1]),
        "a leak that only raises the output": beside(3, moved),
        "a leak that only lowers the output": beside(2, lambda x: -moved(x)),
        "a leak that cancels in the mean": beside(1, lambda x: x[0, 4, 0] * signs[:2, None] * signs[:2], slice(2), slice(2)),
        "a leak from the last feature to the first": beside(3, lambda x: x[0, 6, -1], 0, 0),
        "a leak from the first feature to the second": beside(4, lambda x: x[1, 5, 0], 1, 1),
        "a leak that is the same for -x and 2 x": beside(3, lambda x: normalize(x[:, 5]).square()[:, :1]),
        "a faint leak in one number": beside(0, lambda x: faint(x, 1e4)[1, 0], 1, -1, lambda x: 0 * causal(x)),
        "a faint leak where the output is large": beside(0, faint, layer=lambda x: 1e3 + causal(x)),
    }  # fmt: skip


LABELS = tuple(models(torch.zeros(3, 7, 3), 3, torch.Generator()))
