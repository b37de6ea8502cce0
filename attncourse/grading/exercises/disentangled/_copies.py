"""What a model says that should say what stood three places back."""

import torch

from attncourse.grading import trained
from attncourse.grading.compare import Described

VOCAB, BACK, THRESHOLD = 16, 3, 0.95
SHIFTS = (0, 1, 2, 4, 5, 6, -1, -2, -3, -4)


def copied(logits, tokens) -> float:
    """The share of the places at which the token three places back is said."""
    return trained.share(logits.argmax(-1)[:, BACK:], tokens[:, :-BACK])


def copies(model, tokens) -> bool | Described:
    """True when the share is above the threshold; else what the model says."""
    logits = model(tokens.clone())
    if (shape := trained.answered(logits, (*tokens.shape, VOCAB), model)) is not True:
        return Described(f"at this length it returns {shape}")
    known = copied(logits, tokens)
    if known > THRESHOLD:
        return True
    return Described(f"{described(model, tokens, logits)}: accuracy {known:.2f}")


def described(model, tokens, logits) -> str:
    """What the wrong answers look like."""
    n, said, known = tokens.size(1), logits.argmax(-1), copied(logits, tokens)
    for by in SHIFTS:
        there, where = said[:, max(by, 0) : n + min(by, 0)], tokens[:, max(-by, 0) : n - max(by, 0)]
        if trained.share(there, where) > 0.9:
            places = f"{abs(by)} place{'s' * (abs(by) > 1)} {'back' if by > 0 else 'ahead'}"
            return f"it says what stands {places}" if by else "it says the token itself"
    if trained.share(said, said[:1, :1]) > 0.95:
        return "it says one token everywhere"
    right, places = said[:, BACK:] == tokens[:, :-BACK], torch.arange(BACK, n)
    often = "but right more often than not" if known > 0.5 else "and mostly wrong"
    return (
        (known < 0.9 and trained.cannot(model, lambda: unseen(model, tokens[:16])))
        or trained.never_right(right, places.expand_as(right), "places")
        or (known < 0.15 and trained.sure(logits[:, BACK:], tokens[:, :-BACK]))
        or f"it is not there yet, {often}"
    )


def unseen(model, tokens) -> str:
    """Which tokens, or what of their places, make no difference; '' if none."""
    said, n = model(tokens.clone()), tokens.size(1)
    others, asks = (tokens + 5) % VOCAB, torch.eye(n).roll(BACK, 1).triu()
    if words := trained.unread(model, tokens, others, asks):
        return words
    if trained.near(model(tokens.flip(1)), said.flip(1)):
        return "it knows how far a token is, and not on which side"
    near_by, far = n - 1 - BACK, n - 1 - 3 * BACK
    exchanged = tokens.clone()
    exchanged[:, [near_by, far]] = tokens[:, [far, near_by]]
    same = trained.near(model(exchanged)[:, -1], said[:, -1])
    return "it takes a token 9 places back for the one 3 places back" * same
