"""Exercise decoder_mask: causal and padding at once, one mask for a batch."""

import torch

from attncourse.grading.dataflow import Dataflow
from attncourse.grading.exercise import Asked, Calls, Case, Exercise, Mistake, plain, seeded


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


def wrong_pair(asked: Asked) -> str:
    """The first pair that is judged wrongly, and why."""
    for call in asked.shaped:
        if plain(call.seen) and call.seen.dtype == torch.bool:
            b, _, i, j = (call.seen != call.expected).nonzero()[0].tolist()
            length = int(call.case.args[0][b])
            who = f"In sample {b}, which has {length} tokens, query {i}"
            if not call.seen[b, 0, i, j]:
                return f"{who} does not read key {j}, and should."
            return f"{who} reads key {j}, which {'comes later' if j > i else 'is padding'}."
    return ""


def changed(change):
    """The right mask, changed."""
    return lambda lengths, n: change(right(lengths, n))


EXERCISE = Exercise(
    name="decoder_mask",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    explain=(wrong_pair,),
    axes=("b h n m",),
    ideas=[
        right.but("The rows of padding queries are empty; only keys are to be hidden.",
                  "the real keys", lambda real: real.mT),
        Mistake("A pair is visible when either rule allows it; both must (and, not or).",
                lambda lengths, n: (torch.arange(n) < lengths[:, None])[:, None, None]
                | (torch.ones(n, n).tril() > 0)),
        Mistake("The shape is (b, n, n); without an axis for heads it is one mask per head.",
                changed(lambda mask: mask[:, 0])),
    ],
)  # fmt: skip
