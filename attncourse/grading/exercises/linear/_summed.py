"""Linear attention in steps, so that a mistake replaces one of them; and cases whose output is the table of weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Recipe, triangle

EXTREMES = "features of 0.0001 in head 0 and of 200,000 in head 1"
UNIT = "values that are rows of the unit matrix, so that the output is the table of weights"


class Given(NamedTuple):
    """What linear attention works on.

    Args:
        query, key, value: (batch, heads, tokens, width).
        state: (batch, heads, d, e + 1) of what was read before; its last column counts.
        size: tokens of a chunk.
        causal: does query i read keys 0..i only?
    """

    query: Tensor
    key: Tensor
    value: Tensor
    state: Tensor | None = None
    size: int = 1
    causal: bool = True


def elu_plus_one(x: Tensor) -> Tensor:
    """Positive features, written again: what judges shares nothing with what is judged."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def visible(n: int, m: int, x: Given) -> Tensor:
    """1 where a query reads a key."""
    return triangle(n, m, 0 if x.causal else m).float()


def with_one(v: Tensor) -> Tensor:
    """A 1 beside each value."""
    return torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)


def added(k: Tensor, v: Tensor, x: Given) -> Tensor:
    """The state with these tokens in it."""
    new = k.mT @ with_one(v)
    return new if x.state is None else x.state + new


def carried(q: Tensor, state: Tensor) -> Tensor:
    """What is read from the state of before."""
    return q @ state


@dataclass(frozen=True)
class Summed:
    """A right answer in steps; `but` replaces some of them.

    Args:
        given: the answer's arguments -> `Given`.
        query, key, value: what is made of each of them: features, features, themselves.
        score: (q, k) -> products.
        pairs: (n, m, `Given`) -> how often a query counts a key in its sum of values.
        counted: the same in its sum of weights; ``None``: as in ``pairs``.
        carried, carried_total: (q, columns of the old state) -> what it adds to the two sums.
        divide: (sums, total, `Given`) -> output.
        store: (k, v, `Given`) -> the new state.
        answer: (output, new state, `Given`) -> what is returned.
    """

    given: Callable = Given
    query: Callable = elu_plus_one
    key: Callable = elu_plus_one
    value: Callable = lambda value: value
    score: Callable = lambda q, k: q @ k.mT
    pairs: Callable = visible
    counted: Callable | None = None
    carried: Callable = carried
    carried_total: Callable = carried
    divide: Callable = lambda sums, total, x: sums / total
    store: Callable = added
    answer: Callable = lambda output, state, x: output
    but = Recipe.but

    def __call__(self, *arguments):
        x = self.given(*arguments)
        q, k, v = self.query(x.query), self.key(x.key), self.value(x.value)
        products = self.score(q, k)
        sizes = (*products.shape[-2:], x)
        sums = (products * self.pairs(*sizes)) @ v
        total = (products * (self.counted or self.pairs)(*sizes)).sum(-1, keepdim=True)
        if x.state is not None:
            sums = sums + self.carried(q, x.state[..., :-1])
            total = total + self.carried_total(q, x.state[..., -1:])
        return self.answer(self.divide(sums, total, x), self.store(k, v, x), x)


def drawn(seed: int, calls) -> list[Case]:
    """Cases of (what is special, (b, h, n, m, d, e), how loud, further arguments ...); e of 0: unit values.

    Where it is loud, the first products are nearly 0, so that nothing can be added to their sum, and some features are
    large; or ``loud`` changes query, key and value itself. Gradients are compared in the other cases.
    """
    g, found = seeded(seed), []
    for what, (b, h, n, m, d, e), loud, *rest in calls:
        query, key, value = normal(g, (b, h, n, d), (b, h, m, d), (b, h, m, e or m))
        if not e:
            value = torch.eye(m).expand(b, h, m, m).contiguous()
        rest = [x(g) if callable(x) else x for x in rest]
        if callable(loud):
            loud(query, key, value)
        elif loud > 1:
            query, key = faint(query), torch.cat([faint(key[:, :, :2]), loud * key[:, :, 2:]], 2)
            key[:, :, 1:2], key[:, :, 2:3, 0] = -5.5, 4.0 * loud
        found.append(Case(what, (query, key, value, *rest), gradients=loud == 1 and e > 0))
    return found


def extremes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """In head 0 features of keys near 1e-4, in head 1 some of 200,000: no limit from 1e-3 to 1e5 goes unseen.

    The values of head 0 are some hundredths, so that neither what float32 has rounded of elu(x) + 1 nor 1e-6 beside a sum
    of the weights counts. In head 1 the large feature meets one of the query below 1e-3.
    """
    query[:, 0] = query[:, 0].tanh().abs() / 2
    key[:, 0] = -8.8 - 0.4 * key[:, 0].tanh().abs()
    value[:, 0] = value[:, 0].tanh() / 50
    query[:, 1, ..., 0], key[:, 1, ..., 0] = -7.0, 2e5


def faint(x: Tensor) -> Tensor:
    """Numbers whose features are some hundredths."""
    return -3.5 - x.abs() / 4
