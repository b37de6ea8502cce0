"""Exercise bottom_right_mask: who may read whom behind a cache."""

import torch

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(n, past):
    """The mask of the course: query i stands at position past + i."""
    return spec.causal(n, past + n, offset=past)


def cases(seed: int) -> list[Case]:
    """More past than new, less, equally much; no past; a single query."""
    sizes = [(3, 4), (5, 2), (3, 3), (4, 0), (1, 6), (1, 0), (2, 1), (2 + seed % 5, 11), (40, 130)]
    return [Case(f"{n} new queries, {p} cached", (n, p), gradients=False) for n, p in sizes]


ACCEPTED = Accepted()


@ACCEPTED.add
def shifted_triangle(n, past):
    return torch.ones(n, past + n, dtype=torch.bool).tril(diagonal=past)


@ACCEPTED.add
def comparison_of_positions(n, past):
    queries = torch.arange(past, past + n)
    return torch.arange(past + n)[None, :] <= queries[:, None]


@ACCEPTED.add
def two_blocks(n, past):
    return torch.cat([torch.ones(n, past).bool(), torch.ones(n, n).tril().bool()], dim=1)


@ACCEPTED.add
def last_rows_of_the_whole(n, past):
    return torch.ones(past + n, past + n, dtype=torch.bool).tril()[past:]


@ACCEPTED.add
def loops(n, past):
    mask = torch.zeros(n, past + n, dtype=torch.bool)
    for i in range(n):
        mask[i, : past + i + 1] = True
    return mask


@ACCEPTED.add
def not_the_future(n, past):
    return torch.triu(torch.ones(n, past + n), past + 1) == 0


MISTAKES = Mistakes()


def rule(says, visible):
    """Register the (n, past + n) table of ``visible(i, j, n, past)``."""

    @MISTAKES.add(says)
    def wrong(n, past):
        i, j = torch.arange(n)[:, None], torch.arange(past + n)
        return visible(i, j, n, past)


rule(
    "The first query is aligned with the first key, as is_causal=True does; query i stands at "
    "position past + i.",
    lambda i, j, n, past: j <= i,
)
rule("True marks the hidden pairs here; it must mark the pairs that may attend.",
     lambda i, j, n, past: j > i + past)  # fmt: skip
rule("A query cannot read itself: j <= i + past and not j < i + past.",
     lambda i, j, n, past: j < i + past)  # fmt: skip
rule("Each query reads one position too far ahead: j <= i + past, without + 1.",
     lambda i, j, n, past: j <= i + past + 1)  # fmt: skip
rule("The triangle is shifted by n; shift it by the number of cached tokens.",
     lambda i, j, n, past: j <= i + n)  # fmt: skip
rule("The triangle is shifted by all past + n keys, so nothing is masked; shift it by past.",
     lambda i, j, n, past: j <= i + past + n)  # fmt: skip
rule("The triangle is shifted to the wrong side: j <= i + past.",
     lambda i, j, n, past: j <= i - past)  # fmt: skip
rule("The cached tokens are hidden; every new query reads all of them.",
     lambda i, j, n, past: (j >= past) & (j <= i + past))  # fmt: skip
rule("Only the cached tokens are visible; a new query also reads new tokens up to itself.",
     lambda i, j, n, past: (j < past) & (i >= 0))  # fmt: skip
rule("Of the new tokens a query reads itself only; it also reads those before itself.",
     lambda i, j, n, past: (j < past) | (j == i + past))  # fmt: skip
rule("The future is kept, and the past is hidden.",
     lambda i, j, n, past: j >= i + past)  # fmt: skip
rule("The mask holds ones and zeros; its dtype must be torch.bool.",
     lambda i, j, n, past: (j <= i + past).float())  # fmt: skip
rule("Zeros and minus infinities are a mask to be added; return booleans.",
     lambda i, j, n, past: torch.zeros(n, past + n).masked_fill(j > i + past, -torch.inf))  # fmt: skip
rule("The shape is (past + n, n); the queries are the rows: (n, past + n).",
     lambda i, j, n, past: (j <= i + past).T)  # fmt: skip
rule("The mask has axes for batch and heads; return two axes, they broadcast.",
     lambda i, j, n, past: (j <= i + past)[None, None])  # fmt: skip
rule("The mask is n by n; there are past + n keys.",
     lambda i, j, n, past: (j <= i)[:, :n])  # fmt: skip
rule("The mask has rows for the cached tokens, too; only the n new ones ask.",
     lambda i, j, n, past: j <= torch.arange(past + n)[:, None])  # fmt: skip
rule("The mask has only the columns of the cached tokens; the new ones are keys, too.",
     lambda i, j, n, past: (j <= i + past)[:, :past])  # fmt: skip
rule("The new tokens stand before the cached ones here; the cached ones come first.",
     lambda i, j, n, past: (j <= i) | (j >= n))  # fmt: skip
rule("All queries get the row of the first one; each reads up to itself.",
     lambda i, j, n, past: (j <= past) & (i >= 0))  # fmt: skip

EXERCISE = Exercise(
    name="bottom_right_mask",
    answer="bottom_right_mask",
    title="The mask behind a cache",
    kind="Implement",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'The mask with a cache' of chapter 4",
    judge=Calls(definition, cases, gradients=False),
    hints=(
        "Draw the causal mask of 5 tokens. Which rows remain when the first 3 are cached?",
        "Query i stands at position past + i and reads keys 0 to past + i.",
        "torch.ones(n, past + n, dtype=torch.bool).tril(diagonal=past)",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
