"""Exercise absorb_query: the matrix that makes the keys moves to the query's side."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Exercise, sized_cases
from attncourse.grading.explain.probes import simpler


def definition(query, w_k):
    """Head by head: the queries meet the transpose of the rows that make this head's keys."""
    heads = zip(query.unbind(1), w_k.split(query.size(3)), strict=True)
    return torch.stack([spec.affine(q, rows.mT) for q, rows in heads], dim=1)


CALLS = (  # what is special; b h n d, width of all heads, c; a factor on the query
    ("2 samples, 3 heads, 5 queries, head_dim 4, latent 7", (2, 3, 5, 4, 12, 7), 1),
    ("a latent narrower than a head", (2, 3, 4, 6, 18, 2), 1),
    ("as many heads as queries, head_dim, and latent", (2, 3, 3, 3, 9, 3), 1),
)
CASES = partial(sized_cases, letters="b h n d w c", shapes="b h n d, w c", calls=CALLS)


def blocks(query, w_k):
    """w_k as (heads, head_dim, latent)."""
    return w_k.unflatten(0, (query.size(1), -1))


def right(query, w_k):
    return query @ blocks(query, w_k)


ROWS = torch.arange(1.0, 5)[:, None].expand(4, 3)  # two heads that are 2 wide, a latent of 3
ASK = torch.eye(2)  # (1, 0) for the first row of a head, (0, 1) for its second
QUESTIONS = (
    ("Row k of w_k holds k + 1 in all 3 places; head 0 asks with (0, 1), head 1 with (1, 0)",
     (ASK.flip(0)[None, :, None], ROWS)),
    ("Column c of w_k holds c + 1 in all 4 rows; both heads ask with (1, 0)",
     (ASK[:1].expand(1, 2, 1, 2), torch.arange(1.0, 4).expand(4, 3))),
    ("Row k of w_k holds k + 1 in all 3 places; each head asks with (1, 0), and then with (0, 1)",
     (ASK.expand(1, 2, 2, 2), ROWS)),
)  # fmt: skip
EXERCISE = Exercise(
    name="absorb_query",
    judge=Calls(definition, CASES),
    right=right,
    axes=("b h n e",),
    explain=(simpler(*QUESTIONS),),
)
