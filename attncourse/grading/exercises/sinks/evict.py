"""Exercise evict: what stays in a cache with sinks when new tokens come."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from attncourse.grading.exercise import Accepted, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.sinks._kept import Kept, join, stay
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case


def definition(keys, values, new_keys, new_values, num_sinks, window):
    """Token by token: asked of each whether it is one of the first, or one of the last."""
    end, found = keys.size(2) + new_keys.size(2), []
    for old, new in (keys, new_keys), (values, new_values):
        rows = [*old.unbind(2), *new.unbind(2)]
        stay = [row for j, row in enumerate(rows) if j < num_sinks or end - j <= window]
        found.append(torch.stack(stay, dim=2))
    return tuple(found)


CALLS = (  # what is special, b h m n d e, num_sinks, window
    ("2 sinks, a window of 4: a full cache and 1 new token", (2, 3, 6, 1, 5, 7), 2, 4),
    ("3 sinks, a window of 5: 4 tokens are there, 2 come", (1, 2, 4, 2, 3, 5), 3, 5),
    ("4 sinks, a window of 6: nothing is there, 3 come", (2, 1, 0, 3, 4, 5), 4, 6),
    ("2 sinks, a window of 3: a full cache and 7 new tokens", (2, 3, 5, 7, 4, 6), 2, 3),
    ("no sinks, a window of 4: a full cache and 2 new tokens", (3, 2, 4, 2, 6, 5), 0, 4),
    ("2 sinks, a window of 5: 6 tokens are there, 1 comes and fills the cache", (1, 3, 6, 1, 2, 4), 2, 5),
    ("3 sinks, a window of 4: 5 tokens are there, 6 come", (2, 1, 5, 6, 3, 4), 3, 4),
    ("1 sink, a window of 1: a full cache and 1 new token", (1, 2, 2, 1, 3, 4), 1, 1),
    ("3 sinks, a window of 2: 1 token is there, 6 come", (2, 3, 1, 6, 4, 5), 3, 2),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    return [
        Case(what, (*normal(g, (b, h, m, d), (b, h, m, e), (b, h, n, d), (b, h, n, e)), *sizes))
        for what, (b, h, m, n, d, e), *sizes in CALLS
    ]


@dataclass(frozen=True)
class Step:
    """A right answer in steps; a mistake replaces one.

    Args:
        keep: (m, n, num_sinks, window) -> which of the joined tokens stay.
        joined: (old, new) -> all tokens.
        answer: (keys, values, everything that was given) -> what is returned.
    """

    keep: Callable = stay
    joined: Callable = join
    answer: Callable = lambda keys, values, given: (keys, values)

    def __call__(self, keys, values, new_keys, new_values, num_sinks, window):
        given = keys, values, new_keys, new_values, num_sinks, window
        kept = self.keep(keys.size(2), new_keys.size(2), num_sinks, window)
        pairs = (keys, new_keys), (values, new_values)
        return self.answer(*(self.joined(*x)[:, :, kept] for x in pairs), given)

    def but(self, says: str, **steps: Callable) -> Mistake:
        return Mistake(says, replace(self, **steps), steps)


RIGHT = Step()
ACCEPTED = Accepted(list_of_tokens=RIGHT)


@ACCEPTED.add
def slices(keys, values, new_keys, new_values, num_sinks, window):
    out = []
    for old, new in ((keys, new_keys), (values, new_values)):
        every = torch.cat((old, new), -2)
        if every.shape[-2] > num_sinks + window:
            every = torch.cat((every[..., :num_sinks, :], every[..., -window:, :]), -2)
        out.append(every)
    return out


@ACCEPTED.add
def one_after_the_other(keys, values, new_keys, new_values, num_sinks, window):
    for k, v in zip(new_keys.split(1, dim=2), new_values.split(1, dim=2), strict=True):
        keys, values = join(keys, k), join(values, v)
        if keys.size(2) > num_sinks + window:
            keys, values = (
                join(x[:, :, :num_sinks], x[:, :, num_sinks + 1 :]) for x in (keys, values)
            )
    return keys, values


@ACCEPTED.add
def by_a_bool_mask(keys, values, new_keys, new_values, num_sinks, window):
    end = keys.size(2) + new_keys.size(2)
    at = torch.arange(end)
    kept = (at < num_sinks) | (at >= end - window)
    return join(keys, new_keys)[:, :, kept], join(values, new_values)[:, :, kept]


@ACCEPTED.add
def index_select(keys, values, new_keys, new_values, num_sinks, window):
    end = keys.size(2) + new_keys.size(2)
    start = max(num_sinks, end - window)
    kept = torch.tensor([*range(min(num_sinks, end)), *range(start, end)])
    pairs = (keys, new_keys), (values, new_values)
    return tuple(torch.cat(x, 2).index_select(2, kept) for x in pairs)


def full(m, n, s, w):
    return m + n > s + w


def shifted(keys, values, given):
    """The right answer; the caller's cache is moved up, too."""
    for x in given[:2]:
        x.copy_(x.roll(-1, dims=2))
    return keys, values


LISTS = (  # which of the m + n tokens stay, given s sinks and a window of w
    ("Only the window stays; the sinks are forgotten.", lambda m, n, s, w: range(max(0, m + n - w), m + n)),
    ("The last num_sinks + window tokens stay; of these places, num_sinks belong to the first tokens of the text.",
     lambda m, n, s, w: range(max(0, m + n - s - w), m + n)),
    ("Tokens stand there twice while the first and the last ones overlap: before the cache is full, all stay once.",
     lambda m, n, s, w: [*range(m + n)][:s] + [*range(m + n)][-w:]),
    ("Nothing is evicted; if the cache is cut, then before the new tokens came. Join first, then cut.", lambda m, n, s, w: range(m + n)),
    ("The window is one token too short.", lambda m, n, s, w: stay(m, n, s, w - 1)),
    ("The window is one token too long.", lambda m, n, s, w: stay(m, n, s, w + 1)),
    ("The window counts the sinks: the cache has num_sinks + window places, and window of them are for the last tokens.",
     lambda m, n, s, w: stay(m, n, s, max(w - s, 1))),
    ("The window counts the sinks: the cache has num_sinks + window places, and window of them are for the last tokens.",
     lambda m, n, s, w: stay(m, n, s, max(w - s, 0))),
    ("One sink too many stays.", lambda m, n, s, w: stay(m, n, s + 1, w)),
    ("One sink too few stays.", lambda m, n, s, w: stay(m, n, s - 1, w)),
    ("A sink stays although none was asked for: num_sinks can be 0.", lambda m, n, s, w: stay(m, n, s or 1, w)),
    ("One token is evicted in every call; if several come at once, as many must go as there is no room for.",
     lambda m, n, s, w: [j for j in range(m + n) if j != s or not full(m, n, s, w)]),
    ("As many tokens are evicted as come, even while there is room.", lambda m, n, s, w: [*range(s), *range(s + n, m + n)]),
    ("As many tokens are evicted as come; evict only those that there is no room for.",
     lambda m, n, s, w: [*range(s), *range(s + n, m + n)] if full(m, n, s, w) else range(m + n)),
    ("One token is evicted in every call, even while there is room.", lambda m, n, s, w: [j for j in range(m + n) if j != s]),
    ("A cache that is just full is cut already; all of num_sinks + window can be used.",
     lambda m, n, s, w: [j for j in range(m + n) if j != s] if m + n == s + w else stay(m, n, s, w)),
    ("The newest tokens are evicted; those right behind the sinks go.", lambda m, n, s, w: range(min(m + n, s + w))),
    ("The first `window` and the last `num_sinks` tokens stay; it is the other way round.",
     lambda m, n, s, w: stay(m, n, w, s)),
    ("The window stands in front of the sinks; tokens keep the order of the text.",
     lambda m, n, s, w: sorted(stay(m, n, s, w), key=lambda j: j < s)),
    ("The tokens are in the opposite order.", lambda m, n, s, w: stay(m, n, s, w)[::-1]),
    ("The new tokens are counted twice when the window is cut.", lambda m, n, s, w: stay(m, n, s, max(w - n, 0))),
    ("Only the sinks stay; the window is missing.", lambda m, n, s, w: range(min(s, m + n))),
    ("The newest token overwrites the oldest of the window, and stands in its place; tokens keep the order of the text.",
     lambda m, n, s, w: sorted(stay(m, n, s, w), key=lambda j: j if j < s else s + (j - s) % w)),
    ("What is kept of the cache is right, but the new tokens are missing.",
     lambda m, n, s, w: [j for j in stay(m, n, s, w) if j < m]),
    ("Only the new tokens are returned.", lambda m, n, s, w: range(m, m + n)),
)  # fmt: skip
MISTAKES = Mistakes([
    *(RIGHT.but(says, keep=lambda *sizes, keep=keep: list(keep(*sizes))) for says, keep in LISTS),
    RIGHT.but("The new tokens are put in front of the old ones; they come behind them.",
              joined=lambda old, new: torch.cat([new, old], dim=2)),
    *(RIGHT.but(says, answer=answer) for says, answer in (
        ("Only the keys are returned; return (keys, values).", lambda k, v, x: k),
        ("The order is (values, keys); return (keys, values).", lambda k, v, x: (v, k)),
        ("The keys are returned twice; return (keys, values).", lambda k, v, x: (k, k)),
        ("The values are not evicted: they must lose the same tokens as the keys.", lambda k, v, x: (k, join(x[1], x[3]))),
        ("The keys are not evicted: they must lose the same tokens as the values.", lambda k, v, x: (join(x[0], x[2]), v)),
        ("The caller's cache is moved up in place; return new tensors, and leave the old ones.", shifted),
        ("Keys and values are joined to one tensor; return (keys, values).", lambda k, v, x: torch.cat([k, v], dim=-1)),
        ("The number of tokens is returned; return (keys, values).", lambda k, v, x: k.size(2)),
    )),
])  # fmt: skip

EXERCISE = Exercise(
    name="evict",
    judge=Kept(definition, cases, gradients=False),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
