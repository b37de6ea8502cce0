"""Exercise causal_decoder: the test that finds the decoder which reads its own future."""

import random
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Counts, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def decoder(
    pairs, n, generator, faint=1.0, within=None, one=None, normed=True, rounds=4e-10, width=6
):
    """Position i reads 0..i and, for each pair (i, j), also j; then the memory. It takes fewer words, too.

    Args:
        faint: the factor on what the pairs read, and on the words that all positions read in the norm's place.
        within: the sum of the memory of the one sample in which the pairs leak; `None` for all samples.
        one: (function of a word as it is, the vector that is added): the pairs read this instead.
        normed: does it begin with a norm?
        rounds: how far outputs that do not depend on a word are from each other at most, in halves.
    """
    reads = torch.rand(n, n, generator=generator).add(0.2).tril().double()
    leaks = torch.zeros(n, n).double()
    for i, j in pairs:
        leaks[i, j] = faint
    mixed = torch.randn(width, width, generator=generator).double()
    if faint < 1:
        mixed *= 0.1

    def decode(said: Tensor, memory: Tensor) -> Tensor:
        y = layer_norm(said, said.shape[-1:], eps=1e-12) if normed else said
        read, k = torch.tanh(y @ mixed), said.size(1)
        future = leaks[:k, :k] @ (one[0](said)[..., None] * one[1] if one else read)
        if within is not None:
            future = future * (memory.sum((1, 2)) - within).abs().less(1e-9)[:, None, None]
        rounded = rounds * torch.sin(1e5 * said.detach().sum((1, 2), keepdim=True))
        return (
            said + reads[:k, :k] @ read + future + 3 * memory.mean(1, keepdim=True).tanh() + rounded
        )

    return decode


def cases(seed: int) -> list[Case]:
    """Decoders with an input each; how far each reads ahead is drawn, and so is their order."""
    g, rng = seeded(seed), random.Random(seed)
    n = 7 + seed % 3
    far = rng.randrange(3, n - 2)
    every = {(i, j) for i in range(n) for j in range(i + 1, n)}
    a, b, c, d = (torch.eye(6).double()[k] for k in rng.sample(range(6), 4))
    of_one = {"a leak from one feature to another": (a, b), "a leak from another feature": (b, a)}
    raw = {what: (lambda x, r=r: x @ r, w) for what, (r, w) in of_one.items()}
    raw["a leak that adds as much to one feature as it takes from another"] = (
        lambda x: x @ a,
        c - d,
    )
    raw["a leak of the sum over a word"] = (lambda x: x.sum(-1), c)
    raw["a leak of the square of a feature"] = (lambda x: (x @ d) ** 2, a)
    made = {  # pairs, and what else is special; the number of samples, of words
        "causal": ((), {}),
        "causal, without a norm": ((), {"normed": False}),
        "causal, not rounded": ((), {"rounds": 0.0}),
        "no mask": (every, {}),
        "one word ahead": ({(i, i + 1) for i in range(n - 1)}, {}),
        "one position reads far ahead": ({(1, 1 + far)}, {}),
        "two leaks, the nearer one first": ({(0, 2), (n - 1 - far, n - 1)}, {}),
        "two leaks, the farther one first": ({(0, far), (n - 2, n - 1)}, {}),
        "a leak in the last sample only": ({(1, 3)}, {"within": -1}),
        "a leak in the first sample only": ({(2, 4)}, {"within": 0}),
        **{what: ({(0, far)}, {"one": one, "normed": False}) for what, one in raw.items()},
        "a faint leak": ({(n - 3, n - 1)}, {"faint": 1e-4}),
        "a leak without a norm": ({(2, 5)}, {"normed": False}),
        "1 sample": ({(1, 3)}, {}, 1),
        "more words": ({(0, n + 3)}, {}, 2, n + 4),
        "2 words": ({(0, 1)}, {}, 3, 2),
        "1 word": ((), {}, 3, 1),
    }
    found = [Case(label, _asked(g, n, *one), gradients=False) for label, one in made.items()]
    rng.shuffle(found)
    return found


def _asked(generator, n, pairs, special, batch=3, words=0):
    """A decoder, what was said and the memory, of 5 words."""
    n = words or n
    said, memory = (torch.randn(batch, k, 6, generator=generator).double() for k in (n, 5))
    if "within" in special:
        special = special | {"within": memory.sum((1, 2))[special["within"]]}
    return decoder(pairs, n, generator, **special), said, memory


def noise(tail):
    return torch.randn_like(tail)


def one_feature(tail, k):
    """The word with another number in one place."""
    changed = tail.clone()
    changed[:, k] = torch.randn(len(tail)).double()
    return changed


def probe(decoder, said, memory, change=noise, seen=lambda moved: moved.abs().amax((0, 2)), tol=1e-8,
          positions=lambda n: range(1, n), copy=torch.clone, with_memory=lambda memory: memory):  # fmt: skip
    """All pairs (i, j), i < j, such that the output at i moves when word j is changed."""
    before, found = decoder(said, memory), []
    for j in positions(said.size(1)):
        other = copy(said)
        other[:, j] = change(other[:, j])
        moved = seen(decoder(other, with_memory(memory)) - before)
        found += [(i, j) for i in range(j) if moved[i] > tol]
    return found


def farthest(pairs):
    return max((j - i for i, j in pairs), default=0)


def probing(pick=farthest, **steps):
    return lambda decoder, said, memory: pick(probe(decoder, said, memory, **steps))


RIGHT = probing()
ACCEPTED = Accepted(noise_word_by_word=RIGHT)


@ACCEPTED.add
def gradients(decoder, said, memory):
    said, ahead = said.clone().requires_grad_(), 0
    for i, output in enumerate(decoder(said, memory).unbind(1)):
        mixed = (output * torch.randn_like(output)).sum()
        (grad,) = torch.autograd.grad(mixed, said, retain_graph=True)
        read = (grad.abs().amax((0, 2)) > 1e-10).nonzero().flatten()
        ahead = max(ahead, int(read.max()) - i)
    return max(ahead, 0)


@ACCEPTED.add
def longest_distance_first(decoder, said, memory):
    n, before = said.size(1), decoder(said, memory)
    for ahead in range(n - 1, 0, -1):
        for i in range(n - ahead):
            other = said.clone()
            other[:, i + ahead :] = torch.randn_like(other[:, i + ahead :])
            if not torch.allclose(decoder(other, memory)[:, i], before[:, i], rtol=0, atol=1e-8):
                return ahead
    return 0


@ACCEPTED.add
def fewer_words(decoder, said, memory):
    whole = decoder(said, memory)
    return max(
        k - 1 - i
        for k in range(1, said.size(1) + 1)
        for i in range(k)
        if i == k - 1
        or (decoder(said[:, : k - 1], memory) - whole[:, : k - 1])[:, i].abs().max() > 1e-8
    )


@ACCEPTED.add
def sample_by_sample(decoder, said, memory):
    found = torch.zeros(())
    for b in range(len(said)):
        for j in range(said.size(1)):
            other = said.clone()
            other[b, j] += torch.rand_like(other[b, j])
            moved = (decoder(other, memory) != decoder(said, memory)).any(-1)[b]
            far = (decoder(other, memory) - decoder(said, memory)).abs().amax(-1)[b] > 1e-9
            first = (moved & far).int().argmax()
            found = torch.maximum(found, (j - first) * far.any())
    return int(found)


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    *(("The same number is added to all features of a word, or the word is only made larger; a norm takes both out "
       "again, so most leaks stay hidden. Use random numbers.", probing(change=change))
      for change in (lambda tail: tail + 1.0, lambda tail: 2 * tail)),
    ("Only the last word is changed; a leak can read any word.", probing(positions=lambda n: [n - 1])),
    ("Only word 1 is changed; a leak can read any word.", probing(positions=lambda n: [1])),
    ("The last word is never changed.", probing(positions=lambda n: range(1, n - 1))),
    ("Only the next word is looked at; a leak can reach farther.", probing(lambda pairs: farthest(
        pair for pair in pairs if pair[1] == pair[0] + 1))),
    ("That is the first leak that was found; return the largest distance.",
     probing(lambda pairs: next((j - i for i, j in pairs), 0))),
    ("That is the smallest distance; return the largest.", probing(lambda pairs: min((j - i for i, j in pairs), default=0))),
    ("That is the word that is read; return how far it lies ahead, j - i.",
     probing(lambda pairs: max((j for _, j in pairs), default=0))),
    ("That counts the leaks; return the largest distance.", probing(len)),
    ("That says whether there is a leak; return how far it reaches.", probing(bool)),
    ("The distance is one too large: j - i, which is 0 where a word reads itself.",
     probing(lambda pairs: max((j - i + 1 for i, j in pairs), default=0))),
    ("The sign is turned: how far ahead is j - i.", probing(lambda pairs: -farthest(pairs))),
    ("A causal decoder gives -1; return 0, it reads no farther than itself.",
     probing(lambda pairs: max((j - i for i, j in pairs), default=-1))),
    ("A causal decoder gives None; return 0.", probing(lambda pairs: max((j - i for i, j in pairs), default=None))),
    ("Only the first sample is looked at; a leak can be in any other.",
     probing(seen=lambda moved: moved[0].abs().amax(-1))),
    ("Only the last sample is looked at; a leak can be in any other.",
     probing(seen=lambda moved: moved[-1].abs().amax(-1))),
    ("A faint leak goes unnoticed: the tolerance is too large, or the words are changed too little. Outputs that nobody touched "
     "agree to 1e-9.",
     probing(tol=1e-2)),
    ("The difference is not made positive: where an output falls, nothing is noticed. Take abs() first.",
     probing(seen=lambda moved: moved.sum((0, 2)))),
    ("It is n - 1 for every decoder, as if each read everything. Is the memory changed together with the words? Every "
     "output may read that.", probing(with_memory=lambda memory: memory + 1.0)),
    ("It is 0 for every decoder: no leak is found at all.", lambda *_: 0),
    *(("Only one feature of a word is changed; a leak can read any.", probing(change=partial(one_feature, k=k)))
      for k in (0, -1)),
    *(("Only one feature of the outputs is looked at; a leak can reach any.",
       probing(seen=lambda moved, k=k: moved[..., k].abs().amax(0))) for k in (0, -1)),
    ("The features of the outputs are added up, or their mean is taken: what one gains and another loses cancels. Take "
     "abs() first.", probing(seen=lambda moved: moved.sum(-1).abs().amax(0))),
    ("The tolerance is so small that rounding counts as a leak; outputs that nobody touched differ by up to 1e-9.",
     probing(tol=0.0)),
    ("A word is changed into that of another sample; where there is only one sample, nothing changes.",
     probing(change=lambda tail: tail.roll(1, 0))),
    *(("The features of a word only change places. Their sum stays, and a leak may read just that.", probing(change=change))
      for change in (lambda tail: tail.roll(1, -1), lambda tail: tail.flip(-1))),
    ("Only the sign of a word is turned; a leak may read its square. Use random numbers.",
     probing(change=lambda tail: -tail)),
    ("said itself is changed, so later comparisons see it; use said.clone().", probing(copy=lambda said: said)),
))  # fmt: skip

EXERCISE = Exercise(
    name="causal_decoder",
    answer="reads_ahead",
    judge=Counts(RIGHT, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
