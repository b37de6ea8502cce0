"""Exercise trained: the decoder learns Python's manual, judged on passages that are held out."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.exercises.capstone import _text as text
from attncourse.grading.exercises.capstone._looks import causal, influence, shape_of
from attncourse.grading.exercises.capstone._net import Decoder, close, logits_of
from attncourse.grading.exercises.capstone._text import CHARACTERS, loss, of_pairs
from attncourse.grading.explain.trainings import meaning_of_facts
from attncourse.grading.trained import facts_of, skill, times_as_slow, up_to_wrong

MAX_PARAMETERS, BELOW, SLOWER = 400_000, 0.3, 10
CAUSAL, FAR = "no position reads a later character", "characters farther back than 8 matter"
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MAX_PARAMETERS:,} numbers",
    f"logits have shape (b, n, vocab), where vocab is {CHARACTERS}, and are finite",
    CAUSAL,
    f"on held-out passages its loss is {BELOW} or more below that of the table of pairs",
    FAR,
    f"it reads at least a {SLOWER}th of the characters a second of a reference",
    "the skill sits in the parameters",
    "characters left unchanged",
)


def facts(model, seed: int) -> dict:
    """What the model does on held-out passages."""
    passage, generator = text.passages(seeded(seed), 32), seeded(seed, "parameters")

    def rest(model, tokens):
        return tuple(judge(model, tokens, passage[:, 1:], generator))

    return facts_of(model, NAMES, MAX_PARAMETERS, passage[:, :-1].clone(), rest)


@up_to_wrong
def judge(model, given, targets, generator) -> Iterator[Any]:
    """The facts between the first two and the last; each needs those before it."""
    tokens, few = given.clone(), given[:16].clone()
    logits = logits_of(model(given))  # here it may change them
    yield shape_of(logits, tokens, CHARACTERS)
    moves = influence(model, tokens[:1, :24], CHARACTERS)
    reads = causal(moves, lambda: moves)
    apart = reads is True or close(logits_of(model(tokens[:1].clone())), logits[:1])
    yield reads if apart else "it reads other passages of its batch"
    found, best = loss(logits, targets), of_pairs(tokens, targets)
    yield found < best - BELOW or described(logits, tokens, found, best)
    yield bool((moves[:15, -1] > 1e-4).any())
    with torch.random.fork_rng(devices=()):
        reference = Decoder(CHARACTERS, 64, 4, 2, text.WINDOW).eval()
    ratio = times_as_slow(model, reference, few)
    yield ratio < SLOWER or f"it takes {ratio:.0f} times as long as the reference"

    def knows(said):
        said = logits_of(said).nan_to_num(0.0, 0.0, 0.0)
        return loss(said, targets[:16]) < of_pairs(few, targets[:16])

    yield skill(model, few, generator, knows, moved=lambda said: False, by=0.0)


def described(logits: Tensor, tokens: Tensor, found: float, best: float) -> str:
    """What the loss says."""
    own, like = loss(logits, tokens), of_pairs(tokens, tokens)
    looks = {
        "it says the character that it has just read": own < min(found, best) / 2,
        "it says what stood one place before": loss(logits[:, 1:], tokens[:, :-1]) < found - 0.5,
        "it is hardly better than a guess": found > 4,
        "it knows no more than the table": abs(like - own) < 0.1 and found > best - 0.05,
    }
    words = next((words for words, fits in looks.items() if fits), "it is not there yet")
    numbers = f"{found:.2f} nats a character; on these passages the table has {best:.2f}"
    return f"{words}: {numbers}, and {best - BELOW:.2f} is needed"


MEANINGS = (
    (": function", "This is a function; check the trained torch.nn.Module."),
    ("(b, vocab)", "Only the last position is answered; return logits for every position."),
    ("of its batch", "What it says of a passage depends on the others in its batch: norm and mix "
     "each by itself."),
    (f"{CAUSAL}: ", "It reads the character that it is to say, or later ones: is a mask "
     "missing, or does it not act?"),
    ("just read", "The target was the character itself; it is the next one: text[1:] beside "
     "text[:-1]."),
    ("one place before", "The target was the character before; it is the next one."),
    ("than a guess", "Its loss is that of a guess. Was this model trained, or another one?"),
    ("no more than the table", "It knows no more than which character follows which. "
     "Does attention read the past, and was it trained long enough?"),
    (f"{FAR}: no", "What stands more than 8 characters back changes nothing: does attention "
     "read that far?"),
    ("times as long", "It is far slower than it needs to be: does a loop go over positions or "
     "samples? Read all in one call."),
    ("it still does", "With other numbers in its parameters it still knows the text: what "
     "it knows stands in forward, or where model.parameters() does not see it."),
)  # fmt: skip

EXERCISE = Exercise(
    name="trained",
    judge=Facts(facts, NAMES),
    right=text.Table(),
    explain=(meaning_of_facts(*MEANINGS),),
    asks_for="model",
    measures=("parameters", "training"),
)
