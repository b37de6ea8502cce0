"""Exercise cross_attention_mask: which words of the source are words at all?"""

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, seeded


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
        for row, number in zip(source, range(1, samples + 1), strict=True):
            kept = min(number, m - 1)
            row[{
                "right": slice(kept, None),
                "left": slice(0, m - kept),
                "middle": slice(kept, kept + 1),
            }.get(where, slice(0))] = pad  # fmt: skip
        found.append(Case(f"{what}, pad {pad}", (source, n, pad), gradients=False))
    return found


WORDS = "the words of the sources"


@Dataflow
def right(source, n, pad):
    words = yield WORDS, source != pad
    return words[:, None, None].expand(-1, 1, n, -1)


def wrong_word(asked):
    """The first word that is shown or hidden and should not be."""
    for call in asked.shaped:
        source, _, pad = call.case.args
        if call.seen.dtype != torch.bool or len(asked.shaped) < len(asked.wrong):
            return ""
        b, _, i, j = (call.expected != call.seen).nonzero()[0].tolist()
        shown, is_word = ("shown", "a word") if source[b, j] != pad else ("hidden", "padding")
        return (
            f"In the call '{call.label}' sample {b} is {source[b].tolist()}: for written word {i}, "
            f"token {j} must be {shown}, because it is {is_word}."
        )
    return ""


EXERCISE = Exercise(
    name="cross_attention_mask",
    judge=Calls(definition, cases, gradients=False),
    right=right,
    axes=("b h n m",),
    explain=(wrong_word,),
    ideas=[
        Mistake("A causal mask is put in; all of the source is known before a word is written.",
                lambda *given: right(*given).tril()),
        Mistake("Padding is taken to be 0; it is the token pad, and 0 may be a word.",
                lambda source, n, pad: right(source, n, 0)),
    ],
)  # fmt: skip
