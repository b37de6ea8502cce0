"""The judge of find_the_leak: models with known leaks, and what an answer says of them."""

import math
import numbers
import random

import torch

from attncourse.grading.compare import NotAttempted, Raised, is_stub

BATCH, N, D = 3, 7, 4
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()


def reading(mask, seed: int):
    """An attention layer (batch, n, d) -> (batch, n, d) under a mask that broadcasts to it."""
    g = torch.Generator().manual_seed(seed)
    w_q, w_k, w_v = torch.randn(3, D, D, generator=g, dtype=torch.float64)

    def model(x):
        scores = (x @ w_q) @ (x @ w_k).mT / D
        return torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ (x @ w_v)

    return model


def with_pairs(*pairs):
    """The causal mask and a few forbidden pairs (i, j)."""
    mask = CAUSAL.clone()
    for i, j in pairs:
        mask[i, j] = True
    return mask


def one_sample(mask, sample: int):
    """Causal in every sample but one."""
    masks = CAUSAL.repeat(BATCH, 1, 1)
    masks[sample] = mask
    return masks


def masked_models(seed: int) -> dict[str, tuple]:
    """Attention layers with the position of the first leak of their mask, -1 for none."""
    causal = reading(CAUSAL, seed)
    return {
        "a causal layer": (causal, -1),
        "two causal layers": (lambda x: causal(causal(x)), -1),
        "a layer without a mask": (reading(CAUSAL | True, seed), 0),
        "a mask that is off by one": (reading(CAUSAL.roll(-1, 1) | CAUSAL, seed), 0),
        "one forbidden pair, next door": (reading(with_pairs((5, 6)), seed), 5),
        "one forbidden pair, far away": (reading(with_pairs((1, 5)), seed), 1),
        "three forbidden pairs": (reading(with_pairs((5, 6), (2, 4), (3, 6)), seed), 2),
        "forbidden pairs, 4 reads 5 and 1 reads 6": (reading(with_pairs((4, 5), (1, 6)), seed), 1),
        "a leak in the last sample only": (reading(one_sample(with_pairs((4, 6)), 2), seed), 4),
    }


def leaky_models(causal, x0) -> dict[str, tuple]:
    """A causal layer and a leak beside it; some leaks know the input x0."""

    def size_of_change(x, j):
        """0 at x0 and above it elsewhere; yet its gradient at x0 is not 0."""
        moved = x[:, j] - x0[:, j]
        return torch.where(moved >= 0, 2 * moved, -moved)

    def with_leak(i, leak, sample=slice(None), feature=slice(None)):
        """``leak(x)`` is added to the output at position i."""

        def model(x):
            added = torch.zeros_like(x)
            added[sample, i, feature] = leak(x)
            return causal(x) + added

        return model

    def up_and_down(x):
        """Up in two samples and down in one, so that its sign does not depend on luck."""
        return torch.tensor([1, -1, 1]) * size_of_change(x, 5)[:, 0]

    def shares_of_squares(x):
        """The same for -x and for 2 x."""
        squares = x[:, 5].square()
        return squares / (squares.sum(-1, keepdim=True) + 1e-9)

    def one_number(j, sample, feature):
        return lambda x: x[sample, j, feature]

    def opposite(x):
        return torch.stack([x[:, 4, 0], -x[:, 4, 0]], dim=-1)

    first, second, last = 0, 1, D - 1
    return {
        "a leak in one feature only": (with_leak(2, up_and_down, feature=last), 2),
        "a leak that reads a difference": (with_leak(1, lambda x: x[:, 3] - x[:, 4]), 1),
        "a leak that only lowers the output": (with_leak(2, lambda x: -size_of_change(x, 5)), 2),
        "a leak that only raises the output": (with_leak(3, lambda x: size_of_change(x, 5)), 3),
        "a leak that cancels in the mean": (with_leak(1, opposite, feature=slice(2)), 1),
        "a leak from the last feature to the first, in the first sample": (
            with_leak(3, one_number(6, first, last), first, first),
            3,
        ),
        "a leak from the first feature to the second, in the second sample": (
            with_leak(4, one_number(5, second, first), second, second),
            4,
        ),
        "a leak that is the same for -x and 2 x": (with_leak(3, shares_of_squares), 3),
    }


def models(x0) -> dict[str, tuple]:
    """All functions with the position of their first leak; some know the input x0."""
    seed = int(1e6 * x0[0, 0, 0].abs())
    causal = reading(CAUSAL, seed)
    earlier = CAUSAL.tril(-1).double()

    def running_mean(x):
        return x.cumsum(1) / torch.arange(1, N + 1)[:, None]

    def faint(x):
        """Moves by at most 6e-6; the output at 0 is 0, so a relative tolerance changes nothing."""
        moved = torch.tanh(20 * (x[:, 4] - x0[:, 4]))
        leak = torch.zeros_like(x)
        leak[:, 0] = 6e-6 * torch.where(moved >= 0, moved, -moved / 2)
        return earlier @ x + leak

    def rounding(x):
        return causal(x) + 1e-10 * x.mean(dim=1, keepdim=True)

    return (
        masked_models(seed)
        | {
            "a running mean": (running_mean, -1),
            "a strictly causal sum": (lambda x: earlier @ x, -1),
            "a causal layer with rounding errors": (rounding, -1),
            "a faint leak": (faint, 0),
        }
        | leaky_models(causal, x0)
    )


def an_input(seed: int):
    """Random numbers in double precision, (batch, n, d)."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, N, D, generator=g, dtype=torch.float64)


def facts(answer, seed: int) -> dict:
    """One fact for each model: True, or what was answered instead."""
    x = an_input(seed)
    seen = {}
    unchanged = True
    order = list(models(x).items())
    random.Random(seed).shuffle(order)  # a list of the right numbers is no answer
    for name, (model, leak) in order:
        given = x.clone()
        try:
            found = answer(of_this_shape(model, x), given)
        except (Exception, SystemExit) as error:
            if isinstance(error, NotImplementedError) and is_stub(error) and not seen:
                raise NotAttempted from None
            return seen | {name: Raised.by(error)}
        seen[name] = _is(found, leak) or f"expected {leak}, got {found}"
        unchanged &= torch.equal(given, x)
    seen["x left unchanged"] = unchanged
    return seen


def of_this_shape(model, x):
    """The model, for inputs of the shape of x only."""

    def strict(given):
        if not isinstance(given, torch.Tensor) or given.shape != x.shape:
            raise ValueError(f"the model takes inputs of shape {tuple(x.shape)}")
        return model(given)

    return strict


def _is(found, leak: int) -> bool:
    if isinstance(found, torch.Tensor) and found.numel() == 1 and found.dtype != torch.bool:
        found = found.item()
    number = isinstance(found, numbers.Number) and not isinstance(found, bool)
    return bool(number and found == leak)  # numpy has a bool of its own
