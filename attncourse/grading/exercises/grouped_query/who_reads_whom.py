"""Exercise who_reads_whom: the key/value head of each query head."""

import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes, Number

NUM_HEADS, NUM_KV_HEADS = 12, 4
HEADS = range(NUM_HEADS)


def readers() -> list[int]:
    """Deal out the query heads, group after group."""
    return [g for g in range(NUM_KV_HEADS) for _ in range(NUM_HEADS // NUM_KV_HEADS)]


ACCEPTED = Accepted(
    written_out=[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
    by_division=tuple(h // 3 for h in HEADS),
    as_a_tensor=torch.arange(4).repeat_interleave(3),
    as_floats=[float(h // 3) for h in HEADS],
    by_rounding_down=torch.div(torch.arange(12), 3, rounding_mode="floor").float(),
)

MISTAKES = Mistakes(Mistake(says, number) for says, number in (
    ("This is the strided order, h % 4; neighbours share a KV head: h // 3.", [h % 4 for h in HEADS]),
    ("The number of groups and the size of a group are swapped: 12 heads in 4 groups are 3 to a group.",
     [h // 4 for h in HEADS]),
    ("This is h % 3: it deals out three KV heads, and strided; there are 4, and neighbours share.",
     [h % 3 for h in HEADS]),
    ("Every query head has its own KV head here: that is multi-head attention.", list(HEADS)),
    ("All read KV head 0: that is multi-query attention; here there are 4 KV heads.", [0] * 12),
    ("Heads are counted from 0: this counts the KV heads from 1.", [h // 3 + 1 for h in HEADS]),
    ("This is the strided order, counted from 1. Neighbours share a KV head, and heads are counted from 0.",
     [h % 4 + 1 for h in HEADS]),
    ("These are the first query heads of the groups; asked is the KV head of each query head.",
     [h // 3 * 3 for h in HEADS]),
    ("These are the query heads that stand first in each group; asked are 12 numbers.", [0, 3, 6, 9]),
    ("These are the sizes of the groups; asked is the KV head of each query head.", [3, 3, 3, 3]),
    ("These are the KV heads, each once; asked are 12 numbers, one for each query head.", [0, 1, 2, 3]),
    ("The order is reversed: query head 0 reads KV head 0.", [3 - h // 3 for h in HEADS]),
    ("Two query heads share a KV head here; 12 heads in 4 groups are 3 to a group.", [h // 2 for h in HEADS]),
    ("Six query heads share a KV head here; 12 heads in 4 groups are 3 to a group.", [h // 6 for h in HEADS]),
    ("Query head 0 stands alone here, as if heads were counted from 1; heads 0, 1 and 2 share KV head 0.",
     [(h + 2) // 3 for h in HEADS]),
    ("The first group has one head less than the others, as when h / 3 is rounded to the nearest number; heads 0, "
     "1 and 2 share KV head 0.", [(h + 1) // 3 for h in HEADS]),
    ("h is divided by 3, but not rounded down: h // 3.", [h / 3 for h in HEADS]),
))  # fmt: skip
MISTAKES += [
    Mistake("The groups are apart, in a table; asked is one list of 12 numbers.",
            torch.arange(4).repeat_interleave(3).view(4, 3)),
    Mistake("These are the query heads of each group, in a table; asked is the KV head of each query head.",
            torch.arange(12).view(4, 3)),
]  # fmt: skip


class Readers(Number):
    """Says what a list shows that is known under no name."""

    def notice(self, expected, seen, seed: int) -> str:
        found = seen["the number"]
        if not isinstance(found, Close):
            return "A list of 12 whole numbers is asked: the KV head that each query head reads."
        heads = found.value.flatten().tolist()
        if found.value.dim() != 1 or len(heads) != NUM_HEADS:
            return "There are 12 query heads, so 12 numbers are asked, in one list."
        if strange := [h for h in heads if h not in range(NUM_KV_HEADS)]:
            return f"The 4 KV heads are 0, 1, 2 and 3; {strange[0]:g} is none of them."
        if unread := [str(g) for g in range(NUM_KV_HEADS) if g not in heads]:
            return f"Nobody reads KV head {' or '.join(unread)} here; each of the 4 has 3 readers."
        if uneven := [
            g for g in range(NUM_KV_HEADS) if heads.count(g) != NUM_HEADS // NUM_KV_HEADS
        ]:
            return f"KV head {uneven[0]} has {heads.count(uneven[0])} of the readers here; each of the 4 has 3."
        if heads != [heads[h // 3 * 3] for h in HEADS]:
            return "Each KV head has its 3 readers, but these are not neighbours."
        return "Neighbours share a KV head, but the groups are not in the order of the KV heads: query head 0 reads KV head 0."


EXERCISE = Exercise(
    name="who_reads_whom",
    answer="key_heads",
    judge=Readers(readers, rtol=1e-9),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
