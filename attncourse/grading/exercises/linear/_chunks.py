"""Chunks that read too much, too little, or twice: what stands before the chunk, and what stands inside it."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.grading.exercises.linear._slips import features, limits, reading, results, totals
from attncourse.grading.exercises.linear._summed import (
    EXTREMES,
    UNIT,
    Given,
    Summed,
    drawn,
    elu_plus_one,
    extremes,
    with_one,
)
from attncourse.grading.mistakes import mistakes_of
from attncourse.grading.slips import alone

CALLS = (  # what is special, b h n m d e, how loud, size
    ("2 samples, 3 heads, 7 tokens, chunks of 3, values 5 wide", (2, 3, 7, 7, 4, 5), 1, 3),
    (f"chunks of 2, {UNIT}", (1, 2, 8, 8, 3, 0), 1, 2),
    ("values of 1 number, chunks of 4", (1, 2, 6, 6, 2, 1), 4, 4),
    ("chunks of 1", (1, 3, 5, 5, 3, 4), 1, 1),
    ("one chunk, as long as the text", (3, 2, 6, 6, 5, 3), 1, 6),
    ("a chunk longer than the text", (2, 1, 5, 5, 4, 6), 1, 8),
    ("1 token", (2, 3, 1, 1, 5, 4), 1, 2),
    ("11 tokens, chunks of 4, features near 0 and far from it", (1, 2, 11, 11, 2, 3), 4, 4),
    (f"7 tokens, chunks of 3, {EXTREMES}", (2, 2, 7, 7, 3, 4), extremes, 3),
)


def cases(seed: int) -> list:
    """The calls, drawn from a seed."""
    return drawn(seed, CALLS)


def given(query, key, value, size) -> Given:
    """The arguments of both exercises on chunks."""
    return Given(query, key, value, size=size)


RIGHT = Summed(given)


def apart(n: int, m: int, x: Given) -> tuple[Tensor, Tensor]:
    """By how many chunks, and by how many tokens, a query comes after a key."""
    i, j = torch.arange(n)[:, None], torch.arange(m)
    return i // x.size - j // x.size, i - j


# What a query counts, from c, the chunks it comes after a key, and t, the tokens; and what is said of it.
COUNTS = (
    ("The chunk does not read itself: only the state of earlier chunks is read.", lambda c, t: c > 0),
    ("The earlier chunks are not read: each chunk begins anew, without the state.", lambda c, t: (c == 0) & (t >= 0)),
    ("Inside a chunk every query reads all keys, later ones too; tril is missing.", lambda c, t: c >= 0),
    ("Inside a chunk later keys are read and earlier ones are not; the triangle is turned around.", lambda c, t: (c > 0) | (c == 0) & (t <= 0)),
    ("Inside a chunk a query does not read itself.", lambda c, t: (c > 0) | (c == 0) & (t > 0)),
    ("Inside a chunk a query reads itself only.", lambda c, t: (c > 0) | (t == 0)),
    ("Inside a chunk a query reads one key too far ahead.", lambda c, t: (c > 0) | (c == 0) & (t >= -1)),
    ("The chunk is in the state before the state is read, so that it is read twice: whole, and below the triangle.",
     lambda c, t: (c > 0) + (c == 0) * (1 + (t >= 0).float())),
    ("Only the chunk right before is read; the state holds all earlier ones.", lambda c, t: (c == 1) | (c == 0) & (t >= 0)),
    ("The state comes a chunk late: the chunk right before is not read.", lambda c, t: (c > 1) | (c == 0) & (t >= 0)),
    ("The first chunks count more and more: the old state is added to itself with each chunk.",
     lambda c, t: torch.where(c > 0, 2.0 ** (c - 1), ((c == 0) & (t >= 0)).float())),
    ("The state is divided in half with each chunk; nothing is forgotten.",
     lambda c, t: torch.where(c > 0, 0.5 ** (c - 1), ((c == 0) & (t >= 0)).float())),
    ("Later chunks are read: the state outside of the chunk is that of the whole text without this chunk.",
     lambda c, t: (c != 0) | (t >= 0)),
    ("The state of the whole text is read, and the chunk once more.", lambda c, t: 1 + ((c == 0) & (t >= 0)).float()),
    ("The next chunk is read, too: the state is one chunk ahead.", lambda c, t: (c > 0) | (c == -1) | (c == 0) & (t >= 0)),
    ("Time is turned around: the state holds the later chunks.", lambda c, t: (c < 0) | (c == 0) & (t >= 0)),
    ("Every chunk before is subtracted; it is added.", lambda c, t: ((c == 0) & (t >= 0)).float() - (c > 0).float()),
)  # fmt: skip


def chunks(right: Summed) -> Iterator:
    """Other tables of what is counted, in both sums or in one of them."""

    def table(rule: Callable) -> Callable:
        return lambda n, m, x: rule(*apart(n, m, x)) + 0.0

    for k, (says, rule) in enumerate(COUNTS):
        yield f"chunks {k}", says, {"pairs": table(rule)}
    for k, (says, rule) in enumerate(COUNTS):
        yield (
            f"counted {k}",
            f"In the sum of the weights: {says[0].lower()}{says[1:]} The values are added up right.",
            {"counted": table(rule)},
        )
    for k in (0, 1, 2, 12):
        says, rule = COUNTS[k]
        yield (
            f"values {k}",
            f"In the sum of the values: {says[0].lower()}{says[1:]} The weights are added up right.",
            {"pairs": table(rule), "counted": right.pairs},
        )


def looped(read: Callable, join: Callable = lambda x, n: torch.cat(x, 2)) -> Callable:
    """A loop over chunks: ``read(q, k, v, state)`` is the output of one and the next state."""

    def answer(query, key, value, size):
        q, k, v = elu_plus_one(query), elu_plus_one(key), with_one(value)
        state, outputs = k.new_zeros(*k.shape[:2], k.size(-1), v.size(-1)), []
        for part in zip(*(x.split(size, 2) for x in (q, k, v)), strict=True):
            output, state = read(*part, state)
            outputs.append(output)
        return join(outputs, query.size(2))

    return answer


def divided(read: Tensor) -> Tensor:
    """The first numbers divided by the last one."""
    return read[..., :-1] / read[..., -1:]


def inside(q, k, v) -> Tensor:
    """What a chunk reads of itself."""
    return (q @ k.mT).tril() @ v


def each_divided(q, k, v, state):
    """State and chunk are divided by a total each."""
    old = q @ state
    old = old[..., :-1] / old[..., -1:].where(old[..., -1:] != 0, 1.0)
    return old + divided(inside(q, k, v)), state + k.mT @ v


def mean_of_both(q, k, v, state):
    """Their mean, where there is a state."""
    new, kept = divided(inside(q, k, v)), state + k.mT @ v
    return ((divided(q @ state) + new) / 2 if state.any() else new), kept


def divided_state(q, k, v, state):
    """The state that is kept is divided by its last column."""
    new = state + k.mT @ v
    return divided(q @ state + inside(q, k, v)), new / new[..., -1:]


def read_and(keep: Callable) -> Callable:
    """A right output, and another state."""
    return lambda q, k, v, state: (divided(q @ state + inside(q, k, v)), keep(k, v, state))


def whole_only(query, key, value, size):
    """Tokens behind the last whole chunk are left out."""
    n = max(query.size(2) // size * size, min(size, query.size(2)))
    return RIGHT(query[:, :, :n], key[:, :, :n], value[:, :, :n], size)


def padded(query, key, value, size):
    """Zeros make the last chunk whole, and stay in the output."""
    return RIGHT(*(F.pad(x, (0, 0, 0, -x.size(2) % size)) for x in (query, key, value)), size)


LOOPED = (
    ("State and chunk are divided by a total each and added; add the sums and divide once.", looped(each_divided)),
    ("The mean of state and chunk is taken, each divided by a total of its own; add the sums and divide once.", looped(mean_of_both)),
    ("The state that is kept is divided by its total; it stays a sum.", looped(divided_state)),
    ("No gradient flows from one chunk to the next: the state is detached.", looped(read_and(lambda k, v, s: (s + k.mT @ v).detach()))),
    ("Inside the state a chunk is written as a triangle; all of it is added.", looped(read_and(lambda k, v, s: s + (k.mT @ v).tril()))),
    ("The tokens behind the last whole chunk are missing; the last chunk may be shorter.", whole_only),
    ("The zeros that make the last chunk whole are returned, too; cut them off.", padded),
    ("The chunks are turned around in the output.", looped(read_and(lambda k, v, s: s + k.mT @ v), lambda x, n: torch.cat(x[::-1], 2))),
    ("Only the last chunk is returned; join all of them.", looped(read_and(lambda k, v, s: s + k.mT @ v), lambda x, n: x[-1])),
    ("The chunks are returned as a list; join them along the tokens.", looped(read_and(lambda k, v, s: s + k.mT @ v), lambda x, n: x)),
    ("The chunks are joined along the heads; join them along the tokens.",
     looped(read_and(lambda k, v, s: s + k.mT @ v), lambda x, n: torch.cat([F.pad(y, (0, 0, 0, x[0].size(2) - y.size(2))) for y in x], 1))),
)  # fmt: skip


def shared(right: Summed, without: tuple[str, ...] = ()) -> list:
    """The mistakes of both exercises on chunks."""
    same = ("all read", "itself hidden", "only itself", "earlier counted", *without)
    fades = [
        right.but("The state fades from chunk to chunk; nothing is forgotten.", pairs=_fading(x))
        for x in (0.9, 0.95, 0.99, 0.999)
    ]
    found = mistakes_of(right, chunks, features, totals, reading, results, without=same)
    return found + alone([*mistakes_of(right, limits), *fades])


def _fading(by: float) -> Callable:
    """What a query counts when the state fades by a factor with each chunk."""

    def pairs(n, m, x):
        c, t = apart(n, m, x)
        return torch.where(c > 0, by ** (c - 1.0), ((c == 0) & (t >= 0)).float())

    return pairs
