"""Exercise train_reversal: a trained model that says sequences backwards, judged on new ones."""

import torch
from torch import nn

from attncourse.grading import trained
from attncourse.grading.exercise import Exercise, seeded
from attncourse.grading.explain.trainings import meaning_of_facts, said_instead

VOCAB, LENGTH, MAX_PARAMETERS, THRESHOLD = 20, 12, 20_000, 0.99
FACTS = (
    "logits have shape (batch, 12, 20) and are finite",
    "a sequence gets the same answer alone and in a batch",
    f"accuracy on new sequences is above {THRESHOLD}",
    "the skill sits in the parameters",
    "which token is said where is learned",
)


def sequences(seed: int) -> torch.Tensor:
    return torch.randint(VOCAB, (83, LENGTH), generator=seeded(seed))


def judge(model, given, seed: int):
    """Shape, independence of the batch, accuracy, and whether other parameters know nothing."""
    tokens, generator = given.clone(), seeded(seed, "parameters")
    logits = model(tokens.clone())
    yield trained.answered(logits, (*tokens.shape, VOCAB), model)
    yield trained.independent(model, given, logits)
    said, backwards = logits.argmax(-1), tokens.flip(1)
    yield trained.share(said, backwards) > THRESHOLD or described(model, tokens, logits)
    yield trained.skill(
        model, tokens, generator,
        knows=lambda x: trained.share(x.argmax(-1), backwards) > 0.5,
        moved=lambda x: trained.share(x.argmax(-1), said) < 0.9, by=1e-3,
    )  # fmt: skip
    others, to = (tokens + 7) % VOCAB, torch.arange(LENGTH).flip(0)
    yield trained.order_learned(model, tokens, others, to, generator)


def described(model, tokens, logits) -> str:
    """What the wrong answers look like."""
    said, backwards = logits.argmax(-1), tokens.flip(1)
    looks = {
        "it copies the sequence as it is; the target is tokens.flip(1)": tokens,
        "it reverses the alphabet (19 - token), not the order": VOCAB - 1 - tokens,
        "it sorts the tokens; the target is tokens.flip(1)": tokens.sort(dim=1).values,
    }
    if words := said_instead(said, backwards, looks, lambda x, y: trained.share(x, y) > 0.9):
        return words
    of = (said[:, :, None] == tokens[:, None]).double().mean(0)  # which place is said at each?
    if of.amax(1).min() > 0.9 and of.argmax(1).tolist() != list(range(LENGTH))[::-1]:
        return f"it says the tokens in another order, from the places {of.argmax(1).tolist()}"
    right, places = said == backwards, torch.arange(LENGTH).expand_as(tokens)
    few, asks = tokens[:16], torch.eye(LENGTH).flip(0)
    told = (
        trained.cannot(model, lambda: trained.unread(model, few, (few + 7) % VOCAB, asks))
        or trained.never_right(right, backwards, "tokens")
        or trained.never_right(right, places, "positions")
    )
    known = right.double().mean()
    reached = "not there yet" if known > 0.2 else trained.sure(logits, backwards)
    return f"{told or reached}: {known:.2f}"


class OwnAttention(nn.Module):
    """One head of einsum with its own parameters, set by hand."""

    def __init__(self):
        super().__init__()
        asks = 50 * torch.eye(LENGTH).flip(0), torch.eye(LENGTH), torch.eye(VOCAB)
        self.ask, self.answer, self.say = map(nn.Parameter, asks)

    def forward(self, tokens):
        weights = torch.softmax(torch.einsum("nd,md->nm", self.ask, self.answer), dim=-1)
        return torch.log(torch.einsum("nm,bmv->bnv", weights, self.say[tokens]) + 1e-9)


EXERCISE = Exercise(
    name="train_reversal",
    answer="model",
    judge=trained.judged(judge, FACTS, MAX_PARAMETERS, sequences, "tokens"),
    right=OwnAttention(),
    explain=(meaning_of_facts(),),
    asks_for="model",
)
