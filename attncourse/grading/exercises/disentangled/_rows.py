"""Products of tokens with rows of a table of relative positions, in steps, and which rows an answer has read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Recipe


def pick(every: Tensor, index: Tensor) -> Tensor:
    """Of each row (b, h, n, rows) the columns that the index (n, m) names."""
    return every.gather(-1, index.expand(*every.shape[:2], -1, -1))


def of_queries(query: Tensor, table: Tensor, index: Tensor) -> Tensor:
    """Score (i, j) is query i times row index[i, j]."""
    return pick(query @ table.mT, index)


def of_keys(key: Tensor, table: Tensor, index: Tensor) -> Tensor:
    """Score (i, j) is key j times row index[i, j]."""
    return pick(key @ table.mT, index.mT).mT


@dataclass(frozen=True)
class Term:
    """A right answer in steps; `but` replaces some of them.

    Args:
        keys: the tokens are keys, and ``count`` is the number of queries; else the other way round.
        distance: (i, j, n, m) -> query's position minus key's.
        span: table -> half of its rows.
        row: (distance, span) -> row of the table.
        tokens, table: what is made of them first.
        scores: (tokens, table, index) -> scores; ``None`` means the right one.
        finish: (scores, tokens, table) -> what is returned.
    """

    keys: bool = False
    distance: Callable = lambda i, j, n, m: i - j
    span: Callable = lambda table: table.size(1) // 2
    row: Callable = lambda distance, span: (distance + span).clamp(0, 2 * span - 1)
    tokens: Callable = lambda tokens: tokens
    table: Callable = lambda table: table
    scores: Callable | None = None
    finish: Callable = lambda scores, tokens, table: scores
    but = Recipe.but

    def __call__(self, tokens, table, count):
        n, m = (count, tokens.size(2)) if self.keys else (tokens.size(2), count)
        far = self.distance(torch.arange(n)[:, None], torch.arange(m), n, m)
        index = self.row(far, self.span(table))
        scores = self.scores or (of_keys if self.keys else of_queries)
        return self.finish(scores(self.tokens(tokens), self.table(table), index), tokens, table)


CALLS = (  # what is special; b h n m d, span
    ("2 samples, 3 heads, 4 queries, 9 keys, head_dim 5, span 3", (2, 3, 4, 9, 5), 3),
    ("8 queries, 3 keys, span 5", (1, 2, 8, 3, 6), 5),
    ("as many queries as keys: 6, span 2", (3, 2, 6, 6, 4), 2),
    ("a table longer than the text: span 9", (2, 4, 3, 5, 7), 9),
    ("span 1", (2, 1, 7, 5, 3), 1),
    ("1 query, 8 keys, span 5", (3, 2, 1, 8, 4), 5),
    ("10 queries, 1 key, span 6", (1, 3, 10, 1, 5), 6),
)


def drawn_cases(seed: int, keys: bool) -> list[Case]:
    """Tokens, table and the number of the others; the last sizes are drawn, too."""
    g, found = seeded(seed), []
    sizes = tuple(int(torch.randint(low, low + 5, (), generator=g)) for low in (2, 3, 4, 10, 5, 2))
    for what, (b, h, n, m, d), span in (*CALLS, ("sizes drawn at random", sizes[:5], sizes[5])):
        tokens, count = (m, n) if keys else (n, m)
        args = *normal(g, (b, h, tokens, d), (h, 2 * span, d)), count
        found.append(Case(what, args, gradients=len(found) < 3))
    return found


def in_words(shape: tuple[int, ...], right: dict[str, int], others: dict[str, int]) -> str:
    """A shape with the names of its axes, where their sizes tell; ``right`` has the axes that it should have, in their order."""

    def named(x: int, name: str, size: int) -> str:
        return (
            name
            if x == size
            else f"{name} {'+' if x > size else '-'} 1"
            if abs(x - size) == 1
            else ""
        )

    names = {x: name for name, x in (others | right).items()}
    names |= {
        a * b: f"{one} * {two}" for (one, a), (two, b) in combinations(right.items(), 2)
    } | names
    axes = list(right.items()) if len(shape) == len(right) else [("", -9)] * len(shape)
    found = [named(x, *axis) or names.get(x) or str(x) for x, axis in zip(shape, axes, strict=True)]
    return f"The result has the shape ({', '.join(found)}); it should be ({', '.join(right)})."


@dataclass(frozen=True)
class Rows(Calls):
    """`Calls` that reads from the scores which token was multiplied with which row."""

    keys: bool = False

    def notice(self, expected, seen, seed: int) -> str:
        cases = cases_of(self, seed)
        raised = [isinstance(seen.get(f"{case.label}, output"), Raised) for case in cases]
        if raised == [case.args[0].size(2) != case.args[2] for case in cases]:
            return "It fails where there are not as many queries as keys; n and m can differ."
        for case in cases:
            right, got = (x.get(f"{case.label}, output") for x in (expected, seen))
            if not plain(got):
                return ""
            if got.shape != right.shape:
                return self._form(right, got, *case.args[:2])
            if says := self._told(right, got.double(), *case.args[:2]):
                return f"{case.label}: {says}"
        return ""

    def _form(self, right: Tensor, got: Tensor, tokens: Tensor, table: Tensor) -> str:
        axes = dict(zip(("batch", "heads", "n", "m"), right.shape, strict=True))
        return in_words(got.shape, axes, {"2 span": table.size(1), "d": table.size(2)})

    def _told(self, right: Tensor, got: Tensor, tokens: Tensor, table: Tensor) -> str:
        if torch.allclose(got, right, atol=1e-4):
            return ""
        factor = (got / right).median()
        if torch.allclose(got, factor * right, atol=1e-4):
            return f"all scores are {factor:.4g} times what they should be; these are the products as they are, unscaled."
        for what, there in (("0", got == 0), ("minus infinity", got == -torch.inf)):
            if pairs := there.all(1).all(0).nonzero().tolist():
                (i, j), many = pairs[0], f"{len(pairs)} of {got.size(2) * got.size(3)} pairs"
                return f"the score of query {i} and key {j} is {what}, and so are those of {many}; every pair has a score."
        one = "key" if self.keys else "query"
        same = dict(pairs_read(got, tokens.double() @ table.double().mT))
        should = dict(pairs_read(right, tokens.double() @ table.double().mT))
        wrong = [pair for pair in should if same.get(pair) != should[pair]]
        read = [pair for pair in wrong if pair in same]
        if not read:
            return self._exchanged(right, got, tokens.double(), table.double())
        (i, j), (at, row) = read[0], same[read[0]]
        token = j if self.keys else i
        whose = f"{one} {at}, not {one} {token}" if at != token else f"{one} {token}"
        return (
            f"the score of query {i} and key {j} is the product of {whose}, and row {row} of the table; their distance is "
            f"{i - j}, whose row is {should[i, j][1]}. {len(wrong)} of {len(should)} pairs are wrong."
        )

    def _exchanged(self, right: Tensor, got: Tensor, tokens: Tensor, table: Tensor) -> str:
        """Tokens of one sample and head that met the table of another one."""
        found = {}
        for (b, h), (sample, head, of) in product(
            grid(*right.shape[:2]), grid(*right.shape[:2], len(table))
        ):
            one = Term(self.keys)(
                tokens[sample : sample + 1, head : head + 1],
                table[of : of + 1],
                right.size(2 if self.keys else 3),
            )
            if torch.allclose(one[0, 0], got[b, h], atol=1e-4):
                found[b, h] = (sample, head, of)
        wrong = [
            at for at, (sample, head, of) in found.items() if (sample, head, of) != (*at, at[1])
        ]
        if len(found) < right.size(0) * right.size(1) or not wrong:
            return ""
        (b, h), (sample, head, of) = wrong[0], found[wrong[0]]
        return (
            f"what is returned for sample {b}, head {h} comes from sample {sample}, head {head} and the table of head {of}. A reshape or "
            "repeat has mixed up samples and heads."
        )


def grid(*sizes: int) -> Iterator[tuple[int, ...]]:
    """All places in a table of these sizes."""
    return product(*map(range, sizes))


def pairs_read(scores: Tensor, every: Tensor) -> Iterator[tuple[tuple, tuple]]:
    """For each pair (i, j) the (token, row) whose product it is, in all samples and heads."""
    apart = (
        (scores.flatten(0, 1)[:, :, :, None] - every.flatten(0, 1).flatten(1)[:, None, None])
        .abs()
        .amax(0)
    )
    least, where = apart.min(-1)
    for i, j in (least < 1e-4).nonzero().tolist():
        yield (i, j), divmod(int(where[i, j]), every.size(-1))
