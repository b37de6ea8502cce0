"""Exercise count_parameters: how many numbers does a layer with 16 heads learn?"""

from dataclasses import dataclass

import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

WIDTH, HEADS = 512, 16
ONE = WIDTH**2 + WIDTH  # one projection


def count() -> int:
    """Head by head: three matrices with biases of its own; then one output matrix for all."""
    head_dim = WIDTH // HEADS
    total = 0
    for _ in range(HEADS):
        for _ in ("query", "key", "value"):
            total += WIDTH * head_dim + head_dim
    return total + WIDTH * WIDTH + WIDTH


@dataclass(frozen=True)
class Matrices(Number):
    """A number that is also told in matrices of 512 x 512 and what is left."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close) or found.value.dim():
            return ""
        count = found.value.item()
        if count < 0 or not count.is_integer():
            return "A layer learns a whole number of numbers, 0 or more."
        whole, left = divmod(int(count), WIDTH**2)
        if not whole:
            return f"This is less than one matrix of 512 x 512 holds, {WIDTH**2:,}; how many such matrices has the layer?"
        return (
            f"This is as many as {whole} matrices of 512 x 512 hold, and {left:,} more. How many such matrices has "
            "the layer, and how many biases?"
        )


ACCEPTED = Accepted(
    whole_number=1_050_624,
    as_a_float=4 * 512.0**2 + 4 * 512,
    as_a_tensor=torch.tensor(1_050_624),
    counted=sum([4 * WIDTH * WIDTH, 4 * WIDTH]),
)

MISTAKES = Mistakes(Mistake(says, number) for says, number in (
    ("It is multiplied by the 16 heads; together the heads share one width of 512.", 16 * 4 * ONE),
    ("This is a sixteenth: one head with its share of all, or the whole divided by the heads. All 16 heads count, and each "
     "has its own rows of the matrices.", 4 * ONE // 16),
    ("The biases are forgotten: four more vectors of 512.", 4 * 512**2),
    ("The output projection is forgotten.", 3 * ONE),
    ("The output projection and the biases are forgotten.", 3 * 512**2),
    ("Every head gets a full-width projection; a head's matrices are only 32 numbers wide.",
     16 * 3 * ONE + 16 * 512 * 512 + 512),
    ("Every head gets full-width queries, keys and values; a head's matrices are only 32 numbers wide.",
     16 * 3 * ONE + ONE),
    ("The output projection works on all heads; here it is as wide as one head.",
     3 * ONE + 32 * 512 + 512),
    ("The output projection works on all heads; here it is as wide as one head, without a bias.",
     3 * ONE + 32 * 512),
    ("Only the output projection has its bias here; query, key and value have one each.",
     4 * 512**2 + 512),
    ("The output projection has a bias, too.", 4 * 512**2 + 3 * 512),
    ("The bias of a head is 32 numbers; it was counted once, not for every head.",
     4 * 512**2 + 3 * 32 + 512),
    ("Every head's bias is counted as 512 wide; it is 32 wide.", 4 * 512**2 + 16 * 3 * 512 + 512),
    ("The biases are single numbers here; there is one for each number that comes out.", 4 * 512**2 + 4),
    ("This is one head only; there are 16, and an output projection.", 3 * (512 * 32 + 32)),
    ("Only one of the four projections is counted.", ONE),
    ("Only one of the four projections is counted, without its bias.", 512**2),
    ("Only two of the four projections are counted.", 2 * ONE),
    ("The matrices are 32 by 32 here; each reads all 512 numbers of the input.",
     16 * 3 * (32 * 32 + 32) + ONE),
    ("This is twice the number; the four projections are counted twice.", 8 * ONE),
    ("There are five projections here; a layer has four.", 5 * ONE),
))  # fmt: skip

EXERCISE = Exercise(
    name="count_parameters",
    answer="parameters",
    judge=Matrices(count, rtol=1e-9),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
