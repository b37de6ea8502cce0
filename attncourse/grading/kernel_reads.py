"""Which key a head reads whose kernel was written by hand, and what such a kernel says."""

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.grading.compare import Described, Raised, plain
from attncourse.grading.explain.asked import Asked
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case, calls_of, observe_call

MATCH, TEXTS = 20.0, 6  # the score of a key with the letter that is asked for; texts of each head
A, B, LETTERS = 0, 1, "ABcdefg"
SIZES = ((2, 3), (3, 5), (6, 11), (4, 3))
HEADS = (  # what the head looks for, which key of a text that is
    ("the B of 'AB'", lambda t, j: t[j] == B and t[j - 1 : j] == [A]),
    ("the A of 'AB'", lambda t, j: t[j] == A and t[j + 1 : j + 2] == [B]),
    ("what stands between A and B in 'A?B'",
     lambda t, j: t[j - 1 : j] == [A] and t[j + 1 : j + 2] == [B]),
    ("the B without an A right before it", lambda t, j: t[j] == B and t[j - 1 : j] != [A]),
)  # fmt: skip
PIECES = (  # what the head looks for, in turn, and what else is in its texts; ? is any letter
    (("AB",), ("A?B", "BA", "A", "BB")),
    (("AB",), ("A?B", "BA", "B", "AA")),
    (("A?B",), ("AB", "BA", "B?A", "A??B")),
    (("B", "BA", "ABB"), ("AB", "A", "AB", "A?")),
)
LABELS = tuple(f"c_q = {c_q} and c_k = {c_k}" for c_q, c_k in SIZES)
FACTS = tuple(
    f"{label}, {what}"
    for label in LABELS
    for what in ("four kernels", *(f"head {k}, {says}" for k, (says, _) in enumerate(HEADS)))
)


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """Is each answer four kernels, and does every head read the key that it should?"""
    cases = [Case(label, sizes) for label, sizes in zip(LABELS, SIZES, strict=True)]
    for call in calls_of(answer, cases, False):
        label, (c_q, c_k) = call.case.label, call.case.args
        found = dict(observe_call(call, []))[f"{label}, output"]
        kernels = found if isinstance(found, Raised) else as_kernels(found, c_q, c_k)
        yield f"{label}, four kernels", kernels if not isinstance(kernels, Tensor) else True
        if isinstance(kernels, Tensor):
            scores, there, right = tables(seed + c_q + 2 * c_k, c_q)
            for head, keys in enumerate(read(kernels, scores, there)):
                wanted = [key for (key,) in right[head]]
                wrong = f"in {TEXTS} texts it should read keys {wanted}, and reads {keys}"
                table = json.dumps(kernels[head].tolist())
                fact = f"{label}, head {head}, {HEADS[head][0]}"
                yield fact, keys == right[head] or Described(f"{wrong} by the kernel: {table}")


def as_kernels(found: Any, c_q: int, c_k: int) -> Tensor | str:
    """The answer as one tensor, or what is wrong with it."""
    if isinstance(found, list | tuple) and len(found) == len(HEADS) and all(map(plain, found)):
        found = torch.stack(list(found)) if len({x.shape for x in found}) == 1 else found
    if type(found).__name__ == "ndarray" and found.dtype.kind in "iuf":
        found = torch.from_numpy(found)
    if not plain(found) or found.dtype == torch.bool:
        got = "booleans" if plain(found) else type(found).__name__
        got = f"{len(found)} results" if isinstance(found, tuple) else got
        got = "nothing; is `return` missing?" if found is None else got
        return f"expected a tensor of numbers, got {got}"
    shape = (len(HEADS), c_q, c_k)
    if found.shape != shape:
        return f"expected shape {shape}, got {tuple(found.shape)}"
    finite = bool(found.isfinite().all())
    return found.double() if finite else "some numbers are not finite, and 0 times infinity is NaN"


def write(head: int, place: int, g: torch.Generator) -> list[int]:
    """A text in which this head should read one key, at the start, at the end or anywhere."""
    found, others = PIECES[head]
    while True:
        pieces = [others[k] for k in torch.randperm(len(others), generator=g)]
        at = (0, len(pieces))[place] if place < 2 else place % 4
        pieces.insert(at, found[place % len(found)])
        text = "?".join(pieces) if place < 2 else "?" + "?".join(pieces) + "??"
        blanks = torch.randint(2, len(LETTERS), (len(text),), generator=g).tolist()
        letters = [LETTERS.index(x) if x != "?" else y for x, y in zip(text, blanks, strict=True)]
        if len(wanted(head, letters)) == 1:
            return letters


def wanted(head: int, text: list[int]) -> list[int]:
    """The keys of a text that this head looks for."""
    return [j for j in range(len(text)) if HEADS[head][1](text, j)]


@lru_cache(maxsize=64)
def tables(seed: int, c_q: int) -> tuple[Tensor, Tensor, list[list[list[int]]]]:
    """Scores of c_q queries (texts, heads, c_q, keys), which keys are there, which to read."""
    g = seeded(seed)
    texts = [[write(head, place, g) for place in range(TEXTS)] for head in range(len(HEADS))]
    asks = torch.randint(0, len(LETTERS), (TEXTS, len(HEADS), c_q), generator=g)
    asks[..., -2:] = torch.tensor([A, B])
    longest = max(len(text) for of_head in texts for text in of_head)
    letters = torch.tensor([[t + [-1] * (longest - len(t)) for t in of_head] for of_head in texts])
    letters = letters.transpose(0, 1)
    scores = MATCH * (asks[..., None] == letters[:, :, None]).double()
    right = [[wanted(head, text) for text in of_head] for head, of_head in enumerate(texts)]
    return scores, letters >= 0, right


def read(kernels: Tensor, scores: Tensor, there: Tensor) -> list[list[list[int]]]:
    """Of each head and text the keys with more than a tenth of the last query's largest weight."""
    side = kernels.size(2) // 2
    line = F.conv2d(scores, kernels[:, None], padding=(0, side), groups=len(kernels))[:, :, 0]
    line = line.masked_fill(~there, -torch.inf)
    read = line >= line.amax(-1, keepdim=True) - math.log(10)
    return [[text.nonzero()[:, 0].tolist() for text in of_head] for of_head in read.unbind(1)]


def looks_for(asked: Asked) -> str:
    """What the kernel of the first head that reads a wrong key looks for."""
    for fact, seen in asked.seen.items():
        if isinstance(seen, Described) and " by the kernel: " in seen:
            label, head, says = fact.split(", ", 2)
            kernel = json.loads(seen.partition(" by the kernel: ")[2])
            return f"With {label}, {head} looks for {in_words(kernel)}. It should read {says}."
    return ""


def in_words(kernel: list[list[float]]) -> str:
    """What the numbers of a kernel that matter say."""
    rows, middle = len(kernel), len(kernel[0]) // 2
    entries = {(a - rows, b - middle): x for a, row in enumerate(kernel) for b, x in enumerate(row)}
    large = max(map(abs, entries.values()))
    matter = {place: x for place, x in entries.items() if abs(x) > 0.1 * large}
    if MATCH * large < 2.5:
        return "nothing: all its numbers are so small that the weights of all keys stay alike"
    if len(matter) > 4:
        return f"too much: {len(matter)} of its {len(entries)} numbers matter"
    asked = {-1: "B", -2: "A"}
    return " and ".join(
        f"{asked.get(a, 'the letter of an earlier query')} {where(b)} ({x:+.3g})"
        for (a, b), x in matter.items()
    )


def where(offset: int) -> str:
    """The place of a neighbour, in words."""
    if not offset:
        return "at the key itself"
    count = f"{abs(offset)} keys" if abs(offset) > 1 else "one key"
    return f"{count} {'before' if offset < 0 else 'behind'}"
