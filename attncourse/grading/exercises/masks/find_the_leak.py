"""Exercise find_the_leak: which position is the first to read the future?"""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize

from attncourse.grading.exercise import Case, Counts, Exercise
from attncourse.grading.explain.asked import Asked
from attncourse.grading.inputs import seeded
from attncourse.grading.mistake import Mistake

ALONE = "a layer without a mask, given one sample, where samples cannot change places"


def cases(seed: int) -> list[Case]:
    """A model and an input for each label, drawn on their own: one tells nothing about another."""
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

    def cancels(x):
        return x[0, 4, 0] * signs[:2, None] * signs[:2]

    flat = partial(beside, layer=lambda x: 0 * causal(x))
    large = partial(beside, layer=lambda x: 1e3 + causal(x))
    return {
        "a causal layer": causal,
        "a strictly causal sum": lambda x: torch.ones(n, n).double().tril(-1) @ x,
        "a causal layer with rounding errors of 8e-7, less than the 1e-6 of a leak":
            beside(every, lambda x: 8e-7 * (x != x0).any(), 0, 0),
        "a layer without a mask": layer((every, every)),
        ALONE: layer((every, every)),
        "a mask that is off by one": layer(*((i, i + 1) for i in range(n - 1))),
        "the last but one position reads the last": layer((n - 2, n - 1)),
        "forbidden pairs, 4 reads 5 and 1 reads the last": layer((4, 5), (1, n - 1)),
        "a leak in the last feature of the output only":
            beside(2, lambda x: moved(x)[:, 0] * signs[:b], feature=-1),
        "a leak that reads the difference of two positions":
            beside(1, lambda x: (x[:, 3] - x[:, 4])[:, :1]),
        "a leak behind a LayerNorm, which hides a number added to all features":
            beside(3, lambda x: layer_norm(x[:, 5], (d,))[:, :1]),
        "a leak of a sum of features that only raises the output": beside(3, moved),
        "a leak of a sum of features that only lowers the output": beside(2, lambda x: -moved(x)),
        "a leak that cancels in a mean or sum over the output":
            beside(1, cancels, slice(2), slice(2)),
        "a leak from the last feature to the first, in sample 0":
            beside(3, lambda x: x[0, 6, -1], 0, 0),
        "a leak from the first feature to the second, in sample 1":
            beside(4, lambda x: x[1, 5, 0], 1, 1),
        "a leak that is the same for -x and 2 x":
            beside(3, lambda x: normalize(x[:, 5]).square()[:, :1]),
        "a leak of 1.2e-6 in one number": flat(0, lambda x: faint(x, 1e4)[1, 0], 1, -1),
        "a leak of 1.2e-6 where the output is 1000, which a relative tolerance hides":
            large(0, faint),
    }  # fmt: skip


LABELS = tuple(models(torch.zeros(3, 7, 3), 3, torch.Generator()))


def right(model, x):
    before = model(x)
    for i in range(x.size(1) - 1):
        changed = x.clone()
        changed[:, i + 1 :] = torch.randn_like(x[:, i + 1 :])
        if (model(changed) - before)[:, i].abs().max() > 1e-6:
            return i
    return -1


def of_models(asked: Asked) -> str:
    """In which models is the first leak missed, and in which is one seen too early?"""
    found = [(x.label, x.expected, x.seen) for x in asked.calls if isinstance(x.seen, int)]
    if not asked.wrong or len(found) < len(asked.calls):
        return ""
    if all(seen == -1 for _, _, seen in found):
        return f"No leak is found in any model. {COPY}, the change large enough, and no number NaN?"
    if all(seen == 0 for _, _, seen in found):
        return (
            f"Every model seems to leak at position 0. {COPY}, with position i as it was, no NaN?"
        )
    missed = [x for x in found if x[1] != -1 and (x[2] == -1 or x[2] > x[1])]
    early = [x for x, right, seen in found if seen != -1 and (right == -1 or seen < right)]
    places = {right for _, right, _ in missed}
    same = [x for x, right, _ in found if right in places]
    if len(places) == 1 and len(same) == len(missed) > 1:
        return f"Whatever leaks first at position {places.pop()} is missed."
    says = (
        ("The first leak is missed in", [x for x, _, _ in missed]),
        ("A leak is seen where none is, or too early, in", early),
    )
    return " ".join(f"{how}: {listed(labels)}." for how, labels in says if labels)


def listed(labels: list[str]) -> str:
    """The most special ones, which tell most."""
    *others, last = sorted(labels, key=LABELS.index)
    more = f"; and {len(others) - 2} more" if others[2:] else ""
    return "; ".join([*others[-2:], last]) + more


COPY = "Is the changed input a copy"


def leaks(model, x):
    """All positions that read the future."""
    later = torch.arange(x.size(1))
    mixed = [torch.where((later > i)[:, None], torch.randn_like(x), x) for i in later]
    return [i for i, y in enumerate(mixed) if (model(y) - model(x))[:, i].abs().max() > 1e-6]


EXERCISE = Exercise(
    name="find_the_leak",
    answer="first_leak",
    judge=Counts(right, cases),
    right=right,
    explain=(of_models,),
    ideas=[
        Mistake(says, lambda model, x, pick=pick: pick(leaks(model, x), x.size(1)))
        for says, pick in (
            ("That is the last position that leaks; the smallest is wanted.",
             lambda found, n: max(found, default=-1)),
            ("That counts the leaking positions; return the smallest of them.",
             lambda found, n: len(found) or -1),
            ("All leaking positions are returned; return the smallest.", lambda found, n: found),
            ("Positions are counted from 1; count them from 0.",
             lambda found, n: found[0] + 1 if found else -1),
            ("A causal model gives None; return -1.", lambda found, n: (*found, None)[0]),
            ("A causal model gives the length of the sequence; return -1.",
             lambda found, n: (*found, n)[0]),
            ("A causal model gives 0, which is a position; return -1.",
             lambda found, n: (*found, 0)[0]),
            ("Position 0 is taken for no leak: 0 counts as False in `or` and `if`.",
             lambda found, n: (*found, 0)[0] or -1),
            ("That says whether there is a leak; return where the first one is, or -1.",
             lambda found, n: bool(found)),
        )
    ],
)  # fmt: skip
