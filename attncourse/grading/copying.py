"""Models that say what stood some places back in a sequence: what does one say or read instead?"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from attncourse.grading.compare import Described
from attncourse.grading.trained import answered, cannot, near, never_right, share, sure

SHIFTS = (0, 1, 2, 4, 5, 6, -1, -2, -3, -4)


def copied(logits: Tensor, tokens: Tensor, back: int) -> float:
    """The share of the places at which the token that stood so many places back is said."""
    return share(logits.argmax(-1)[:, back:], tokens[:, :-back])


def copies(
    model: nn.Module, tokens: Tensor, vocab: int, back: int, threshold: float
) -> bool | Described:
    """True when the share is above a threshold; else what the model says."""
    logits = model(tokens.clone())
    if (shape := answered(logits, (*tokens.shape, vocab), model)) is not True:
        return Described(f"at this length it returns {shape}")
    if (accuracy := copied(logits, tokens, back)) > threshold:
        return True
    return Described(f"{_said_instead(model, tokens, logits, back)}: accuracy {accuracy:.2f}")


def _said_instead(model: nn.Module, tokens: Tensor, logits: Tensor, back: int) -> str:
    """What the wrong answers look like."""
    n, said = tokens.size(1), logits.argmax(-1)
    right = said[:, back:] == tokens[:, :-back]
    known = right.double().mean()
    for by in SHIFTS:
        there, where = said[:, max(by, 0) : n + min(by, 0)], tokens[:, max(-by, 0) : n - max(by, 0)]
        if share(there, where) > 0.9:
            return f"it says what stands {_where(by)}" if by else "it says the token itself"
    if share(said, said[:1, :1]) > 0.95:
        return "it says one token everywhere"
    if known < 0.9 and (blind := _blind(model, tokens, logits, back)):
        return blind
    if never := never_right(right, torch.arange(back, n).expand_as(right), "places"):
        return never
    if known < 0.15:
        return sure(logits[:, back:], tokens[:, :-back])
    often = "but right more often than not" if known > 0.5 else "and mostly wrong"
    return f"it is not there yet, {often}"


def _blind(model: nn.Module, tokens: Tensor, logits: Tensor, back: int) -> str:
    """The first change of the order that it does not see; and does it with other parameters?"""
    blind = next(_unseen(model, tokens, logits, back), "")

    def look() -> str:
        return blind if blind in _unseen(model, tokens, model(tokens.clone()), back) else ""

    return blind and (cannot(model, look) or f"{blind}, but with other parameters it would")


def _unseen(model: nn.Module, tokens: Tensor, logits: Tensor, back: int) -> Iterator[str]:
    """Which changes of the order of the tokens it does not see."""
    order = torch.arange(tokens.size(1))
    last, far = len(order) - 1, order.clone()

    def same(order: Tensor, at: slice | int = slice(None)) -> bool:
        return near(model(tokens[:, order])[:, at], logits[:, order][:, at])

    if same(order * 5 % len(order)):  # no shift: a convolution around the end knows places, too
        yield "it does not know the places"
    if same(order.flip(0)):
        yield "it knows how far a token is, and not on which side"
    other = tokens.clone()
    other[:, last - back] = (other[:, last - back] + 5) % logits.size(-1)
    if near(model(other)[:, last], logits[:, last]):
        yield f"it does not read the token {_where(back)}"
    far[[last - back, last - 3 * back]] = far[[last - 3 * back, last - back]]
    if same(far, last):
        yield f"it takes a token {_where(3 * back)} for the one {_where(back)}"


def _where(by: int) -> str:
    return f"{abs(by)} place{'s' * (abs(by) > 1)} {'back' if by > 0 else 'ahead'}"
