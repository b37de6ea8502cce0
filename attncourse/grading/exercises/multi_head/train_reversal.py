"""Exercise train_reversal: a trained model that says sequences backwards, judged on new ones."""

from functools import partial

import torch
from torch import nn

from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.explain.trainings import in_place, meaning_of_facts, said_instead
from attncourse.grading.trained import facts_of, independent, mixes, share, skill

VOCAB, LENGTH, MAX_PARAMETERS, THRESHOLD = 20, 12, 20_000, 0.99
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MAX_PARAMETERS} numbers",
    "logits have shape (batch, 12, 20) and are finite",
    f"accuracy on new sequences is above {THRESHOLD}",
    "a sequence gets the same answer alone and in a batch",
    "the skill sits in the parameters",
    "tokens left unchanged",
)
OTHERS = "it depends on the other sequences"
MEANINGS = (
    (OTHERS, "What it says of a sequence depends on the others in its batch: is the batch read as "
     "the sequence? nn.MultiheadAttention asks for batch_first=True."),
    ("than guess", "It does little more than guess on new sequences. Is it trained, with a new "
     "batch in every step and tokens.flip(1) as the target? Guessing has a loss of log(20)."),
    ("its own place", "With random parameters, a token still changes nothing but its own place in "
     "the answer: the order is in forward, as a flip or an index. Attention should learn it."),
)  # fmt: skip


def facts(model, seed: int) -> dict:
    """What the model does on sequences that it has not seen."""
    tokens = torch.randint(VOCAB, (83, LENGTH), generator=seeded(seed))
    rest = partial(judge, generator=seeded(seed, "parameters"))
    return facts_of(model, NAMES, MAX_PARAMETERS, tokens, rest)


def judge(model, tokens, generator) -> tuple:
    """Shape, accuracy, independence of the batch, and whether other parameters know nothing."""
    given, tokens = tokens, tokens.clone()
    logits = model(tokens.clone())
    shape = tuple(getattr(logits, "shape", ()))
    if shape != (*tokens.shape, VOCAB):
        return (f"a {type(logits).__name__} of shape {shape}",)
    said, backwards = logits.argmax(-1), tokens.flip(1)
    known = share(said, backwards) > THRESHOLD
    alone = independent(model, given, logits,
                        lambda x, y: share(x.argmax(-1), y.argmax(-1)) > THRESHOLD)  # fmt: skip
    unsteady = "" if alone is True else alone if "twice" in alone else OTHERS
    skilled = skill(model, tokens, generator,
                    knows=lambda x: share(x.argmax(-1), backwards) > 0.5,
                    moved=lambda x: share(x.argmax(-1), said) < 0.9, by=1e-3)  # fmt: skip
    if skilled is True:
        skilled = mixes(model, tokens, (tokens + 7) % VOCAB, lambda k: LENGTH - 1 - k, generator)
    finite = bool(logits.isfinite().all()) or "some are not finite"
    return finite, known or unsteady or described(tokens, said), alone, skilled


def described(tokens, said) -> str:
    """What the wrong answers look like."""
    backwards, places = tokens.flip(1), torch.arange(LENGTH).expand_as(tokens)
    looks = {
        "it copies the sequence as it is; the target is tokens.flip(1)": tokens,
        "it reverses the alphabet (19 - token), not the order": VOCAB - 1 - tokens,
        "it sorts the tokens; the target is tokens.flip(1)": tokens.sort(dim=1).values,
    }
    if words := said_instead(said, backwards, looks, lambda x, y: share(x, y) > 0.9):
        return words
    of = (said[:, :, None] == tokens[:, None]).double().mean(0)  # which place is said at each?
    if of.amax(1).min() > 0.9 and of.argmax(1).tolist() != list(range(LENGTH))[::-1]:
        return f"it says the tokens in another order, from the places {of.argmax(1).tolist()}"
    right = (said == backwards).double()
    for what, number in ("tokens", backwards), ("positions", places):
        shares = torch.stack([right[number == k].mean() for k in number.unique()])
        if 0 < (shares < 0.2).sum() < len(shares) and shares[shares >= 0.2].min() > 0.9:
            return f"some {what} are never right: {(shares < 0.2).nonzero().flatten().tolist()}"
    guesses = "not there yet" if right.mean() > 0.2 else "it does little more than guess"
    return f"{guesses}: {right.mean():.2f}"


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
    judge=Facts(facts, NAMES),
    right=OwnAttention(),
    explain=(in_place, meaning_of_facts(*MEANINGS)),
    asks_for="model",
    measures=("parameters", "training"),
)
