"""Exercise trained: the decoder learns Python's manual, judged on passages that are held out."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.exercise import Exercise, seeded
from attncourse.grading.exercises.capstone import _text as text
from attncourse.grading.exercises.capstone._looks import MIXED, causal, influence, shape_of
from attncourse.grading.exercises.capstone._net import Decoder, close, logits_of
from attncourse.grading.exercises.capstone._text import CHARACTERS, loss, of_pairs
from attncourse.grading.explain.trainings import meaning_of_facts
from attncourse.grading.trained import judged, skill, sure, times_as_slow

BELOW, AHEAD, SLOWER, GUESS = 0.3, 0.25, 10, math.log(CHARACTERS)
KNOWN = "what was held out is not known better than the text to learn from"
FACTS = (
    f"logits have shape (b, n, vocab), where vocab is {CHARACTERS}, and are finite",
    "one passage alone gets logits of the same shape",
    "no position reads a later character",
    f"on held-out passages its loss is {BELOW} or more below that of the table of pairs",
    KNOWN,
    "characters farther back than 8 matter",
    f"it reads at least a {SLOWER}th of the characters a second of a reference",
    "the skill sits in the parameters",
)
PLACES = "at that place", "1 before", "2 before", "3 before"
MEANINGS = (
    ("never occur", "Are the characters numbered in another way than by their codes, from 0 to "
     "127? Or has training hardly begun?"),
    (KNOWN, "It knows what was held out better than what it should have learned from: were "
     "passages of held_out used in the training? Draw all of them from text."),
)  # fmt: skip


def judge(model, given, seed: int) -> Iterator[Any]:
    """What the model does on held-out passages."""
    tokens, few, targets = given.clone(), given[:16].clone(), text.passages(seed)[:, 1:]
    logits = logits_of(model(given))  # here it may change them
    yield shape_of(logits, tokens, CHARACTERS, model)
    one = logits_of(model(tokens[-1:].clone()))
    yield shape_of(one, tokens[-1:], CHARACTERS, model)
    moves = influence(model, tokens[:1, :24], CHARACTERS)
    reads = causal(moves, lambda: moves)
    yield reads if reads is True or close(one, logits[-1:]) else MIXED
    found, best = loss(logits, targets), of_pairs(tokens, targets)
    yield found < best - BELOW or described(logits, tokens, targets, moves)
    seen = text.passages(seed, len(tokens), learned=True)
    own = loss(logits_of(model(seen[:, :-1].clone())), seen[:, 1:])
    leads = best - found, of_pairs(seen[:, :-1], seen[:, 1:]) - own
    yield leads[0] < leads[1] + AHEAD or (
        f"it is {leads[0]:.2f} nats below the table on what was held out, and {leads[1]:.2f} on "
        f"passages of text; at most {AHEAD} more are allowed"
    )
    yield bool((moves[:15, -1] > 1e-4).any())
    with torch.random.fork_rng(devices=()):
        reference = Decoder(CHARACTERS, 64, 4, 2, text.WINDOW).eval()
    ratio = times_as_slow(model, reference, few)
    yield ratio < SLOWER or f"it takes {ratio:.0f} times as long as the reference"

    def knows(said):
        said = logits_of(said).nan_to_num(0.0, 0.0, 0.0)
        return loss(said, targets[:16]) < of_pairs(few, targets[:16])

    yield skill(model, few, seeded(seed, "parameters"), knows, moved=lambda said: False, by=0.0)


def described(logits: Tensor, tokens: Tensor, targets: Tensor, moves: Tensor) -> str:
    """What the loss says."""
    found, best = loss(logits, targets), of_pairs(tokens, targets)
    own, like = loss(logits, tokens), of_pairs(tokens, tokens)
    never = text.manual()[0].bincount(minlength=CHARACTERS) == 0
    strange = logits.detach().softmax(-1)[..., never.to(logits.device)].sum(-1).mean().item()
    unread = [where for d, where in enumerate(PLACES) if (moves.diagonal(d)[4:] < 1e-4).all()]
    looks = (
        (own < min(found, best) / 2, "it says the character just read, and should say the next"),
        (loss(logits[:, :-1], targets[:, 1:]) < min(found, best) - 0.1,
         "it says the character after the next one, and should say the next"),
        (strange > 0.4, f"it gives {strange:.0%} of its probability to codes that never occur in "
         "the text"),
        (found > GUESS - 0.4, sure(logits.cpu(), targets)),
        (abs(like - own) < 0.1 and found > best - 0.05,
         "it knows no more than which character follows which; does attention read the past?"),
        (unread, "what it says at a place does not depend on the character "
         + " or ".join(unread)),
        (True, "it is not there yet"),
    )  # fmt: skip
    numbers = f"{found:.2f} nats a character, the table has {best:.2f} on these passages"
    return f"{numbers}; {next(words for fits, words in looks if fits)}"


EXERCISE = Exercise(
    name="trained",
    judge=judged(judge, FACTS, text.MOST, text.characters, "characters"),
    right=text.Table(),
    explain=(meaning_of_facts(*MEANINGS),),
    asks_for="model",
)
