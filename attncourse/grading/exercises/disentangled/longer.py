"""Exercise longer: a model that copies what stood three places back, in longer sequences, too."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from attncourse.grading import trained
from attncourse.grading.exercise import Asked, Exercise, seeded
from attncourse.grading.exercises.disentangled import _copies
from attncourse.grading.exercises.disentangled._copies import BACK, THRESHOLD, VOCAB, copied
from attncourse.grading.explain.trainings import meaning_of_facts

SPAN, MOST, SHORT, LENGTHS = 8, 10_000, 11, (16, 32, 64)
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
        yield _copies.copies(model, tokens)
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
)
