"""Exercise leaking_loss: how far below the honest floor does a leak take the loss?"""

import math
from fractions import Fraction

import numpy as np
import torch

from attncourse.grading.exercise import Exercise, Mistake, Number

VOCAB, LENGTH = 50, 16


def loss_of_a_perfect_cheater() -> float:
    """Position i is to name token i + 1 and may read tokens 0..i + 1, if they are there."""
    total = 0.0
    for i in range(LENGTH):
        readable = range(min(i + 1, LENGTH - 1) + 1)
        probability = 1.0 if i + 1 in readable else 1 / VOCAB
        total -= math.log(probability)
    return total / LENGTH


ACCEPTED = {
    "float": 0.2445,
    "formula": math.log(50) / 16,
    "numpy": np.log(np.float64(50)) / 16,
    "tensor": torch.tensor(50.0).log() / 16,
    "fraction": Fraction(2445, 10000),
    "list_of_losses": sum([0.0] * 15 + [math.log(50)]) / 16,
}

MISTAKES = [
    Mistake("That is the honest floor, log(50); a leak goes below it.", math.log(50)),
    Mistake("Not quite 0: one position has no next token to read. Which one?", 0),
    Mistake(
        "That is the loss if one position could cheat; all but one can.", math.log(50) * 15 / 16
    ),
    Mistake(
        "That is the sum over the sequence; the loss is the mean over its 16 positions.",
        15 * math.log(50),
    ),
    Mistake(
        "There are 16 positions in the mean, the last one included, not 15.", math.log(50) / 15
    ),
    Mistake(
        "That is in bits; the loss of torch is in nats (natural logarithm).", math.log2(50) / 16
    ),
    Mistake(
        "That is in base 10; the loss of torch is in nats (natural logarithm).", math.log10(50) / 16
    ),
    Mistake("That is the chance of a right guess, not a loss.", 1 / 50),
    Mistake("That is the share of positions that must guess; weigh it with their loss.", 1 / 16),
    Mistake(
        "That is the accuracy's complement; a loss is the mean of -log(probability).", 49 / 50 / 16
    ),
    Mistake("The mean is over 16 positions.", math.log(50) / 17),
    Mistake("16 is the length; the vocabulary has 50.", math.log(16) / 16),
    Mistake("Three decimals, please.", 0.24),
    Mistake("That swaps vocabulary and length.", math.log(16) / 50),
]

EXERCISE = Exercise(
    name="leaking_loss",
    answer="leaking_loss",
    title="Too good to be true",
    kind="Predict",
    points=1,
    difficulty=3,
    minutes=10,
    needs="section 'The leak you cannot see in the loss' of chapter 2",
    judge=Number(loss_of_a_perfect_cheater, rtol=3e-3),
    hints=(
        "Go through the positions: which of them finds its own answer among the keys it may read?",
        "All positions but the last read their answer and have loss 0. The last one must guess.",
        "A guess among 50 equally likely tokens costs log(50) nats, shared by 16 positions.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
