"""Exercise cross_attention_mask: which words of the source are words at all?"""

from functools import partial

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.noticing import Noticing
from attncourse.grading.observe import Case


def definition(source, n, pad):
    """visible(b, 0, i, j) = source(b, j) is not pad."""
    return torch.tensor([[[[t != pad for t in row] for _ in range(n)]] for row in source.tolist()])


CALLS = (  # what is special, samples, m, n, pad, where the padding stands
    ("3 sources of 7, 4 words written", 3, 7, 4, 0, "right"),
    ("padding in front", 2, 5, 3, 0, "left"),
    ("padding is token 9, and 0 is a word", 4, 6, 2, 9, "right"),
    ("padding in the middle", 2, 6, 5, 3, "middle"),
    ("as many samples as words, read and written", 5, 5, 5, 0, "right"),
    ("one word written", 2, 4, 1, 0, "right"),
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
        source = torch.where(source == pad, source + 1, source)
        source[0, m // 2] = 0 if pad else source[0, m // 2]
        for row, kept in zip(source, range(1, samples + 1), strict=True):
            kept = min(kept, m - 1)
            gap = {
                "right": slice(kept, None),
                "left": slice(0, m - kept),
                "middle": slice(kept, kept + 1),
            }
            row[gap.get(where, slice(0))] = pad
        found.append(Case(f"{what}, pad {pad}", (source, n, pad), gradients=False))
    return found


def mask(
    source, n, pad, real=lambda source, pad: source != pad, shape=None, finish=lambda mask: mask
):
    """A right answer; a mistake has other real words, another shape or another end."""
    shape = shape or (lambda real, n: real[:, None, None].expand(-1, 1, n, -1))
    return finish(shape(real(source, pad), n))


def look(case, expected, seen):
    """The first word that is shown or hidden and should not be."""
    source, _, pad = case.args
    if seen.dtype != torch.bool:
        return ""
    b, _, i, j = (expected != seen).nonzero()[0].tolist()
    shown, is_word = ("shown", "a word") if source[b, j] != pad else ("hidden", "padding")
    return (
        f"In the first call that is wrong, sample {b} is {source[b].tolist()} and pad is {pad}: for written word {i}, "
        f"token {j} must be {shown}, because it is {is_word}."
    )


def front(source, pad):
    """Everything after the first padding is hidden."""
    return (source == pad).cumsum(1) == 0


def counted(source, pad):
    """As many words as there are, from the left."""
    return torch.arange(source.size(1)) < (source != pad).sum(1, keepdim=True)


ACCEPTED = Accepted(expanded=mask, definition=definition)


@ACCEPTED.add
def repeated(source, n, pad):
    return torch.ne(source, pad).view(len(source), 1, 1, -1).repeat(1, 1, n, 1)


@ACCEPTED.add
def einsum_of_ones(source, n, pad):
    return torch.einsum("i,bj->bij", torch.ones(n), (source != pad).float()).bool().unsqueeze(1)


@ACCEPTED.add
def row_after_row(source, n, pad):
    found = torch.zeros(source.size(0), 1, n, source.size(1), dtype=torch.bool)
    for b, words in enumerate(source):
        found[b, 0, :, words.eq(pad).logical_not()] = True
    return found


def causal(visible):
    return visible & torch.ones(visible.shape[-2:], dtype=torch.bool).tril()


MISTAKES = Mistakes(Mistake(says, partial(mask, **steps)) for says, steps in (
    ("True marks the padding here; it must mark the words, which may be read.",
     {"real": lambda source, pad: source == pad}),
    ("A causal mask is put in; all of the source is known before the first word is written.", {"finish": causal}),
    ("The padding is always taken to be 0; it is the token pad, and 0 may be a word.",
     {"real": lambda source, pad: source != 0}),
    ("Every token up to pad is hidden; only pad itself is padding.", {"real": lambda source, pad: source > pad}),
    ("Everything after the first padding is hidden; padding can stand in front, too.", {"real": front}),
    ("The words are counted and the mask starts at the left; padding can stand in front, too.", {"real": counted}),
    ("Only tokens below pad are shown; every token but pad is a word.", {"real": lambda source, pad: source < pad}),
    ("Padding at the end is hidden, but not that in front of a word.",
     {"real": lambda source, pad: (source != pad).flip(1).cumsum(1).flip(1) > 0}),
    ("Padding in front is hidden, but not that behind a word.", {"real": lambda source, pad: (source != pad).cumsum(1) > 0}),
    ("A word is shown where any sample has one; each sample has its own mask.",
     {"real": lambda source, pad: (source != pad).any(0).expand(source.shape)}),
    ("All samples get the mask of the first one.",
     {"real": lambda source, pad: (source != pad)[:1].expand(source.shape)}),
    ("A word is hidden where any sample has padding; each sample has its own mask.",
     {"real": lambda source, pad: (source != pad).all(0).expand(source.shape)}),
    ("Nothing is hidden.", {"real": lambda source, pad: torch.ones_like(source, dtype=torch.bool)}),
    ("The shape is (b, n, m); without an axis for the heads it is read as one mask per head.",
     {"shape": lambda real, n: real[:, None].expand(-1, n, -1)}),
    ("The shape is (b, m); it needs axes for the heads and for the words that are written.",
     {"shape": lambda real, n: real}),
    ("The shape is (b, 1, 1, m); that broadcasts, but here each written word has its row.",
     {"shape": lambda real, n: real[:, None, None]}),
    ("Rows and columns are exchanged: rows are the words that are written, columns those that are read.",
     {"shape": lambda real, n: real[:, None, :, None].expand(-1, 1, -1, n)}),
    ("The samples stand on the axis of the heads; the shape is (b, 1, n, m).",
     {"shape": lambda real, n: real[None, :, None].expand(1, -1, n, -1)}),
    ("The mask is square, with m rows; it has a row for each of the n words that are written.",
     {"shape": lambda real, n: real[:, None, None].expand(-1, 1, real.size(1), -1)}),
    ("The rows of padded words are empty, too; whoever writes may always read the words of the source.",
     {"shape": lambda real, n: (real[:, :, None] & real[:, None])[:, None, [0] * n]}),
    ("The mask holds ones and zeros; its dtype must be torch.bool.", {"finish": torch.Tensor.long}),
    ("The mask holds ones and zeros as floats, which would be added to the scores; return booleans.",
     {"finish": torch.Tensor.float}),
    ("Zeros and minus infinities are a mask to be added; return booleans.",
     {"finish": lambda mask: torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)}),
))  # fmt: skip

EXERCISE = Exercise(
    name="cross_attention_mask",
    judge=Noticing(definition, cases, gradients=False, look=look),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
