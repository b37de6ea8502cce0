"""Exercise leaking_loss: how far below the honest floor does a leak take the loss?"""

import math

from attncourse.grading.exercise import Exercise, Number
from attncourse.grading.explain.counts import Made, predicted

VOCAB, LENGTH = 50, 16


def right() -> float:
    """Position i is to name token i + 1 and may read tokens 0..i + 1, if they are there."""
    readable = [range(min(i + 1, LENGTH - 1) + 1) for i in range(LENGTH)]
    chances = [1.0 if i + 1 in readable[i] else 1 / VOCAB for i in range(LENGTH)]
    return sum(-math.log(chance) for chance in chances) / LENGTH


def guesses(loss: float) -> str:
    """What a mean loss would mean for the sum over the positions."""
    if loss < 0:
        return "A loss is the mean of -log(probability), which is never negative."
    if abs(loss - right()) < 6e-3 and loss == round(loss, 2):
        return "Three decimals are asked, rounded."
    cost = math.log(VOCAB)
    return (
        f"A mean of {loss:.4g} over {LENGTH} positions is a sum of {loss * LENGTH:.4g}, as much as "
        f"{loss * LENGTH / cost:.3g} guesses among {VOCAB} tokens cost. How many positions must "
        "guess?"
    )


ONE = math.log(VOCAB)  # guess
MADE = Made(others={
    "adding the losses up, without a mean": ONE, "letting every position guess": ONE,
    "counting bits, not nats": math.log2(VOCAB) / LENGTH,
    "taking the logarithm of the mean chance": -math.log((LENGTH - 1 + 1 / VOCAB) / LENGTH),
    "letting 2 positions guess": 2 * ONE / LENGTH, "letting all but one guess": 15 * ONE / LENGTH,
    "taking exp of the loss, a perplexity": math.exp(ONE / LENGTH),
    "taking the share of wrong guesses, no logarithm": (1 - 1 / VOCAB) / LENGTH,
    "giving probabilities to cross_entropy, which takes logits":
        ((LENGTH - 1) * (math.log(math.e + VOCAB - 1) - 1) + ONE) / LENGTH,
    **{f"taking the mean over {n} positions": ONE / n for n in (LENGTH - 1, LENGTH + 1)},
    **{f"guessing among {n} tokens": math.log(n) / LENGTH for n in (VOCAB - 1, VOCAB + 1)},
})  # fmt: skip
EXERCISE = Exercise(
    name="leaking_loss",
    judge=Number(right, rtol=2.045e-3),
    right=right(),
    explain=(predicted(guesses, MADE),),
    asks_for="number",
)
