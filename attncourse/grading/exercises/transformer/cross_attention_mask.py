"""Exercise cross_attention_mask: which words of the source are words at all?"""

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded


def definition(source, n, pad):
    """visible(b, 0, i, j) = source(b, j) is not pad."""
    return torch.tensor([[[[t != pad for t in row] for _ in range(n)]] for row in source.tolist()])


CALLS = (  # what is special, samples, m, n, pad, where the padding stands
    ("3 sources of 7, 4 words written", 3, 7, 4, 0, "right"),
    ("padding in front", 2, 5, 3, 0, "left"),
    ("padding is token 9, and 0 is a word", 4, 6, 2, 9, "right"),
    ("padding in the middle", 2, 6, 5, 3, "middle"),
    ("as many samples as words, read and written", 5, 5, 5, 0, "right"),
    ("no padding at all, 1 sample", 1, 3, 4, 0, "nowhere"),
    ("more words written than read", 2, 3, 8, 0, "left"),
    ("padding is a large token, among smaller and larger ones", 3, 6, 2, 50256, "right"),
    ("padding is -1, and 0 and 1 are words", 3, 6, 4, -1, "left"),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, samples, m, n, pad, where in CALLS:
        source = 10 + torch.randint(90 if pad < 90 else 2 * pad, (samples, m), generator=g)
        if pad:
            source[:, ::2] %= 13  # small numbers are words, too
        source[:, -1] = 1
        source[source == pad] += 1
        if pad:
            source[0, m // 2], source[1:, 1] = 0, pad + 1
        for row, number in zip(source, range(1, samples + 1), strict=True):
            kept = min(number, m - 1)
            end = {"right": m, "left": m - kept, "middle": kept + 1, "nowhere": 0}[where]
            row[0 if where == "left" else kept : end] = pad
        found.append(Case(f"{what}, pad {pad}", (source, n, pad), gradients=False))
    return found


@Dataflow
def right(source, n, pad):
    words = yield "the words of the sources", source != pad
    return words[:, None, None].expand(-1, 1, n, -1)


EXERCISE = Exercise(
    name="cross_attention_mask",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("b h n m",),
)
