"""Exercise causal_decoder: the test that finds the decoder which reads its own future."""

import random
from functools import partial

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, Mistake, seeded
from attncourse.grading.explain.places import calls_by
from attncourse.grading.explain.probes import simpler
from attncourse.grading.leaky import decoder


def cases(seed: int) -> list[Case]:
    """Decoders with an input each; how far each reads ahead is drawn, and so is their order."""
    g, rng, n = seeded(seed), random.Random(seed), 7 + seed % 3
    far = rng.randrange(3, n - 2)
    a, b, c, d = (torch.eye(6).double()[k] for k in rng.sample(range(6), 4))

    def raw(read, to):
        return {"pairs": [(0, far)], "normed": False, "of": lambda x: read(x)[..., None] * to}

    made = {
        "causal": {},
        "causal, without a norm": {"normed": False},
        "no mask": {"pairs": [(i, j) for i in range(n) for j in range(i + 1, n)]},
        "one word ahead": {"pairs": [(i, i + 1) for i in range(n - 1)]},
        "one position reads far ahead": {"pairs": [(1, 1 + far)]},
        "two leaks, the nearer one first": {"pairs": [(0, 2), (n - 1 - far, n - 1)]},
        "two leaks, the farther one first": {"pairs": [(0, far), (n - 2, n - 1)]},
        "a leak in the last sample only": {"pairs": [(1, 3)], "sample": -1},
        "a leak in the first sample only": {"pairs": [(2, 4)], "sample": 0},
        "a leak from one feature to another": raw(lambda x: x @ a, b),
        "a leak that adds to one feature what it takes from another": raw(lambda x: x @ a, c - d),
        "a leak of the sum over a word": raw(lambda x: x.sum(-1), c),
        "a leak of the square of a feature": raw(lambda x: (x @ d) ** 2, a),
        "a faint leak": {"pairs": [(n - 3, n - 1)], "faint": 1e-4},
        "a leak without a norm": {"pairs": [(2, 5)], "normed": False},
        "1 sample": {"samples": 1, "pairs": [(1, 3)]},
        "more words": {"samples": 2, "words": n + 4, "pairs": [(0, n + 3)]},
        "2 words": {"words": 2, "pairs": [(0, 1)]},
        "1 word": {"words": 1},
    }
    found = []
    for label, special in made.items():
        samples, words = special.pop("samples", 3), special.pop("words", n)
        said, memory = (torch.randn(samples, k, 6, generator=g).double() for k in (words, 5))
        if "sample" in special:
            special["sample"] = memory[special["sample"]]
        found.append(Case(label, (decoder(g, words, **special), said, memory), gradients=False))
    rng.shuffle(found)
    return found


def right(decoder, said, memory, change=torch.randn_like):
    """The largest j - i such that the output at i moves when word j is changed."""
    before, ahead = decoder(said, memory), 0
    for j in range(1, said.size(1)):
        other = said.clone()
        other[:, j] = change(said[:, j])
        moved = (decoder(other, memory) - before).abs().amax((0, 2))
        ahead = max([ahead, *(j - i for i in range(j) if moved[i] > 1e-8)])
    return ahead


def only(says: str, *pairs: tuple[int, int]):
    """A question on six words, of which so many are read ahead and nothing is rounded."""
    g = seeded(0)
    said, memory = (torch.randn(2, n, 6, generator=g).double() for n in (6, 5))
    args = decoder(g, 6, pairs, normed=False, rounds=0.0), said, memory
    return f"Of six words {says}{', and no other word is read ahead' * bool(pairs)}", args


EXERCISE = Exercise(
    name="causal_decoder",
    answer="reads_ahead",
    judge=Counts(right, cases),
    right=right,
    explain=(
        simpler(
            only("no word is read ahead"),
            only("position 1 reads word 3", (1, 3)),
            only("position 4 reads word 5, the last one", (4, 5)),
            only("position 0 reads word 1, and position 2 word 5", (0, 1), (2, 5)),
            only("position 0 reads word 3, and position 4 word 5", (0, 3), (4, 5)),
        ),
        calls_by(
            ("No leak is found in", lambda right, x: x == 0),
            ("Too little is found in", lambda right, x: 0 < x < right),
            ("Too much is found, where outputs also move by rounding, 1e-9 or less, in",
             lambda right, x: x > right),
        ),
    ),
    ideas=[
        Mistake("Where a word is changed by one number for all features, added or multiplied, a "
                "norm takes it out again, and most leaks stay hidden. Use random numbers.",
                partial(right, change=lambda word: word + 1)),
    ],
)  # fmt: skip
