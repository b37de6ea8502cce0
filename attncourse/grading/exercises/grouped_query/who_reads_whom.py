"""Exercise who_reads_whom: the key head of each query head."""

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistakes, Number

NUM_HEADS, NUM_KV_HEADS = 12, 4


def readers() -> list[int]:
    """Deal out the query heads, group after group."""
    return [g for g in range(NUM_KV_HEADS) for _ in range(NUM_HEADS // NUM_KV_HEADS)]


ACCEPTED = Accepted(
    written_out=[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
    by_division=tuple(h // 3 for h in range(12)),
    as_a_tensor=torch.arange(4).repeat_interleave(3),
    as_floats=[float(h // 3) for h in range(12)],
    by_rounding_down=torch.div(torch.arange(12), 3, rounding_mode="floor").float(),
)

MISTAKES = Mistakes()
for says, number in (
    ("This is the strided order, h % 4; neighbours share a key head: h // 3.",
     [h % 4 for h in range(12)]),
    ("The number of groups and the size of a group are swapped: 12 heads in 4 groups are 3 to a group.",
     [h // 4 for h in range(12)]),
    ("This is h % 3: it deals out three key heads, and strided; there are 4, and neighbours share.",
     [h % 3 for h in range(12)]),
    ("Every query head has its own key head here: that is multi-head attention.", list(range(12))),
    ("All read key head 0: that is multi-query attention; here there are 4 key heads.", [0] * 12),
    ("Heads are counted from 0: this counts the key heads from 1.", [h // 3 + 1 for h in range(12)]),
    ("These are the first query heads of the groups; asked is the key head of each query head.",
     [h // 3 * 3 for h in range(12)]),
    ("These are the query heads that stand first in each group; asked are 12 numbers.", [0, 3, 6, 9]),
    ("These are the sizes of the groups; asked is the key head of each query head.", [3, 3, 3, 3]),
    ("The order is reversed: query head 0 reads key head 0.", [3 - h // 3 for h in range(12)]),
    ("Two query heads share a key head here; 12 heads in 4 groups are 3 to a group.",
     [h // 2 for h in range(12)]),
):  # fmt: skip
    MISTAKES.add(says)(number)


EXERCISE = Exercise(
    name="who_reads_whom",
    answer="key_heads",
    title="Who reads whom",
    kind="Predict",
    points=1,
    difficulty=1,
    minutes=5,
    needs="section 'By hand' of chapter 6",
    judge=Number(readers, rtol=1e-9),
    hints=(
        "How many query heads belong to one group?",
        "12 / 4 = 3, and the groups are contiguous: heads 0, 1 and 2 share key head 0.",
        "[h // 3 for h in range(12)]",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
