"""One token of the gated delta rule, in steps, and what can be read off a wrong one."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.grading.compare import plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.gated_delta._faded import like, nearly
from attncourse.grading.recipe import Recipe
from attncourse.grading.compare import same
from attncourse.spec import state_space


def behind(state, query, key, value, log_decay, beta=None) -> tuple[Tensor, Tensor]:
    """The loops of the course, behind a state: d tokens with the axes as keys write it, one row each."""
    b, h, d, e = state.shape
    n, rows = key.size(2), torch.eye(d, dtype=state.dtype).expand(b, h, d, d)
    logs = torch.cat([state.new_zeros(b, h, d), log_decay], 2)
    if beta is not None:
        beta = torch.cat([state.new_ones(b, h, d), beta], 2)
    query, key = (torch.cat([rows, x], 2) for x in (query, key))
    output, last = state_space(query, key, torch.cat([state, value], 2), logs, beta)
    return output[:, :, -n:], last


def read(key: Tensor, state: Tensor) -> Tensor:
    """What a state says at a key."""
    return (key[..., None, :] @ state)[..., 0, :]


def outer(key: Tensor, value: Tensor) -> Tensor:
    """A table with a row for each number of the key."""
    return key[..., :, None] * value[..., None, :]


@dataclass(frozen=True)
class Step:
    """A right answer in steps; `but` replaces some of them.

    Args:
        keep: log_decay -> factor on the state.
        key: key -> key.
        asked: (old state, faded state) -> the state that is read before it is written.
        say: (key, state) -> what it says there.
        change: (value, what was said, beta) -> what is written.
        write: (key, change) -> table.
        update: (faded state, table, beta, keep, old state) -> new state.
        seen: (new state, faded state, old state) -> the state that the query reads.
        asks: (query, key) -> query.
        scale: (query, value) -> factor.
        answer: (output, state) -> what is returned.
    """

    keep: Callable = torch.exp
    key: Callable = lambda key: key
    asked: Callable = lambda old, faded: faded
    say: Callable = read
    change: Callable = lambda value, said, beta: beta * (value - said)
    write: Callable = outer
    update: Callable = lambda faded, table, beta, keep, old: faded + table
    seen: Callable = lambda new, faded, old: new
    asks: Callable = lambda query, key: query
    scale: Callable = lambda query, value: query.size(-1) ** -0.5
    answer: Callable = lambda output, state: (output, state)
    but = Recipe.but

    def __call__(self, state, query, key, value, beta, log_decay):
        keep, beta, key = self.keep(log_decay)[..., None, None], beta[..., None], self.key(key)
        faded = keep * state
        said = self.say(key, self.asked(state, faded))
        table = self.write(key, self.change(value, said, beta))
        new = self.update(faded, table, beta[..., None], keep, state)
        read_out = read(self.asks(query, key), self.seen(new, faded, state))
        return self.answer(read_out * self.scale(query, value), new)


class Steps(Calls):
    """`Calls` for (output, state), which tells of what a wrong state is mixed."""

    def notice(self, expected, seen, seed: int) -> str:
        calls = [
            (case, *(x.get(f"{case.label}, output") for x in (expected, seen)))
            for case in cases_of(self, seed)
        ]
        if nearly([call[1:] for call in calls]):
            return ""
        for case, right, got in calls:
            if not (isinstance(got, tuple) and len(got) == 2 and all(map(like, right, got))):
                return shapes(right, got)
            if not same(right, got):
                return self.explain(case, right, tuple(x.double() for x in got))
        return ""

    def explain(self, case, right, got) -> str:
        """What the first wrong pair tells."""
        return mixture(case, right, got)


def shapes(right, got) -> str:
    """Which of both results cannot be compared."""
    if not isinstance(got, tuple) or len(got) != 2 or not all(map(plain, got)):
        return ""
    names = [f"the {name} is {tuple(b.shape)} and should be {tuple(a.shape)}"
             for name, a, b in zip(("output", "state"), right, got, strict=True) if a.shape != b.shape]  # fmt: skip
    return f"Of the two results, {' and '.join(names)}." if names else ""


def parts(number: Tensor, *tables: Tensor) -> list[float] | None:
    """The factors with which these tables add up to the number, if they do."""
    basis = torch.stack([x.flatten() for x in tables], 1)
    factors = torch.linalg.lstsq(basis, number.flatten()[:, None], driver="gelsd").solution[:, 0]
    close = torch.allclose(basis @ factors, number.flatten(), rtol=1e-3, atol=1e-3)
    return factors.where(factors.abs() > 1e-5, 0.0).tolist() if close else None


def mixture(case, right, got) -> str:
    """The first wrong state, as a sum of what there is; if the states are right, the output."""
    at = 1 if not same(right[1], got[1]) else 0
    wrong = ~torch.isclose(got[at], right[at], rtol=1e-3, atol=1e-4)
    b, h = wrong.nonzero()[0].tolist()[:2]
    where = f"{case.label}: in sample {b}, head {h}"
    if not got[at][b, h].isfinite().all():
        return f"{where} stand numbers that are not finite."
    state, query, key, value = (x[b, h].double() for x in case.args[:4])
    if at == 0:
        return told_output(where, state, query, right[1][b, h], got[0][b, h])
    tables = (state, torch.outer(key, key @ state), torch.outer(key, value))
    names = ("state", "key outer (key @ state)", "key outer value")
    is_, should = (parts(x[1][b, h], *tables) for x in (got, right))
    if is_ is None:
        return strange(where, state, query, key, value, got[1][b, h])
    if should is None:
        return f"{where} the new state is no mixture of {', '.join(names)}: another key, other axes, or other numbers are in it."
    say = [" + ".join(f"{x:.3g} * {name}" for x, name in zip(f, names, strict=True)) for f in (is_, should)]  # fmt: skip
    says = f"{where} the new state is {say[0]}; it should be {say[1]}, where state is the old one."
    return says.replace("+ -", "- ")


def strange(
    where: str, state: Tensor, query: Tensor, key: Tensor, value: Tensor, new: Tensor
) -> str:
    """A new state into which something came that has no place there."""
    said, base = key @ state, (state, torch.outer(key, key @ state), torch.outer(key, value))
    others = (
        (
            "the query stands in the place of the key where it writes",
            (torch.outer(query, value), torch.outer(query, said)),
        ),
        (
            "the query stands in the place of the key where the state is asked",
            (torch.outer(key, query @ state),),
        ),
        (
            "the query stands in the place of the key",
            (torch.outer(query, value), torch.outer(query, query @ state)),
        ),
        ("the columns of the state are summed without the key", (torch.outer(key, state.sum(0)),)),
        (
            "the state is asked with the squares of the key",
            (torch.outer(key, key.square() @ state),),
        ),
        (
            "a part is written with the squares of the key",
            (torch.outer(key.square(), value), torch.outer(key.square(), said)),
        ),
        ("the same is added to all rows", (value.expand_as(state), said.expand_as(state))),
    )
    for says, tables in others if min(state.shape) > 3 else ():
        if parts(new, *base, *tables):
            return f"{where} {says}."
    return (
        f"{where} the new state is no sum of state, key outer (key @ state) and key outer value: another key, other axes or "
        "another function came in."
    )


def told_output(where: str, state: Tensor, query: Tensor, new: Tensor, output: Tensor) -> str:
    """The states are right: which of them the query has read."""
    found, root = parts(output, query @ new, query @ state), math.sqrt(len(query))
    says = f"{where} the new state is right, but the output is not: it should be query @ new state / sqrt({len(query)})"
    if found is None or len(output) < 3:
        return f"{says}."
    return (
        f"{says}, {1 / root:.3g} times what the new state says; it is {found[0]:.3g} times this plus {found[1]:.3g} times what "
        "the old state says."
    )
