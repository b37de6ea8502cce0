"""Exercise causal_decoder: the test that finds the decoder which reads its own future."""

import random

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, Mistake, seeded
from attncourse.grading.explain.counts import calls_by
from attncourse.grading.leaky import decoder


def cases(seed: int) -> list[Case]:
    """Decoders with an input each; how far each reads ahead is drawn, and so is their order."""
    g, rng, n = seeded(seed), random.Random(seed), 7 + seed % 3
    far = rng.randrange(3, n - 2)
    a, b, c, d = (torch.eye(6).double()[k] for k in rng.sample(range(6), 4))

    def raw(read, to):
        return 3, n, {"pairs": [(0, far)], "normed": False, "of": lambda x: read(x)[..., None] * to}

    made = {  # number of samples, of words
        "causal": (3, n, {}),
        "causal, without a norm": (3, n, {"normed": False}),
        "causal, not rounded": (3, n, {"rounds": 0.0}),
        "no mask": (3, n, {"pairs": [(i, j) for i in range(n) for j in range(i + 1, n)]}),
        "one word ahead": (3, n, {"pairs": [(i, i + 1) for i in range(n - 1)]}),
        "one position reads far ahead": (3, n, {"pairs": [(1, 1 + far)]}),
        "two leaks, the nearer one first": (3, n, {"pairs": [(0, 2), (n - 1 - far, n - 1)]}),
        "two leaks, the farther one first": (3, n, {"pairs": [(0, far), (n - 2, n - 1)]}),
        "a leak in the last sample only": (3, n, {"pairs": [(1, 3)], "sample": -1}),
        "a leak in the first sample only": (3, n, {"pairs": [(2, 4)], "sample": 0}),
        "a leak from one feature to another": raw(lambda x: x @ a, b),
        "a leak from another feature": raw(lambda x: x @ b, a),
        "a leak that adds to one feature what it takes from another": raw(lambda x: x @ a, c - d),
        "a leak of the sum over a word": raw(lambda x: x.sum(-1), c),
        "a leak of the square of a feature": raw(lambda x: (x @ d) ** 2, a),
        "a faint leak": (3, n, {"pairs": [(n - 3, n - 1)], "faint": 1e-4}),
        "a leak without a norm": (3, n, {"pairs": [(2, 5)], "normed": False}),
        "1 sample": (1, n, {"pairs": [(1, 3)]}),
        "more words": (2, n + 4, {"pairs": [(0, n + 3)]}),
        "2 words": (3, 2, {"pairs": [(0, 1)]}),
        "1 word": (3, 1, {}),
    }  # fmt: skip
    found = []
    for label, (samples, words, special) in made.items():
        said, memory = (torch.randn(samples, k, 6, generator=g).double() for k in (words, 5))
        if "sample" in special:
            special = special | {"sample": memory[special["sample"]]}
        found.append(Case(label, (decoder(g, words, **special), said, memory), gradients=False))
    rng.shuffle(found)
    return found


def leaks(decoder, said, memory, change=torch.randn_like, moved=torch.abs, tol=1e-8):
    """All (i, j), i < j, such that the output at i moves when word j is changed."""
    before, found = decoder(said, memory), []
    for j in range(1, said.size(1)):
        other = said.clone()
        other[:, j] = change(said[:, j])
        far = moved(decoder(other, memory) - before).amax((0, 2))
        found += [(i, j) for i in range(j) if far[i] > tol]
    return found


def right(decoder, said, memory):
    return max((j - i for i, j in leaks(decoder, said, memory)), default=0)


def farthest(**changed):
    return lambda *given: max((j - i for i, j in leaks(*given, **changed)), default=0)


EXERCISE = Exercise(
    name="causal_decoder",
    answer="reads_ahead",
    judge=Counts(right, cases),
    right=right,
    explain=(
        calls_by(
            ("No leak is found in", lambda right, x: x == 0),
            ("Too little is found in", lambda right, x: 0 < x < right),
            ("Too much is found in", lambda right, x: x > right),
        ),
    ),
    ideas=[
        *(Mistake("All features of a word grow by one number, or by one factor; a norm takes both "
                  "out again, so most leaks stay hidden. Use random numbers.", farthest(change=f))
          for f in (lambda word: word + 1, lambda word: 2 * word)),
        Mistake("It is n - 1 for every decoder, as if each read everything. Is the memory changed, "
                "too? Every output may read that.", lambda decoder, said, memory: said.size(1) - 1),
        Mistake("The tolerance is so small that rounding counts as a leak; outputs that nobody "
                "touched differ by up to 1e-9.", farthest(tol=0.0)),
    ],
)  # fmt: skip
