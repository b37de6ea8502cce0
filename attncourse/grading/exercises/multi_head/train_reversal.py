"""Exercise train_reversal: a trained model that says sequences backwards, judged on new ones."""

from functools import partial

import torch
from torch import nn

from attncourse.grading import trained
from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.explain.trainings import in_place, meaning_of_facts, said_instead

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
    ("change places", "What a place says does not depend on the order of the other tokens, so it "
     "cannot find the one that it needs. Where, in front of attention, do tokens get their "
     "places?"),
    ("does not depend on the token", "These answers do not depend on the tokens that they should "
     "name, for other parameters neither: is there attention over all places, and does a mask or a "
     "window hide some?"),
    ("its own place", "With random parameters, a token still changes nothing but its own place in "
     "the answer: the order is in forward, as a flip or an index. Attention should learn it."),
)  # fmt: skip


def facts(model, seed: int) -> dict:
    """What the model does on sequences that it has not seen."""
    tokens = torch.randint(VOCAB, (83, LENGTH), generator=seeded(seed))
    rest = partial(judge, generator=seeded(seed, "parameters"))
    return trained.facts_of(model, NAMES, MAX_PARAMETERS, tokens, rest)


def judge(model, tokens, generator):
    """Shape, accuracy, independence of the batch, and whether other parameters know nothing."""
    given, tokens = tokens, tokens.clone()
    logits = model(tokens.clone())
    yield (shape := trained.answered(logits, (*tokens.shape, VOCAB), model))
    if shape is not True:
        return
    said, backwards = logits.argmax(-1), tokens.flip(1)
    known = trained.share(said, backwards) > THRESHOLD
    same = lambda x, y: trained.share(x.argmax(-1), y.argmax(-1)) > THRESHOLD  # noqa: E731
    alone = trained.looked(trained.independent, model, given, logits, same)
    unsteady = OTHERS if alone == "no" else alone if "twice" in str(alone) else ""
    yield known or unsteady or described(model, tokens, logits)
    yield alone
    skilled = trained.skill(
        model, tokens, generator,
        knows=lambda x: trained.share(x.argmax(-1), backwards) > 0.5,
        moved=lambda x: trained.share(x.argmax(-1), said) < 0.9, by=1e-3,
    )  # fmt: skip
    if skilled is True:
        others, to = (tokens + 7) % VOCAB, lambda k: LENGTH - 1 - k
        skilled = trained.mixes(model, tokens, others, to, generator)
    yield skilled


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
    right, places = (said == backwards).double(), torch.arange(LENGTH).expand_as(tokens)
    told = trained.cannot(model, lambda: _unread(model, tokens[:16]))
    for what, number in ("tokens", backwards), ("positions", places):
        shares = torch.stack([right[number == k].mean() for k in number.unique()])
        if 0 < (shares < 0.2).sum() < len(shares) and shares[shares >= 0.2].min() > 0.9:
            never = (shares < 0.2).nonzero().flatten().tolist()
            told = told or f"some {what} are never right: {never}"
    reached = "not there yet" if right.mean() > 0.2 else trained.sure(logits, backwards)
    return f"{told or reached}: {right.mean():.2f}"


def _unread(model, tokens) -> str:
    """Which tokens, or what of their order, make no difference where they should; '' if none."""
    moved = trained.moved_by(model, tokens, (tokens + 7) % VOCAB).amax(-1).flip(0).diagonal()
    if hidden := (moved < 1e-6).nonzero().flatten().tolist():
        where = f"at the places {hidden}" if len(hidden) < LENGTH else "at every place"
        return f"the answer {where} does not depend on the token that belongs there"
    others = [0, *range(LENGTH - 1, 0, -1)]  # place 0 keeps its token
    same = trained.near(model(tokens[:, others])[:, 0], model(tokens.clone())[:, 0])
    return "the answer at place 0 is the same when the other tokens change places" * same


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
