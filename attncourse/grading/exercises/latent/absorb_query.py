"""Exercise absorb_query: the matrix that makes the keys moves to the query's side."""

from dataclasses import replace
from functools import partial

import torch

from attncourse.grading.compare import plain, same
from attncourse.grading.exercise import Asked, Calls, Exercise, Mistake, sized_cases


def definition(query, w_k):
    """absorbed(b, h, n, c) = sum_d query(b, h, n, d) w_k(h * head_dim + d, c)."""
    h, d = query.size(1), query.size(3)
    rows = w_k.unbind()
    heads = [sum(query[:, i, :, k, None] * rows[i * d + k] for k in range(d)) for i in range(h)]
    return torch.stack(heads, dim=1)


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


def used_matrix(asked: Asked) -> str:
    """The matrix that each head is multiplied by, seen with queries that are the identity."""
    call = asked.wrong[0]
    if len(asked.shaped) < len(asked.wrong):
        return ""
    query, w_k = (x.double() for x in call.case.args)
    d = query.size(-1)
    probe = torch.eye(d).expand(*query.shape[:2], d, d).contiguous()
    ((_, _, seen),) = asked.again([replace(call.case, args=(probe, w_k.float()), gradients=False)])
    if not plain(seen) or seen.shape != (*query.shape[:2], d, w_k.size(1)):
        return ""
    if not same(call.seen.double(), query @ seen.double()):
        return (
            "The absorbed queries are no products of each head's queries and a matrix that is the "
            "same for all of them."
        )
    told = (_of_block(h, used, w_k) for h, used in enumerate(seen[0].double()))
    return next(filter(None, told), "")


def _of_block(h: int, used: torch.Tensor, w_k: torch.Tensor) -> str:
    """Which rows of w_k a head is multiplied by, where these are not its own."""
    own = range(h * len(used), (h + 1) * len(used))
    apart = torch.cdist(used, w_k)
    if apart.amin(1).max() < 1e-3:
        found = apart.argmin(1).tolist()
        rows = ", ".join(map(str, found)), ", ".join(map(str, own))
        says = f"Head {h} is multiplied by rows {rows[0]} of w_k; its rows are {rows[1]}."
        return says if found != list(own) else ""
    block = w_k[own.start : own.stop]
    factor = float((used * block).sum() / block.square().sum())
    if (used - factor * block).abs().max() < 1e-3:
        return f"Head {h} is multiplied by {factor:.3g} times its block of w_k."
    return f"Head {h} is multiplied by a matrix whose rows are not rows of w_k."


EXERCISE = Exercise(
    name="absorb_query",
    judge=Calls(definition, CASES),
    right=right,
    explain=(used_matrix,),
    axes=("b h n e",),
    measures=("gradients",),
    ideas=[
        Mistake(says, answer)
        for says, answer in (
            ("The block is transposed: its rows are head_dim, its columns latent.",
             lambda q, w: q @ blocks(q, w).mT),
            ("w_k is read as if it were stored (latent, heads * head_dim); torch stores (out, in).",
             lambda q, w: q @ w.reshape(-1, q.size(1), q.size(3)).permute(1, 2, 0)),
            ("A head's block is reshaped to (latent, head_dim), which tears its rows apart.",
             lambda q, w: q @ blocks(q, w).reshape(q.size(1), w.size(1), -1).mT),
        )
    ],
)  # fmt: skip
