"""Exercise receptive_field: how far back a stack of windows hears, and how many keys it keeps for that."""

import torch

from attncourse.grading.exercise import Accepted, Counts, Exercise, Mistakes
from attncourse.grading.exercises.sliding_window._stack import Stack
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(windows, position):
    """Layer by layer, from the output down: the earliest position that is heard of, and the keys that are kept."""
    first, kept = position, 0
    for window in windows:
        readable = (
            range(position + 1)
            if window is None
            else range(max(0, position + 1 - window), position + 1)
        )
        kept += len(readable)
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
        "a full layer below a window, position 300": ([None, 12], 300),
        "windows of 1, position 12": ([1, 1, 1], 12),
        "a window of 1 and one of 6, position 3": ([1, 6], 3),
        "position 0": ([7, 3], 0),
        "one full layer, position 40": ([None], 40),
        "windows drawn at random": (mixed, sum(mixed) + draw(5, 30, 1)[0]),
        "windows drawn at random, near the start": (draw(9, 30, 3), draw(10, 60, 1)[0]),
    }
    return [Case(what, args, gradients=False) for what, args in calls.items()]


RIGHT = Stack()
ACCEPTED = Accepted(sums=RIGHT)


@ACCEPTED.add
def layer_by_layer(windows, position):
    first = position
    for window in reversed(windows):
        first = 0 if window is None else max(first - window + 1, 0)
    kept = 0
    for window in windows:
        kept += position + 1 if window is None or window > position + 1 else window
    return [first, kept]


@ACCEPTED.add
def full_is_infinite(windows, position):
    wide = torch.tensor([float("inf") if w is None else w for w in windows])
    first = (position - (wide - 1).sum()).clamp(min=0)
    return torch.stack([first, wide.clamp(max=position + 1).sum()]).long()


@ACCEPTED.add
def full_is_as_long_as_the_text(windows, position):
    n = position + 1
    w = [n if x is None else min(x, n) for x in windows]
    return n - min(n, sum(w) - len(w) + 1), sum(w)


@ACCEPTED.add
def by_a_table_of_reads(windows, position):
    """Who reads whom, as a boolean row that each layer widens; long texts by the sums."""
    if position > 10_000:
        return layer_by_layer(windows, position)
    heard, at = torch.arange(position + 1) == position, torch.arange(position + 1)
    for window in windows:
        first = int(heard.nonzero()[0])
        heard = at > (-1 if window is None else first - window)
    held = [len(range(position + 1)[-window if window else None :]) for window in windows]
    return int(heard.nonzero()[0]), sum(held)


FIRST, KEPT = "First number: ", "Second number: "
MISTAKES = Mistakes(RIGHT.but(says, **steps) for says, steps in (
    (f"{FIRST}each layer is taken to reach back by its whole window; the token itself is one of them, so it is window - 1.",
     {"reach": lambda w: w}),
    (f"{FIRST}each layer is taken to reach back by window + 1; the token itself is one of the window, so it is window - 1.",
     {"reach": lambda w: w + 1}),
    (f"{FIRST}each layer is taken to reach back by half of its window; these windows lie before the token.",
     {"reach": lambda w: w // 2}),
    (f"{FIRST}the widest layer alone is counted; what it reads has heard of earlier tokens in the layers below, so reaches add up.",
     {"together": max}),
    (f"{FIRST}the narrowest layer alone is counted; reaches add up.", {"together": min}),
    (f"{FIRST}one layer alone is counted; reaches add up.", {"together": lambda far: far[-1]}),
    (f"{FIRST}one layer alone is counted; reaches add up.", {"together": lambda far: far[0]}),
    (f"{FIRST}the lowest layer is left out; it reads the tokens themselves, and reaches, too.",
     {"together": lambda far: sum(far[1:])}),
    (f"{FIRST}the lowest layer is left out; it reads the tokens themselves, and reaches, too.", {"heard": lambda w: w[1:]}),
    (f"{FIRST}the highest layer is left out; it reaches, too.", {"heard": lambda w: w[:-1]}),
    (f"{FIRST}the highest layer is left out; it reaches, too.", {"together": lambda far: sum(far[:-1])}),
    (f"{FIRST}all layers are taken to be as wide as the first one; each has its own window.",
     {"together": lambda far: len(far) * far[0]}),
    (f"{FIRST}all layers are taken to be as wide as the last one; each has its own window.",
     {"together": lambda far: len(far) * far[-1]}),
    (f"{FIRST}all layers are taken to be as wide as the widest one; each has its own window.",
     {"together": lambda far: len(far) * max(far)}),
    (f"{FIRST}reaches are multiplied; they add up, as steps of a walk do.",
     {"together": lambda far: int(torch.tensor(far).double().prod().clamp(max=1e9))}),
    (f"{FIRST}this is the last position that is not heard of; the earliest one that is stands behind it.",
     {"stop": lambda first, position: max(0, first - 1)}),
    (f"{FIRST}one too late; the earliest position is position minus all reaches.",
     {"stop": lambda first, position: max(0, first + 1)}),
    (f"{FIRST}its sign is lost where it would be below 0; the earliest one is number 0.", {"stop": lambda first, position: abs(first)}),
    (f"{FIRST}this is always 0, as if there were full layers alone.", {"full": lambda windows: True}),
    (f"{FIRST}this is the sum of the reaches; the earliest position is that far before this one.",
     {"stop": lambda first, position: position - first}),
    (f"{FIRST}this is the sum of the reaches; the earliest position is that far before this one.",
     {"full": lambda windows: False, "stop": lambda first, position: position - first}),
    (f"{FIRST}this is the position itself; it has read earlier ones.", {"answer": lambda first, kept, position: (position, kept)}),
    (f"{FIRST}positions count from 0, not from 1.", {"everything": 1}),
    (f"{KEPT}this is the number of tokens so far; count what each layer keeps of them.",
     {"answer": lambda first, kept, position: (first, position + 1)}),
    (f"{KEPT}one too many.", {"all_kept": lambda kept: sum(kept) + 1}),
    (f"{KEPT}one too few.", {"all_kept": lambda kept: sum(kept) - 1}),
    (f"{KEPT}a window is taken to be full from the start, and a full layer to keep nothing.", {"keeps": lambda w, position: w or 0}),
    (f"{FIRST}it is below 0, where no token stands; the earliest one is number 0.", {"stop": lambda first, position: first}),
    (f"{FIRST}positions count from 0, not from 1.", {"everything": 1, "stop": lambda first, position: max(1, first)}),
    (f"{FIRST}positions count from 0, not from 1.", {"stop": lambda first, position: max(1, first)}),
    (f"{FIRST}a full layer is left out; it hears of everything up to itself, so the earliest position is 0.",
     {"full": lambda windows: False}),
    (f"{FIRST}a full layer is taken to reach nowhere; it hears of everything up to itself, so the earliest position is 0.",
     {"nowhere": True}),
    (f"{FIRST}where there is a full layer it is below 0, where no token stands; the earliest one is number 0.", {"everything": -1}),
    (f"{FIRST}a full layer decides only where it is the last of the list; wherever it stands, every path may lead through it.",
     {"full": lambda windows: windows[-1] is None}),
    (f"{FIRST}a full layer decides only where it is the first of the list; wherever it stands, every path may lead through it.",
     {"full": lambda windows: windows[0] is None}),
    (f"{FIRST}a full layer decides only where all layers are full; one of them is enough.",
     {"full": lambda windows: all(w is None for w in windows)}),
    (f"{KEPT}a window is taken to be full from the start; no layer keeps more than the position + 1 tokens that there are.",
     {"keeps": lambda w, position: position + 1 if w is None else w}),
    (f"{KEPT}the token itself is not kept here; the next one will read it, so it is.",
     {"keeps": lambda w, position: position if w is None else min(w - 1, position)}),
    (f"{KEPT}the token itself is not counted in the windows; a window is full with it.",
     {"keeps": lambda w, position: position + 1 if w is None else min(w - 1, position + 1)}),
    (f"{KEPT}from 0 to position there are position + 1 tokens.",
     {"keeps": lambda w, position: position if w is None else min(w, position)}),
    (f"{KEPT}a full layer keeps position + 1 tokens, position 0 included.",
     {"keeps": lambda w, position: position if w is None else min(w, position + 1)}),
    (f"{KEPT}a window of w is taken to keep w + 1 tokens; the token itself is one of the w.",
     {"keeps": lambda w, position: position + 1 if w is None else min(w + 1, position + 1)}),
    (f"{KEPT}a window is taken to be full from the start, and a full layer keeps position + 1 tokens.",
     {"keeps": lambda w, position: position if w is None else w}),
    (f"{KEPT}a full layer keeps all tokens up to now; here it keeps none.",
     {"keeps": lambda w, position: 0 if w is None else min(w, position + 1)}),
    (f"{KEPT}every layer keeps everything here; a window forgets what no query will read any more.",
     {"keeps": lambda w, position: position + 1}),
    (f"{KEPT}the lowest layer is left out; it keeps tokens, too.", {"all_kept": lambda kept: sum(kept[1:])}),
    (f"{KEPT}the highest layer is left out; it keeps tokens, too.", {"all_kept": lambda kept: sum(kept[:-1])}),
    (f"{KEPT}this is the largest layer; add up what all of them keep.", {"all_kept": max}),
    (f"{KEPT}this is one layer; add up what all of them keep.", {"all_kept": lambda kept: kept[0]}),
    (f"{KEPT}this is one layer; add up what all of them keep.", {"all_kept": lambda kept: kept[-1]}),
    (f"{KEPT}this is the mean of the layers; add up what all of them keep.", {"all_kept": lambda kept: sum(kept) // len(kept)}),
    (f"{KEPT}keys and values are counted as two; count the tokens.", {"all_kept": lambda kept: 2 * sum(kept)}),
    (f"{KEPT}these are the tokens that are heard of; count those that are kept, layer by layer.",
     {"answer": lambda first, kept, position: (first, position + 1 - first)}),
    (f"{KEPT}it is cut off at position + 1; a token that several layers keep counts several times.",
     {"answer": lambda first, kept, position: (first, min(kept, position + 1))}),
    ("The results are no whole numbers.", {"answer": lambda first, kept, position: (first + 0.5, kept + 0.5)}),
    ("The two stand in the opposite order; return (first, kept).", {"answer": lambda first, kept, position: (kept, first)}),
    ("Only the earliest position is returned; return (first, kept).", {"answer": lambda first, kept, position: first}),
    ("Only the number of tokens kept is returned; return (first, kept).", {"answer": lambda first, kept, position: kept}),
    (f"{FIRST}this is a distance, or a number of tokens; the earliest position is asked.",
     {"answer": lambda first, kept, position: (position - first, kept)}),
    (f"{FIRST}this is a distance, or a number of tokens; the earliest position is asked.",
     {"answer": lambda first, kept, position: (position - first + 1, kept)}),
))  # fmt: skip

EXERCISE = Exercise(
    name="receptive_field",
    answer="heard_and_kept",
    judge=Counts(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
