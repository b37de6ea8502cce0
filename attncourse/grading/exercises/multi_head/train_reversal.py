"""Exercise train_reversal: a trained model that says sequences backwards, judged on new ones."""

from functools import partial

import torch
from torch import nn

from attncourse.grading.compare import Described
from attncourse.grading.exercise import Exercise, Facts
from attncourse.grading.explain.trainings import in_place, meaning_of_facts, said_instead
from attncourse.grading.inputs import seeded
from attncourse.grading.trained import drawn_like, facts_of, share, skill, with_parameters

VOCAB, LENGTH, MAX_PARAMETERS, THRESHOLD = 20, 12, 20_000, 0.99
SHUFFLED = 5, 0, 7, 2, 11, 4, 9, 1, 3, 10, 6, 8  # by no rule that a model could follow by chance
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MAX_PARAMETERS} numbers",
    "logits have shape (batch, 12, 20) and are finite",
    f"accuracy on new sequences is above {THRESHOLD}",
    "a sequence gets the same answer alone and in a batch",
    "the skill sits in the parameters",
    "tokens left unchanged",
)
MEANINGS = (
    ("function", "This is a function; wrap it in a torch.nn.Module with parameters."),
    ("(83, 12)", "It returns tokens; return logits of shape (batch, 12, 20)."),
    ("(83, 20)", "Only one position is answered; return logits for all 12."),
    ("(83, 240)", "Positions and vocabulary are flattened; return (batch, 12, 20)."),
    ("a tuple", "Logits and weights come out together; return the logits alone."),
    ("20, 12)", "The logits are (batch, vocabulary, position), as for cross_entropy; return "
     "(batch, 12, 20)."),
    ("forwards", "It copies the sequence as it is; the target is tokens.flip(1)."),
    ("one place", "The target was moved by one place: compare with tokens.flip(1) as it is."),
    ("alphabet", "It reverses the alphabet (19 - token), not the order."),
    ("sorted", "It sorts the tokens; the target is tokens.flip(1)."),
    ("it says the same", "It says one thing everywhere. Is the loss NaN, or do the logits ignore "
     "the input?"),
    ("other sequences", "What it says of a sequence depends on the others in its batch: is the "
     "batch read as the sequence? nn.MultiheadAttention asks for batch_first=True."),
    ("does not know the positions", "It knows no positions: without embeddings of them attention "
     "sees no order."),
    ("in another order", "It says the tokens in a fixed order, but not backwards: the target is "
     "tokens.flip(1)."),
    ("some tokens", "Some tokens are never said, all others are right. Do the logits reach all 20, "
     "and were all drawn in the training?"),
    ("second half", "A causal mask hides the end, where the answer starts."),
    ("some positions", "Some positions are never right, the others always: does a slice or an "
     "index leave them out?"),
    ("than guess", "It does little more than guess on new sequences. Is it trained, with a new "
     "batch in every step and tokens.flip(1) as the target? Guessing has a loss of log(20)."),
    ("not there yet", "It is right in many places, but not in enough: train longer, or with "
     "another learning rate."),
    ("its own place", "With random parameters, a token still changes nothing but its own place in "
     "the answer: the order is in forward, as a flip, an index or a fixed matrix. Attention should "
     "learn it."),
)  # fmt: skip


OTHERS = "it depends on the other sequences of the batch"


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
    said = logits.argmax(dim=-1)
    alone = torch.cat([model(tokens[k : k + 1].clone()) for k in range(3)]).argmax(dim=-1)
    again = share(model(given).argmax(dim=-1), said) > THRESHOLD  # here it may change them
    alike = share(alone, said[:3]) > THRESHOLD
    known = partial(share, tokens.flip(1))
    unsteady = "" if again and alike else OTHERS if again else "asked twice, it answers differently"
    told = known(said) > THRESHOLD or described(model, tokens, logits, unsteady)
    skilled = skill(  # changes the parameters
        model,
        tokens,
        generator,
        knows=lambda x: known(x.argmax(-1)) > 0.5,
        moved=lambda x: share(x.argmax(-1), said) < 0.9,
        by=1e-3,
    )
    return (
        bool(logits.isfinite().all()) or "some are not finite",
        told,
        alike or ("no" if again else "no; asked twice, it answers differently"),
        order(model, tokens, generator) if skilled is True else skilled,
    )


def order(model, tokens, generator):
    """True where the order is learned: with other parameters, a token moves more than its place."""
    drawn, every = drawn_like(model, generator), range(len(tokens))
    place, replaced = torch.arange(len(tokens)) % LENGTH, tokens.clone()
    replaced[every, place] = (tokens[every, place] + 7) % VOCAB
    mixes = moves = False
    for factor in (1, -1):
        others = [factor * p for p in drawn]
        before, after = (with_parameters(model, others, x) for x in (tokens, replaced))
        moved = (after - before).nan_to_num(0.0, 0.0, 0.0).abs().amax(-1)
        kinds = (after.isfinite() != before.isfinite()).any(-1)  # may become NaN, too
        most, moves = moved.max(), moves or bool(moved.any() or kinds.any())
        for x in (moved, kinds):
            x[every, LENGTH - 1 - place] = 0
        mixes |= bool(moved.max() > 0.01 * most or kinds.any())
    if not moves:
        return "with parameters drawn at random, no token changes anything"
    return mixes or "with parameters drawn at random, a token changes its own place only"


def described(model, tokens, logits, unsteady) -> Described:
    """What the wrong answers look like."""
    said, backwards = logits.argmax(dim=-1), tokens.flip(1)
    right = said == backwards
    places = right.double().mean(0)
    looks = {
        "it says the sequence forwards": tokens,
        "it is backwards in the alphabet, not in time": VOCAB - 1 - tokens,
        "it says the tokens sorted": tokens.sort(dim=1).values,
        "it says the tokens sorted, the largest first": tokens.sort(dim=1, descending=True).values,
    }
    mixed = list(SHUFFLED)
    same = torch.allclose(model(tokens[:, mixed]), logits[:, mixed], 1e-4, 1e-5)
    if same and said.unique().numel() > 1:
        looks["it does not know the positions"] = said[:, :1].expand_as(said)
    words = unsteady or said_instead(said, backwards, looks, lambda x, y: share(x, y) > 0.9)
    of = (said[:, :, None] == tokens[:, None]).double().mean(0)  # which place is said at each?
    ordered = of.amax(1).min() > 0.9 and of.argmax(1).tolist() != list(range(LENGTH))[::-1]
    if not words and ordered:
        return Described(f"it says the tokens in another order: at {of.argmax(1).tolist()}")
    never = [t for t in range(VOCAB) if right[backwards == t].double().mean() < 0.1]
    others = right[~torch.isin(backwards, torch.tensor(never, device=said.device))]
    if not words and 0 < len(never) < VOCAB / 2 and others.all():
        return Described(f"all is right but some tokens, which it never says: {never}")
    first, second = places.view(2, -1).mean(1)
    if not words and second > 0.9 > 0.5 > first:
        words = "only the second half is right"
    wrong = (places < 0.5).nonzero().flatten().tolist()
    rest = [x for k, x in enumerate(places.tolist()) if k not in wrong]
    if not words and wrong and rest and min(rest) > 0.9:
        return Described(f"most is right, but some positions never are: {wrong}")
    less = "it does little more than guess" if places.mean() < 0.2 else "it is not there yet"
    return Described(f"{words or less}: accuracy {places.mean().item():.2f}")


class OwnAttention(nn.Module):
    """One head of einsum with its own parameters, set by hand."""

    def __init__(self):
        super().__init__()
        self.ask = nn.Parameter(50 * torch.eye(LENGTH).flip(0))
        self.answer = nn.Parameter(torch.eye(LENGTH))
        self.say = nn.Parameter(torch.eye(VOCAB))

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
