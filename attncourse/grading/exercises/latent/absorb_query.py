"""Exercise absorb_query: the matrix that makes the keys moves to the query's side."""

from dataclasses import replace
from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Exercise, plain, sized_cases


def definition(query, w_k):
    """Head by head: the queries meet the transpose of the rows that make this head's keys."""
    heads = zip(query.unbind(1), w_k.split(query.size(3)), strict=True)
    return torch.stack([spec.affine(q, rows.mT) for q, rows in heads], dim=1)


CALLS = (  # what is special; b h n d, width of all heads, c; a factor on the query
    ("2 samples, 3 heads, 5 queries, head_dim 4, latent 7", (2, 3, 5, 4, 12, 7), 1),
    ("a latent narrower than a head", (2, 3, 4, 6, 18, 2), 1),
    ("as many heads as queries, head_dim, and latent", (2, 3, 3, 3, 9, 3), 1),
    ("1 head", (2, 1, 3, 5, 5, 4), 1),
    ("1 sample, 1 query, head_dim 1", (1, 4, 1, 1, 4, 3), 1),
)
CASES = partial(sized_cases, letters="b h n d w c", shapes="b h n d, w c", calls=CALLS)


def blocks(query, w_k):
    """w_k as (heads, head_dim, latent)."""
    return w_k.unflatten(0, (query.size(1), -1))


def right(query, w_k):
    return query @ blocks(query, w_k)


def moved(asked: Asked) -> str:
    """Queries that are the identity show the matrix of each head: which number of w_k is where?"""
    call = asked.wrong[0]
    if len(asked.shaped) < len(asked.wrong):
        return ""
    query, w_k = call.case.args
    b, heads, _, d = query.shape
    identity = torch.eye(d).repeat(b, heads, 1, 1)
    ((_, right, seen),) = asked.again([replace(call.case, args=(identity, w_k))])
    if not plain(seen) or seen.shape != right.shape:
        return ""
    apart = ~torch.isclose(seen.double(), right)
    if not apart.any():
        return ""
    _, h, i, j = apart.nonzero()[0].tolist()
    number, place = float(seen[0, h, i, j]), [h * d + i, j]
    found = torch.isclose(w_k, torch.tensor(number)).nonzero().tolist()
    has = f"w_k{found[0]}" if found else f"{number:.4g}"
    return (
        "Where the queries of a head are the identity, its absorbed queries are its block of w_k. "
        f"There, head {h} has {has} in row {i}, column {j}; it should have w_k{place}, "
        f"{float(w_k[*place]):.4g}."
    )


EXERCISE = Exercise(
    name="absorb_query",
    judge=Calls(definition, CASES),
    right=right,
    explain=(moved,),
    axes=("b h n e",),
    measures=("gradients",),
)
