"""Exercise trained: the decoder learns Python's manual, judged on passages that are held out."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.exercise import Exercise
from attncourse.grading.exercises.capstone import _text as text
from attncourse.grading.exercises.capstone._looks import MIXED, causal, influence, shape_of
from attncourse.grading.exercises.capstone._net import Decoder, close, logits_of
from attncourse.grading.exercises.capstone._text import CHARACTERS, loss, of_pairs
from attncourse.grading.explain.trainings import meaning_of_facts
from attncourse.grading.trained import skill, times_as_slow, up_to_wrong

BELOW, SLOWER = 0.3, 10
FACTS = (
    f"logits have shape (b, n, vocab), where vocab is {CHARACTERS}, and are finite",
    "no position reads a later character",
    f"on held-out passages its loss is {BELOW} or more below that of the table of pairs",
    "characters farther back than 8 matter",
    f"it reads at least a {SLOWER}th of the characters a second of a reference",
    "the skill sits in the parameters",
)


@up_to_wrong
def judge(model, given, targets, generator) -> Iterator[Any]:
    """What the model does on held-out passages, up to a wrong fact."""
    tokens, few = given.clone(), given[:16].clone()
    logits = logits_of(model(given))  # here it may change them
    yield shape_of(logits, tokens, CHARACTERS)
    moves = influence(model, tokens[:1, :24], CHARACTERS)
    reads = causal(moves, lambda: moves)
    apart = reads is True or close(logits_of(model(tokens[:1].clone())), logits[:1])
    yield reads if apart else MIXED
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
    looks = (
        (own < min(found, best) / 2, "it says the character just read, and should say the next"),
        (loss(logits[:, 1:], tokens[:, :-1]) < found - 0.5, "it says what stood one place before"),
        (found > 4, "it is hardly better than a guess; was this model trained?"),
        (abs(like - own) < 0.1 and found > best - 0.05,
         "it knows no more than which character follows which; does attention read the past?"),
        (True, "it is not there yet"),
    )  # fmt: skip
    numbers = f"{found:.2f} nats a character, the table has {best:.2f} on these passages"
    return f"{numbers}; {next(words for fits, words in looks if fits)}"


EXERCISE = Exercise(
    name="trained",
    judge=text.judged(judge, FACTS, 32),
    right=text.Table(),
    explain=(meaning_of_facts(),),
    asks_for="model",
    measures=("parameters", "training"),
)
