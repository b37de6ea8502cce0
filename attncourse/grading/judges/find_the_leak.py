"""The judge of 02.find_the_leak: models with known leaks, and what an answer says of them."""

import math
import numbers

import torch

from attncourse.grading.observe import NotAttempted, Raised, is_stub

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


def models(x0) -> dict[str, tuple]:
    """All functions with the position of their first leak; some know the input x0."""
    seed = int(1e6 * x0[0, 0, 0].abs())
    causal = reading(CAUSAL, seed)
    earlier = CAUSAL.tril(-1).double()

    def running_mean(x):
        return x.cumsum(1) / torch.arange(1, N + 1)[:, None]

    def size_of_change(x, j):
        """0 at x0 and above it elsewhere; yet its gradient at x0 is not 0."""
        moved = x[:, j] - x0[:, j]
        return torch.where(moved >= 0, 2 * moved, -moved)

    def in_one_feature(x):
        """Up in two samples and down in one, so that its sign does not depend on luck."""
        leak = torch.zeros_like(x)
        leak[:, 2, D - 1] = torch.tensor([1, -1, 1]) * size_of_change(x, 5)[:, 0]
        return causal(x) + leak

    def faint(x):
        """Moves by at most 6e-6; the output at 0 is 0, so a relative tolerance changes nothing."""
        moved = torch.tanh(20 * (x[:, 4] - x0[:, 4]))
        leak = torch.zeros_like(x)
        leak[:, 0] = 6e-6 * torch.where(moved >= 0, moved, -moved / 2)
        return earlier @ x + leak

    def difference(x):
        leak = torch.zeros_like(x)
        leak[:, 1] = x[:, 3] - x[:, 4]
        return causal(x) + leak

    def one_sided(sign, i, j):
        """Whatever is put at j, the output at i moves to one side."""

        def model(x):
            leak = torch.zeros_like(x)
            leak[:, i] = sign * size_of_change(x, j)
            return causal(x) + leak

        return model

    def cancelling(x):
        leak = torch.zeros_like(x)
        leak[:, 1, 0], leak[:, 1, 1] = x[:, 4, 0], -x[:, 4, 0]
        return causal(x) + leak

    return masked_models(seed) | {
        "a running mean": (running_mean, -1),
        "a strictly causal sum": (lambda x: earlier @ x, -1),
        "a leak in one feature only": (in_one_feature, 2),
        "a faint leak": (faint, 0),
        "a leak that reads a difference": (difference, 1),
        "a leak that only lowers the output": (one_sided(-1, 2, 5), 2),
        "a leak that only raises the output": (one_sided(1, 3, 5), 3),
        "a leak that cancels in the mean": (cancelling, 1),
    }


def an_input(seed: int):
    """Random numbers in double precision, (batch, n, d)."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, N, D, generator=g, dtype=torch.float64)


def facts(answer, seed: int) -> dict:
    """One fact for each model: True, or what was answered instead."""
    x = an_input(seed)
    seen = {}
    unchanged = True
    for name, (model, leak) in models(x).items():
        given = x.clone()
        try:
            found = answer(model, given)
        except (Exception, SystemExit) as error:
            if isinstance(error, NotImplementedError) and is_stub(error) and not seen:
                raise NotAttempted from None
            return seen | {name: Raised(type(error).__name__, str(error))}
        seen[name] = _is(found, leak) or f"expected {leak}, got {found}"
        unchanged &= torch.equal(given, x)
    seen["x left unchanged"] = unchanged
    return seen


def _is(found, leak: int) -> bool:
    if isinstance(found, torch.Tensor) and found.numel() == 1 and found.dtype != torch.bool:
        found = found.item()
    number = isinstance(found, numbers.Number) and not isinstance(found, bool)
    return number and found == leak
