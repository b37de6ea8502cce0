"""Exercise trained: the decoder learns Python's manual, judged on passages that are held out."""

import time
from functools import partial

import torch
from torch import nn

from attncourse.grading.compare import Described
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.capstone._net import Decoder
from attncourse.grading.exercises.capstone._properties import causal, influence, logits_of
from attncourse.grading.exercises.capstone._text import (
    CHARACTERS,
    WINDOW,
    Table,
    loss,
    of_pairs,
    pairs,
    passages,
)
from attncourse.grading.inputs import seeded
from attncourse.grading.trained import drawn_like, facts_of, with_parameters

MAX_PARAMETERS, BELOW, SLOWER = 400_000, 0.3, 10
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MAX_PARAMETERS:,} numbers",
    f"logits have shape (b, n, {CHARACTERS}) and are finite",
    "no position reads a later character",
    "characters farther back than 8 matter",
    f"on held-out passages its loss is {BELOW} or more below that of the table of pairs",
    f"it reads at least a {SLOWER}th of the characters a second of a reference",
    "the skill sits in the parameters",
    "characters left unchanged",
)


def facts(model, seed: int) -> dict:
    """What the model does on held-out passages."""
    passage = passages(seeded(seed), 32)
    rest = partial(judge, passage=passage, generator=seeded(seed, "parameters"))
    return facts_of(model, NAMES, MAX_PARAMETERS, passage[:, :-1].clone(), rest)


def judge(model, tokens, passage, generator) -> tuple:
    """Shape, who reads whom, loss, speed, and whether other parameters know nothing."""
    given, tokens, targets = tokens, tokens.clone(), passage[:, 1:]
    logits = logits_of(model(given))  # here it may change them
    if tuple(getattr(logits, "shape", ())) != (*tokens.shape, CHARACTERS):
        shape = f" of shape {tuple(logits.shape)}" if hasattr(logits, "shape") else ""
        return (f"a {type(logits).__name__}{shape}",)
    moves = influence(lambda x: logits_of(model(x)), tokens[:1, :24], CHARACTERS)
    found, best = loss(logits, targets), of_pairs(passage)
    seen = (
        bool(logits.isfinite().all()) or "some are not finite",
        causal(moves),
        bool((moves[:15, -1] > 1e-4).any()),
        found < best - BELOW or describe(logits, tokens, found, best),
        quick := speed(model, tokens[:16]),
    )
    # who is slow need not wait for the last fact
    return (*seen, skill(model, tokens[:16], targets[:16], generator)) if quick is True else seen


def describe(logits, tokens, found: float, best: float) -> Described:
    """What the loss says."""
    numbers = f"{found:.2f} nats a character; on these passages the table has {best:.2f}, and {best - BELOW:.2f} is needed"
    if loss(logits, tokens) < min(found, best) / 2:
        return Described(f"it says the character that it has just read: {numbers}")
    if loss(logits[:, 1:], tokens[:, :-1]) < found - 0.5:
        return Described(f"it says what stood one place before: {numbers}")
    if found > 4:
        return Described(f"it is hardly better than a guess: {numbers}")
    close = abs(loss(pairs()[tokens], tokens) - loss(logits, tokens)) < 0.1 and found > best - 0.05
    if close:
        return Described(f"it knows no more than the table of pairs: {numbers}")
    return Described(f"it is not there yet: {numbers}")


def speed(model, tokens) -> bool | Described:
    """True where it is no more than ten times as slow as a decoder of two layers, timed in turns."""
    with torch.random.fork_rng(devices=()):
        reference = Decoder(CHARACTERS, 64, 4, 2, WINDOW).eval()
    best = [float("inf")] * 2
    for _ in range(3):
        for k, one in enumerate((reference, model)):
            start = time.perf_counter()
            one(tokens.clone())
            best[k] = min(best[k], time.perf_counter() - start)
    ratio = best[1] / best[0]
    return ratio < SLOWER or Described(f"it is too slow: {ratio:.0f} times the reference's time")


def skill(model, tokens, targets, generator) -> bool | str:
    """True where other parameters know less than the table of pairs."""
    drawn = drawn_like(model, generator)
    best = loss(pairs()[tokens], targets)
    for factor in (0, 1, -1):
        logits = logits_of(with_parameters(model, [factor * p for p in drawn], tokens))
        if loss(logits.nan_to_num(0.0, 0.0, 0.0), targets) < best:
            return f"with all parameters {'drawn at random' if factor else 'set to 0'} it still knows the text"
    return True


class Twice(Table):
    """With a cache of some kind beside the logits."""

    def forward(self, tokens):
        return super().forward(tokens), [tokens]


ACCEPTED = Accepted(
    logits_alone=Table(), logits_and_cache=Twice(), double_precision=Table().double(), recent_counts_more=Table(recent=2.0)
)  # fmt: skip


class Changed(Table):
    """The table, and what is done to its logits."""

    def __init__(self, change, **options):
        super().__init__(**options)
        self.change = change

    def forward(self, tokens):
        return self.change(super().forward(tokens), tokens)


class Pairs(nn.Module):
    """A table of pairs, learned."""

    def __init__(self, table=None, scale=1.0):
        super().__init__()
        self.table = nn.Parameter(scale * (pairs() if table is None else table))

    def forward(self, tokens):
        return self.table[tokens]


class OneByOne(Table):
    """Every character of every sample by itself, with all before it; a table a layer."""

    def forward(self, tokens):
        return torch.stack(
            [torch.stack([self.last(x[None, : k + 1]) for k in range(len(x))]) for x in tokens]
        )

    def last(self, beginning):
        return sum(Table.forward(self, beginning)[0, -1] for _ in range(3)) / 3


class Hidden(Table):
    """The table where parameters() does not see it."""

    def __init__(self):
        super().__init__()
        for name in ("table", "recent"):
            value = getattr(self, name).detach()
            delattr(self, name)
            self.register_buffer(name, value)
        self.scale = nn.Parameter(torch.ones(3))


def next_one(tokens):
    """One-hot of the character that is to be said, where it can be seen."""
    return nn.functional.one_hot(tokens.roll(-1, 1), CHARACTERS).float()


MISTAKES = Mistakes(Mistake(says, model) for says, model in (
    ("This is the class; build a model, train it and check that.", Table),
    ("This is a function; check the trained torch.nn.Module.", next_one),
    ("Its loss is that of a guess. Was this model trained, or another one?", Pairs(0.01 * torch.ones(128, 128))),
    ("The target was the character itself; it is the next one: text[1:] beside text[:-1].",
     Changed(lambda x, t: x + 20 * nn.functional.one_hot(t, CHARACTERS))),
    ("The target was the character before; it is the next one.",
     Changed(lambda x, t: x + 20 * nn.functional.one_hot(t.roll(1, 1).index_fill(1, torch.tensor([0]), 0), CHARACTERS))),
    ("It reads the character that it is to say: a mask is missing.", Changed(lambda x, t: x + 5 * next_one(t))),
    ("It knows only which character follows which. Does attention read the past, and was it trained long enough?", Pairs()),
    ("It has learned something, but not enough: train longer, or with another learning rate.", Table(known=0.3)),
    ("Only the last position is answered; return logits for every position.", Changed(lambda x, t: x[:, -1])),
    ("Some logits are not finite. Has the training diverged?", Changed(lambda x, t: x.masked_fill(t[..., None] == 32, torch.nan))),
    ("It is far slower than it needs to be: read all positions of all samples in one call, without a loop over them.", OneByOne()),
    ("What it knows sits where model.parameters() does not see it.", Hidden()),
    ("The model has more than 400,000 parameters; a smaller one learns faster here.",
     nn.Sequential(Table(), nn.Linear(128, 2048), nn.Linear(2048, 128))),
    ("forward changes the characters of its caller in place.", Changed(lambda x, t: (x, t.zero_())[0])),
))  # fmt: skip

EXERCISE = Exercise(name="trained", judge=Facts(facts, NAMES), accepted=ACCEPTED, mistakes=MISTAKES)
