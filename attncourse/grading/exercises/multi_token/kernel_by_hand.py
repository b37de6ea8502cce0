"""Exercise kernel_by_hand: four kernels that know what to look for, without any training."""

import torch

from attncourse.grading.exercise import Exercise, Facts, Mistake
from attncourse.grading.kernel_reads import FACTS, facts, looks_for

FOUR = (  # of each head: queries back, keys behind the key that is read, how much
    ((1, -1, 1.0), (0, 0, 1.0)),
    ((1, 0, 1.0), (0, 1, 1.0)),
    ((1, -1, 1.0), (0, 1, 1.0)),
    ((1, -1, -1.0), (0, 0, 1.0)),
)


def right(c_q, c_k):
    kernels = torch.zeros(len(FOUR), c_q, c_k)
    for head, asks in enumerate(FOUR):
        for back, behind, much in asks:
            kernels[head, c_q - 1 - back, c_k // 2 + behind] += much
    return kernels


EXERCISE = Exercise(
    name="kernel_by_hand",
    answer="four_kernels",
    judge=Facts(facts, FACTS),
    right=right,
    explain=(looks_for,),
    ideas=[
        Mistake("The rows stand the wrong way round: the last row belongs to the last query, which "
                "asks for B, and the row above to the one before it.",
                lambda c_q, c_k: right(c_q, c_k).flip(1)),
        Mistake("The columns stand the wrong way round: to the right of the middle stand the keys "
                "behind.", lambda c_q, c_k: right(c_q, c_k).flip(2)),
    ],
)  # fmt: skip
