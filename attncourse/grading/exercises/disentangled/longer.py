"""Exercise longer: a model that copies what stood three places back, in longer sequences, too."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from attncourse.grading import trained
from attncourse.grading.exercise import Asked, Described, Exercise, seeded
from attncourse.grading.explain.trainings import meaning_of_facts

VOCAB, SPAN, BACK, MOST, THRESHOLD = 16, 8, 3, 10_000, 0.95
SHORT, LENGTHS, SHIFTS = 11, (16, 32, 64), (0, 1, 2, 4, 5, 6, -1, -2, -3, -4)
FACTS = (
    f"logits have shape (batch, n, {VOCAB}) and are finite",
    "a sequence gets the same answer alone and in a batch",
    *(f"accuracy at length {n} is above {THRESHOLD}" for n in LENGTHS),
    "the skill sits in the parameters",
    "which token is said where is learned",
)
PLACES = "Let scores depend on i - j, with a learned number or vector for each distance."
OTHER = "The target is the token three places back: tokens[:, :-3] belongs to logits[:, 3:]."
MEANINGS = (  # words of what was seen, at the shortest length
    ("it says what", OTHER), ("token itself", OTHER),
    ("one token", "It says one token everywhere. Is the loss NaN, or are the tokens ignored?"),
    ("the order of all but", f"Attention without positions sees no order. {PLACES}"),
    ("on which side", f"Before and after are the same to it, as with a bias of |i - j|. {PLACES}"),
    ("9 places back", "It cannot tell distance 3 from 9, for other parameters neither: does the "
     "table end too early, so that all further distances share its last row?"),
    ("there yet", "Right in part: train longer; or do two distances share a row of the table?"),
)  # fmt: skip
LONGER = (  # what was seen of longer sequences, where it is right at the shortest
    ("shape", "Something has a length of its own: a table of positions, a mask, a view or a slice. "
     "Read the length from tokens.size(1)."),
    ("NaN", "Some of its numbers are NaN or infinite there; what grows with the length?"),
    ("more often", "It gets worse the longer the sequence is. One finds this where the weights of "
     "many keys add up against that of the right one, which must stand further above them: train "
     "longer; or where something else grows with the length, as in a softmax over the queries."),
    ("", "One finds this with absolute places, or places modulo a length: they mean something "
     f"else there. {PLACES}"),
)  # fmt: skip


def sequences(seed: int, n: int = SHORT) -> torch.Tensor:
    return torch.randint(VOCAB, (37, n), generator=seeded(seed, n))


def judge(model, given, seed: int) -> Iterator[Any]:
    """What the model does on sequences that it has not seen."""
    logits = model(given.clone())
    yield trained.answered(logits, (*given.shape, VOCAB), model)
    yield trained.independent(model, given, logits)
    several = [sequences(seed, n).to(given.device) for n in LENGTHS]
    for tokens in several:
        yield copies(model, tokens)
    tokens, generator = several[0], seeded(seed, "parameters")
    said = model(tokens.clone()).argmax(-1)
    yield trained.skill(
        model, tokens, generator,
        knows=lambda x: copied(x, tokens) > 0.5,
        moved=lambda x: trained.share(x.argmax(-1), said) < 0.9, by=1e-3,
    )  # fmt: skip
    n, stacked = tokens.size(1), [BACK * k for k in (-1, 0, 1, 2, 3)]  # its own place; more layers
    others, built_in = (tokens + 5) % VOCAB, [k % n for k in stacked]
    yield trained.order_learned(model, tokens, others, torch.arange(BACK, n), generator, built_in)


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
    if words := trained.unread(
        model, tokens, (tokens + 5) % VOCAB, torch.eye(n).roll(BACK, 1).triu()
    ):
        return words
    if trained.near(model(tokens.flip(1)), said.flip(1)):
        return "it knows how far a token is, and not on which side"
    near_by, far = n - 1 - BACK, n - 1 - 3 * BACK
    exchanged = tokens.clone()
    exchanged[:, [near_by, far]] = tokens[:, [far, near_by]]
    same = trained.near(model(exchanged)[:, -1], said[:, -1])
    return "it takes a token 9 places back for the one 3 places back" * same


def at_lengths(asked: Asked) -> str:
    """What it means that sequences as long as those of the training are right, and others wrong."""
    seen = [asked.seen.get(fact) for fact in FACTS[:5]]
    if seen[:3] != [True] * 3 or seen[4] is True:
        return ""
    wrong = next(str(x) for x in seen if x is not True)
    means = next(means for words, means in LONGER if words in wrong)
    return f"At length {LENGTHS[0]} it is right, and not at longer ones. {means}"


class Distances(nn.Module):
    """A learned number for each clipped distance, over one-hot tokens."""

    def __init__(self):
        super().__init__()
        self.numbers = nn.Parameter(20.0 * (torch.arange(-SPAN, SPAN + 1) == BACK))
        self.say = nn.Parameter(9 * torch.eye(VOCAB))

    def forward(self, tokens):
        i = torch.arange(tokens.size(1))
        scores = self.numbers[(i[:, None] - i).clamp(-SPAN, SPAN) + SPAN]
        return scores.softmax(-1) @ self.say[tokens]


EXERCISE = Exercise(
    name="longer",
    answer="model",
    judge=trained.judged(judge, FACTS, MOST, sequences, "tokens"),
    right=Distances(),
    explain=(at_lengths, meaning_of_facts(*MEANINGS)),
    asks_for="model",
    measures=("parameters", "training"),
)
