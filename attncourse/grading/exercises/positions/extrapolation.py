"""Exercise extrapolation: how much weight goes to keys further than any in training?"""

import torch

from attncourse.grading.exercise import Exercise, Mistake, Number

KEYS, SEEN, SLOPE = 256, 32, 1 / 8


def shares(last=SEEN - 1, far=SEEN, first=0, slope=SLOPE):
    """Of the last query, for a bias that stops falling at ``last``, and for one that goes on."""
    distance = torch.arange(first, KEYS).double()
    found = []
    for biased in (distance.clamp(max=last), distance):
        weights = torch.softmax(-slope * biased, dim=0)
        found.append(weights[distance >= far].sum().item())
    return tuple(found)


def too_large(asked):
    """Which of the two shares are too large, and which too small."""
    seen, right = (x["the number"].value for x in (asked.seen, asked.expected))
    says = []
    for k, (x, y) in enumerate(zip(seen.tolist(), right.tolist(), strict=True)):
        near = abs(x - y) < 5e-3
        how = (
            "close, but not right to four decimals"
            if near
            else f"too {'large' if x > y else 'small'}"
        )
        says += [f"number {k + 1} is {how}"] * (abs(x - y) > 0.5001e-4)
    return f"{'; '.join(says).capitalize()}."


RIGHT = shares()

EXERCISE = Exercise(
    name="extrapolation",
    answer="far_shares",
    judge=Number(shares, decimals=4),
    right=RIGHT,
    asks_for="number",
    explain=(too_large,),
    ideas=[Mistake(says, numbers) for says, numbers in (
        ("The two are exchanged: first the bias that stops falling, then the one that goes on.",
         RIGHT[::-1]),
        ("These are the shares of the near keys, up to distance 31; the far ones are asked.",
         [1 - x for x in RIGHT]),
        ("Distance 31 is counted as far; training reached it.", shares(far=SEEN - 1)),
        ("Distance 32 is not counted as far; training ended at 31.", shares(far=SEEN + 1)),
        ("The bias stops falling at 32; the last distance of the training is 31.", shares(SEEN)),
        ("The bias is added, so far keys are preferred; it is subtracted.", shares(slope=-SLOPE)),
    )],
)  # fmt: skip
