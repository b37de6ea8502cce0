"""Exercise who_reads_whom: the key/value head of each query head."""

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Asked, Exercise, Number
from attncourse.grading.explain.counts import Made, common

NUM_HEADS, NUM_KV_HEADS = 12, 4
HEADS, EACH = range(NUM_HEADS), NUM_HEADS // NUM_KV_HEADS
MADE = [Made(exact=h / EACH) for h in HEADS]


def readers() -> list[int]:
    """Deal out the query heads, group after group."""
    return [g for g in range(NUM_KV_HEADS) for _ in range(EACH)]


def reading(asked: Asked) -> str:
    """The first thing that is wrong with a list of KV heads."""
    found = asked.seen["the number"]
    if not isinstance(found, Close):
        return "A list of 12 whole numbers is asked: the KV head that each query head reads."
    heads = found.value.flatten().tolist()
    if found.value.dim() != 1 or len(heads) != NUM_HEADS:
        return "Asked is the KV head of each query head: 12 numbers, in one list."
    if strange := [h for h in heads if h not in range(NUM_KV_HEADS)]:
        return f"The 4 KV heads are 0, 1, 2 and 3; {strange[0]:g} is none of them."
    if unread := [str(g) for g in range(NUM_KV_HEADS) if g not in heads]:
        return (
            f"No query head reads KV head {' or '.join(unread)} here; each of the 4 has 3 readers."
        )
    if uneven := [g for g in range(NUM_KV_HEADS) if heads.count(g) != EACH]:
        count = heads.count(uneven[0])
        return f"KV head {uneven[0]} has {count} of the readers here; each of the 4 has 3."
    if heads != [heads[h // EACH * EACH] for h in HEADS]:
        return "Each KV head has its 3 readers, but these are not neighbours."
    return (
        "Neighbours share a KV head, but the groups are not in the order of the KV heads: query "
        "head 0 reads KV head 0."
    )


EXERCISE = Exercise(
    name="who_reads_whom",
    answer="key_heads",
    judge=Number(readers, rtol=1e-9),
    right=readers(),
    explain=(lambda asked: common(asked, *MADE) + reading(asked),),
    asks_for="number",
)
