"""Exercise beta: what does a constant in the scores change, and what do other additions?"""

from collections.abc import Iterator
from typing import Any

import torch

from attncourse.grading.compare import Close
from attncourse.grading.exercise import Asked, Exercise, Facts
from attncourse.grading.numerals import observe_number, opened

WORDS = ("nothing", "output", "both")
ADDED = (  # what is added, to what, what that changes, and why
    ("a, one number, to all scores", "nothing",
     "One number on all scores stands above and below the line of each row, and is divided out."),
    ("b, one number for each head", "nothing",
     "Each head has a softmax of its own, and within it this is one number, as in a."),
    ("c, one number for each query", "nothing",
     "A softmax runs over the keys of one query; for them this is one number, divided out."),
    ("d, one number for each key", "both",
     "It differs from key to key within a row, so it moves weight, and the output moves with it."),
    ("e, one number for each distance i - j", "both",
     "In one row the keys have several distances, so it moves weight, and the output with it."),
    ("f, one vector, to all keys", "nothing",
     "q . (k + c) = q . k + q . c, and q . c is one number for each query, which is divided out."),
    ("g, one vector, to all queries", "both",
     "(q + c) . k = q . k + c . k, and c . k is a number for each key: as in d, it moves weight."),
    ("h, one vector, to all values", "output",
     "Values are mixed by weights that are there, and sum to 1: the vector arrives whole."),
    ("i, one number, to the scores of an off-by-one softmax", "both",
     "The 1 in the denominator is not multiplied, so nothing is divided out: this one is learned."),
)  # fmt: skip
SLOPES = tuple(f"gradient of {what}" for what in ("score 0", "score 1", "score 2", "beta"))
NAMES = ("nine words and four numbers", *(what for what, *_ in ADDED), *SLOPES)
W, V = torch.tensor([[0.2, 0.3, 0.5], [1.0, 2.0, 4.0]], dtype=torch.float64)
FIRST = W * (V - W @ V)  # a score moves its own weight by w (1 - w), and another one, u, by -u w
RIGHT = [word for _, word, _ in ADDED], [*FIRST.tolist(), 0.0]
LOOKS = (  # of the first three gradients: what they are, and the numbers
    ("are right; what is added to all three moves each, so beta has the sum of theirs", FIRST),
    ("are w v; more of a score also takes weight from the other keys", W * V),
    ("are v - output; they lack the weight of the key", V - W @ V),
    ("are w (1 - w) v; the weights of the other keys shrink, too", W * (1 - W) * V),
    ("are the weights; by these the output moves when a value moves, not a score", W),
    ("are 0; a score does move the output", 0 * V),
    ("are right, but in the opposite order: the first key has w = 0.2 and v = 1", FIRST.flip(0)),
    ("are w (v - 7 / 3), with the plain mean of v; the weighted mean is 2.8", W * (V - V.mean())),
    ("have the opposite signs: more of the score of the largest value raises the output", -FIRST),
)


def flattened(x: Any) -> list[Any]:
    """All that stands in lists, tuples, dictionaries, tensors and arrays, in a row."""
    x = opened(list(x.values()) if isinstance(x, dict) else x)
    return [y for part in x for y in flattened(part)] if isinstance(x, tuple | list) else [x]


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """Each prediction by its name: True, or what was said."""
    flat = flattened(answer)
    words = [" ".join(x.lower().split()).strip(" .,'\"") for x in flat if isinstance(x, str)]
    rest = [x for x in flat if not isinstance(x, str)]
    numbers = observe_number(rest, 1e-3)
    if unknown := [x for x in words if x not in WORDS]:
        yield NAMES[0], f"another word than {', '.join(WORDS)}: {unknown[0][:30]!r}"
    elif (len(words), len(rest)) != (9, 4) or not isinstance(numbers, Close):
        yield NAMES[0], f"{len(words)} words and {len(rest)} more"
    else:
        yield NAMES[0], True
        for what, said, asks in zip(NAMES[1:], words, RIGHT[0], strict=False):
            yield what, said == asks or f"not {said}"
        for what, said, asks in zip(SLOPES, numbers.value.tolist(), RIGHT[1], strict=True):
            yield what, abs(said - asks) < 2e-3 or f"not right: {said:.6g}"


def of_slopes(first: torch.Tensor) -> str:
    """What is true of the gradients of the scores, where not all four are right."""
    if looks := [words for words, x in LOOKS if torch.allclose(first, x, atol=2e-3)]:
        return f"The gradients of the scores {looks[0]}."
    if (first - FIRST).abs().max() < 0.051:
        return "The gradients are nearly right: give two decimals."
    return (
        "One score moves all three weights, its own by w (1 - w) and another one, u, by -w u; each "
        "counts with its value."
    )


def told(asked: Asked) -> str:
    """Why the first wrong words are wrong, and what wrong gradients look like."""
    if asked.seen.get(NAMES[0]) is not True:
        return 'Nine words and four numbers are asked: (["nothing", ...], [0.1, ...]).'
    whys = [f"{what[0]}: {why}" for what, _, why in ADDED if asked.seen[what] is not True][:3]
    if any(asked.seen[what] is not True for what in SLOPES):
        said = [x for x in flattened(asked.answer) if not isinstance(x, str)]
        whys.append(of_slopes(torch.tensor(said[:3], dtype=torch.float64)))
    return " ".join(whys)


EXERCISE = Exercise(
    name="beta",
    answer="predicted",
    judge=Facts(facts, NAMES),
    right=RIGHT,
    asks_for="number",
    explain=(told,),
)
