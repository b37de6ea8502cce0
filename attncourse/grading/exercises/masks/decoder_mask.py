"""Exercise decoder_mask: causal and padding at once, one mask for a batch."""

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, seeded


def definition(lengths, n):
    """visible(b, 0, i, j) = j <= i and j < lengths(b)."""
    every, lengths = range(n), lengths.tolist()
    return torch.tensor([[[[j <= i and j < x for j in every] for i in every]] for x in lengths])


def cases(seed: int) -> list[Case]:
    """Full and empty samples, as many samples as positions, a batch without a full sample."""
    drawn = torch.randint(1, 7, (5,), generator=seeded(seed)).tolist()
    lengths = ([7, 3, 0], 7), ([4, 9], 11), ([2, 4, 1, 3], 4), ([2], 3), ([260], 262), (drawn, 7)
    return [
        Case(f"lengths {some} in {n} positions", (torch.tensor(some), n), gradients=False)
        for some, n in lengths
    ]


@Dataflow
def right(lengths, n):
    place = torch.arange(n)
    causal = yield "the pairs of the causal rule", place <= place[:, None]
    real = yield "the real keys", (place < lengths[:, None])[:, None, None]
    return (yield "the visible pairs", causal & real)


EXERCISE = Exercise(
    name="decoder_mask",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("b h n m",),
)
