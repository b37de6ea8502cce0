"""Exercise receptive_field: how far a stack of windows hears, and how many keys it keeps."""

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, seeded
from attncourse.grading.explain.probes import simpler


def definition(windows, position):
    """Layer by layer, from the output down: the earliest position heard of, and the keys kept."""
    first, kept = position, 0
    for window in windows:
        start = 0 if window is None else max(0, position + 1 - window)
        kept += len(range(start, position + 1))
        first = 0 if window is None else max(0, first + 1 - window)
    return first, kept


def cases(seed: int) -> list[Case]:
    g = seeded(seed)

    def draw(low, high, *size):
        return torch.randint(low, high, size, generator=g).tolist()

    mixed = draw(2, 40, 6)
    calls = {
        "32 layers of 4096, position 200,000": ([4096] * 32, 200_000),
        "4 layers of 8, position 20: earlier than all of it": ([8] * 4, 20),
        "4 layers of 8, position 28: just so": ([8] * 4, 28),
        "3 different windows, position 50": ([5, 2, 9], 50),
        "five local layers for a full one, position 9,000": ([1024] * 5 + [None], 9_000),
        "a full layer between, position 700": ([64, None, 16], 700),
        "windows of 1, position 12": ([1, 1, 1], 12),
        "position 0": ([7, 3], 0),
        "windows of 3 and 5, position 7: one is out of reach": ([3, 5], 7),
        "windows of 5 and 3, position 4: the first just reaches 0": ([5, 3], 4),
        "a full layer below a window, position 2,000,003": ([None, 12], 2_000_003),
        "windows drawn at random": (mixed, sum(mixed) + draw(5, 30, 1)[0]),
        "windows drawn at random, near the start": (draw(9, 30, 3), draw(10, 60, 1)[0]),
    }
    return [Case(what, args, gradients=False) for what, args in calls.items()]


def right(windows, position):
    reaches = [position if window is None else window - 1 for window in windows]
    kept = [min(position, reach) + 1 for reach in reaches]
    return max(0, position - sum(reaches)), sum(kept)


QUESTIONS = (
    ("Windows [None], position 5: the layer reads and keeps all tokens up to here", ([None], 5)),
    ("Windows [4], position 1: the window is not full yet", ([4], 1)),
    ("Windows [4], position 9: the token itself is one of the window", ([4], 9)),
)
FIRST = (
    ("Windows [3, 5], position 9: what is read has read others in the layer below", ([3, 5], 9)),
    (
        "Windows [5, 5], position 20: each layer hears 4 tokens farther back and keeps 5",
        ([5, 5], 20),
    ),
    ("Windows [5, 5], position 6: no token stands in front of token 0", ([5, 5], 6)),
    ("Windows [None, 3], position 9: what is read has heard of all", ([None, 3], 9)),
    ("Windows [3, None, 3], position 9: one full layer is enough", ([3, None, 3], 9)),
)
KEPT = tuple(
    (f"Windows {windows}, position 9: each layer keeps for itself what is read in it", (windows, 9))
    for windows in ([3, 5], [None, 3], [3, None, 3])
)

EXERCISE = Exercise(
    name="receptive_field",
    answer="heard_and_kept",
    judge=Counts(definition, cases),
    right=right,
    results=("first", "kept"),
    explain=(simpler(*QUESTIONS), simpler(*FIRST, result=0), simpler(*KEPT, result=1)),
)
