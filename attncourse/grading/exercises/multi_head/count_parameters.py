"""Exercise count_parameters: how many numbers does a layer with 16 heads learn?"""

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

EMBED_DIM, NUM_HEADS = 512, 16
HEAD_DIM = EMBED_DIM // NUM_HEADS


def count() -> int:
    """Head by head: three matrices with biases of its own; then one output matrix for all."""
    total = 0
    for _ in range(NUM_HEADS):
        for _ in ("query", "key", "value"):
            total += EMBED_DIM * HEAD_DIM + HEAD_DIM
    return total + EMBED_DIM * EMBED_DIM + EMBED_DIM


ACCEPTED = Accepted(
    whole_number=1_050_624,
    as_a_float=4 * 512.0**2 + 4 * 512,
    as_a_tensor=torch.tensor(1_050_624),
    counted=sum([4 * EMBED_DIM * EMBED_DIM, 4 * EMBED_DIM]),
)

MISTAKES = Mistakes()
for says, number in (
    ("It is multiplied by the 16 heads; together the heads share one width of 512.", 16 * 1_050_624),
    ("The biases are forgotten: four more vectors of 512.", 4 * 512**2),
    ("The output projection is forgotten.", 3 * 512**2 + 3 * 512),
    ("The output projection and the biases are forgotten.", 3 * 512**2),
    (
        "Every head gets a full-width projection; a head's matrices are only 32 numbers wide.",
        16 * 3 * (512**2 + 512) + 16 * 512 * 512 + 512,
    ),
    ("The output projection works on all heads; here it is as wide as one head.",
     3 * (512**2 + 512) + 32 * 512 + 512),
    ("Only the output projection has its bias here; query, key and value have one each.",
     4 * 512**2 + 512),
    ("The output projection has a bias, too.", 4 * 512**2 + 3 * 512),
    ("This is one head only; there are 16, and an output projection.", 3 * (512 * 32 + 32)),
    ("Only one of the four projections is counted.", 512**2 + 512),
    ("The matrices are 32 by 32 here; each reads all 512 numbers of the input.",
     16 * 3 * (32 * 32 + 32) + 512**2 + 512),
    ("This is twice the number; the four projections are counted twice.", 2 * 1_050_624),
):  # fmt: skip
    MISTAKES.add(says)(number)


EXERCISE = Exercise(
    name="count_parameters",
    answer="parameters",
    title="Count the parameters",
    kind="Predict",
    points=1,
    difficulty=1,
    minutes=5,
    needs="section 'What it costs' of chapter 3",
    judge=Number(count, rtol=1e-9),
    hints=(
        "A linear layer from a numbers to b numbers has a * b weights and b biases.",
        "Head h projects 512 numbers to 512 / 16 = 32. All 16 heads together project 512 to 512.",
        "Four linear layers from 512 to 512, each with its bias.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
