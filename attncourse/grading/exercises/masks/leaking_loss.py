"""Exercise leaking_loss: how far below the honest floor does a leak take the loss?"""

import math
from fractions import Fraction

import numpy as np
import torch

from attncourse.grading.exercise import Exercise, Mistake
from attncourse.grading.exercises.dot_product._told import Told

VOCAB, LENGTH = 50, 16


def loss_of_a_perfect_cheater() -> float:
    """Position i is to name token i + 1 and may read tokens 0..i + 1, if they are there."""
    readable = [range(min(i + 1, LENGTH - 1) + 1) for i in range(LENGTH)]
    chances = [1.0 if i + 1 in readable[i] else 1 / VOCAB for i in range(LENGTH)]
    return sum(-math.log(chance) for chance in chances) / LENGTH


def guesses(loss: float) -> str:
    """What a mean loss would mean for the sum over the positions."""
    cost = math.log(VOCAB)
    return (
        f"A mean of {loss:.4g} over {LENGTH} positions is a sum of {loss * LENGTH:.4g}, as much as "
        f"{loss * LENGTH / cost:.3g} guesses among {VOCAB} tokens cost. How many positions must guess?"
    )


ACCEPTED = {
    "float": 0.2445,
    "formula": math.log(50) / 16,
    "numpy": np.log(np.float64(50)) / 16,
    "tensor": torch.tensor(50.0).log() / 16,
    "fraction": Fraction(2445, 10000),
    "list_of_losses": sum([0.0] * 15 + [math.log(50)]) / 16,
}

MISTAKES = [Mistake(says, number) for says, number in (
    ("That is the honest floor, log(50); a leak goes below it.", math.log(50)),
    ("Not quite 0: one position has no next token to read. Which one?", 0),
    ("That is the loss if one position could cheat; all but one can.", math.log(50) * 15 / 16),
    ("That is the sum over the sequence; the loss is the mean over its 16 positions.", 15 * math.log(50)),
    ("There are 16 positions in the mean, the last one included, not 15.", math.log(50) / 15),
    ("That is in bits; the loss of torch is in nats (natural logarithm).", math.log2(50) / 16),
    ("That is in base 10; the loss of torch is in nats (natural logarithm).", math.log10(50) / 16),
    ("That is the chance of a right guess, not a loss.", 1 / 50),
    ("That is the share of positions that must guess; weigh it with their loss.", 1 / 16),
    ("That is the accuracy's complement; a loss is the mean of -log(probability).", 49 / 50 / 16),
    ("The mean is over 16 positions.", math.log(50) / 17),
    ("16 is the length; the vocabulary has 50.", math.log(16) / 16),
    ("Three decimals, please.", 0.24),
    ("That is cut off after three decimals; round it.", 0.244),
    ("That swaps vocabulary and length.", math.log(16) / 50),
    ("The sign is turned: a loss is the mean of -log(probability).", -math.log(50) / 16),
    ("That is the perplexity, exp(loss).", 50 ** (1 / 16)),
    ("Two positions cannot cheat here; only the last one cannot.", math.log(50) * 2 / 16),
    ("That is the mean chance of the right token; a loss is the mean of -log(probability).", (15 + 1 / 50) / 16),
    ("That is the logarithm of the mean chance; a loss is the mean of the logarithms.", -math.log((15 + 1 / 50) / 16)),
    ("That is shared by 50; the mean is over 16 positions.", math.log(50) / 50),
)]  # fmt: skip

EXERCISE = Exercise(
    name="leaking_loss",
    judge=Told(loss_of_a_perfect_cheater, rtol=2.045e-3, tells=guesses),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
