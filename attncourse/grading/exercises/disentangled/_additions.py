"""What can be added in an attention layer, what it changes, and the judge that hears predictions of it."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import difference, plain
from attncourse.grading.exercise import Facts
from attncourse.grading.numerals import observe_number

HEADS, QUERIES, KEYS, WIDTH = 2, 4, 5, 3
DISTANCE = torch.arange(QUERIES)[:, None] - torch.arange(KEYS)
WEIGHTS, VALUES = (0.2, 0.3, 0.5), (1.0, 2.0, 4.0)


def one_more(scores: Tensor) -> Tensor:
    """The off-by-one softmax: 1 more in the denominator."""
    return scores.exp() / (1 + scores.exp().sum(-1, keepdim=True))


def softmax(scores: Tensor) -> Tensor:
    """Over the keys."""
    return scores.softmax(-1)


def added(
    where: str, *shape: int, spread: Callable = lambda x: x, normalize: Callable = softmax
) -> Callable:
    """The weights and the output of an attention, with random numbers of this shape added to one of its parts.

    They are spread out by a function, and multiplied by what the result is called with: 0 adds nothing.
    """

    def weights_and_output(times: float) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(3)
        parts = {
            name: torch.randn(HEADS, rows, WIDTH, generator=g)
            for name, rows in (("query", QUERIES), ("key", KEYS), ("value", KEYS))
        }
        addition = times * spread(torch.randn(shape, generator=g))
        if where in parts:
            parts[where] = parts[where] + addition
        scores = parts["query"] @ parts["key"].mT
        weights = normalize(scores + addition if where == "scores" else scores)
        return weights, weights @ parts["value"]

    return weights_and_output


ADDITIONS = {
    "a, one number, to all scores": added("scores", 1, 1, 1),
    "b, one number for each head": added("scores", HEADS, 1, 1),
    "c, one number for each query": added("scores", 1, QUERIES, 1),
    "d, one number for each key": added("scores", 1, 1, KEYS),
    "e, one number for each distance i - j": added(
        "scores", QUERIES + KEYS, spread=lambda x: x[DISTANCE + KEYS]
    ),
    "f, one vector, to all keys": added("key", 1, 1, WIDTH),
    "g, one vector, to all queries": added("query", 1, 1, WIDTH),
    "h, one vector, to all values": added("value", 1, 1, WIDTH),
    "i, one number, to all scores of an off-by-one softmax": added(
        "scores", 1, 1, 1, normalize=one_more
    ),
}
SLOPES = ("gradient of score 0", "gradient of score 1", "gradient of score 2", "gradient of beta")
WORDS = ("nothing", "output", "both")


def changed(attention: Callable) -> str:
    """What an addition changes, seen in one example."""
    moved = [
        not torch.allclose(a, b, atol=1e-5)
        for a, b in zip(attention(0.0), attention(1.0), strict=True)
    ]
    return {(False, False): "nothing", (False, True): "output", (True, True): "both"}[tuple(moved)]


def slopes() -> list[float]:
    """Of the output of one query with these weights and values: by each score, and by a number added to all of them."""
    scores = torch.tensor(WEIGHTS, dtype=torch.float64).log().requires_grad_()
    beta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    output = (scores + beta).softmax(0) @ torch.tensor(VALUES, dtype=torch.float64)
    by_score, by_beta = torch.autograd.grad(output, (scores, beta))
    return [*by_score.tolist(), by_beta.item()]


RIGHT = [changed(attention) for attention in ADDITIONS.values()], slopes()


class Predictions(Facts):
    """Hears nine words and four numbers, as a pair or in a row, and says why a wrong word is wrong."""

    def notice(self, expected, seen, seed: int) -> str:
        wrong = [what for what in expected if what in seen and difference(True, seen[what])]
        whys = [
            WHY[what[0]].get(str(seen[what]).rpartition(" ")[2], "")
            for what in wrong
            if what in ADDITIONS
        ]
        whys = [why for why in whys if why]
        off = [what for what in wrong if what in SLOPES]
        if off == [SLOPES[3]]:
            whys.append(
                "A number that is added to all three scores moves each of them: its gradient is the sum of theirs."
            )
        elif off:
            said = [float(str(seen[what]).split()[-1]) if what in off else right
                    for what, right in zip(SLOPES, RIGHT[1], strict=True)]  # fmt: skip
            whys.append(_of_slopes(said))
        return " ".join(dict.fromkeys(whys[:3]))


def _of_slopes(said: list[float]) -> str:
    """What is true of four gradients that are wrong."""
    a, b = torch.tensor(said).double(), torch.tensor(RIGHT[1]).double()
    times = (a @ b / (b @ b)).item()
    if torch.allclose(a.abs(), b.abs(), atol=2e-3):
        return "The sizes are right, but not all signs: a key whose value is below the output pulls it down."
    if torch.allclose(a, times * b, atol=2e-3):
        return f"All four are {times:.3g} times what they should be."
    if (a - b).abs().max() <= 0.051:
        return "They are nearly right: give two decimals."
    if abs(said[3] - sum(said[:3])) > 2e-3:
        return (
            "What is added to all three scores moves the output by the sum of what each of them does, and the fourth number "
            "is not the sum of the first three."
        )  # fmt: skip
    return "A score moves its own weight, and the others the other way, since they sum to 1: count all three."


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """Each prediction by its name: True, or what was said."""
    words, numbers = parted(answer)
    if isinstance(words, str):
        yield NAMES[0], words
        return
    yield NAMES[0], True
    for what, said, right in zip(ADDITIONS, words, RIGHT[0], strict=True):
        yield what, said == right or f"not {said}"
    for what, said, right in zip(SLOPES, numbers, RIGHT[1], strict=True):
        yield what, abs(said - right) < 2e-3 or f"not right: {said:.4g}"


NAMES = ("nine words and four numbers", *ADDITIONS, *SLOPES)


def parted(answer: Any) -> tuple[Any, Any]:
    """The words and the numbers; or a sentence that says what came instead, and nothing."""
    if not isinstance(answer, list | tuple | dict):
        return f"no pair of lists, but a {type(answer).__name__}", None
    flat = flattened(answer)
    words, numbers = (
        [x for x in flat if isinstance(x, str)],
        [x for x in flat if not isinstance(x, str)],
    )
    words = [" ".join(x.lower().replace("'", "").split()).strip(' .,"') for x in words]
    if unknown := [x for x in words if x not in WORDS]:
        return f"another word than {', '.join(WORDS)}: {unknown[0][:30]!r}", None
    if any(isinstance(x, bool) or x is None for x in flat):
        return "True, False or None among the words: write nothing, output or both", None
    seen = observe_number(numbers, 1e-3)
    if len(words) != len(ADDITIONS) or len(numbers) != len(SLOPES) or not hasattr(seen, "value"):
        return f"{len(words)} words and {len(numbers)} numbers", None
    return words, seen.value.flatten().tolist()


def flattened(x: Any) -> list[Any]:
    """All that stands in lists, tuples, dictionaries, tensors and arrays, in a row."""
    if plain(x) or type(x).__name__ == "ndarray":
        return list(x.flatten().tolist())
    if isinstance(x, dict):
        x = list(x.values())
    return [part for each in x for part in flattened(each)] if isinstance(x, list | tuple) else [x]


ONLY = "{}: This acts on the output through the weights only; where the output changes, they have changed."
CONSTANT = (
    "the softmax divides it out: e to that number stands above and below the line in every row"
)
WHY = {
    "a": dict.fromkeys(("both", "output"), f"a: One number on all scores changes nothing; {CONSTANT}."),
    "b": dict.fromkeys(("both", "output"), "b: Each head has a softmax of its own, and within it this is one number, as in a."),
    "c": dict.fromkeys(("both", "output"), "c: A softmax runs over the keys of one query, and for all of them this is one number, which is divided out."),
    "d": {"nothing": "d: A number for each key differs from key to key within a row, so it moves weight from one key to another.",
          "output": ONLY.format("d")},
    "e": {"nothing": "e: In one row the distances of the keys differ, so do the numbers, and weight moves.",
          "output": ONLY.format("e")},
    "f": dict.fromkeys(("both", "output"), "f: q . (k + c) = q . k + q . c, and q . c is one number for each query: as in c nothing changes. The bias of "
                       "a key projection does nothing."),
    "g": {"nothing": "g: (q + c) . k = q . k + c . k, and c . k is a number for each key: as in d, it moves weight.",
          "output": ONLY.format("g")},
    "h": {"nothing": "h: The weights sum to 1, so a vector that is added to all values arrives in the output whole.",
          "both": "h: Values are mixed when the weights are there; they do not change them."},
    "i": {"nothing": "i: The 1 in the denominator is not multiplied by e to that number, so nothing is divided out: this constant is learned.",
          "output": ONLY.format("i")},
}  # fmt: skip
