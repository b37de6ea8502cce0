"""Exercise absorb_query: the matrix that makes the keys moves to the query's side."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.compare import plain
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistake, Mistakes, cases_of
from attncourse.grading.inputs import sized_cases
from attncourse.grading.symptoms import COARSE, same


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
ACCEPTED = Accepted(
    batched_product=lambda query, w_k: query @ blocks(query, w_k),
    einsum=lambda query, w_k: torch.einsum("bhnd,hdc->bhnc", query, blocks(query, w_k)),
)


def blocks(query, w_k):
    """w_k as (heads, head_dim, latent)."""
    return w_k.unflatten(0, (query.size(1), -1))


@ACCEPTED.add
def one_head_after_the_other(query, w_k):
    rows = w_k.chunk(query.size(1), dim=0)
    return torch.stack([query[:, h] @ block for h, block in enumerate(rows)], dim=1)


@ACCEPTED.add
def linear_in_float64(query, w_k):
    heads = zip(query.double().unbind(1), w_k.double().split(query.size(3)), strict=True)
    return torch.stack([F.linear(q, w.T) for q, w in heads], dim=1)


@ACCEPTED.add
def block_diagonal(query, w_k):
    w = torch.block_diag(*w_k.split(query.size(3)))  # (h * d, h * c)
    merged = query.transpose(1, 2).flatten(2) @ w
    return merged.unflatten(-1, (query.size(1), -1)).transpose(1, 2)


@ACCEPTED.add
def scores_of_the_unit_latents(query, w_k):
    """The absorbed query is what the query scores against every unit latent."""
    keys = F.linear(torch.eye(w_k.size(1)), w_k).unflatten(-1, (query.size(1), -1))
    return query @ keys.permute(1, 2, 0)


def wrong(change, query, w_k):
    """``change`` gets the query, the blocks of w_k, and what is right."""
    return change(query, w := blocks(query, w_k), query @ w)


MISTAKES = Mistakes(Mistake(says, partial(wrong, change)) for says, change in (
    ("The query is left as it was; multiply it by its head's block of w_k.", lambda q, w, out: q.clone()),
    ("Rows of w_k are given to the heads in turn; head h owns rows h * head_dim to (h + 1) * head_dim.",
     lambda q, w, out: q @ w.flatten(0, 1).unflatten(0, (-1, len(w))).transpose(0, 1)),
    ("All heads use the block of head 0; head h has rows of its own.", lambda q, w, out: q @ w[0]),
    ("The heads take the blocks in reverse order; head 0 owns the first rows.", lambda q, w, out: q @ w.flip(0)),
    ("The heads are added up; each head keeps an absorbed query of its own.", lambda q, w, out: out.sum(1)),
    ("Every head uses the sum of all blocks; head h has its own.", lambda q, w, out: q @ w.sum(0)),
    ("The block is transposed: its rows are head_dim, its columns latent.", lambda q, w, out: q @ w.mT),
    ("w_k is read as if it were stored (latent, heads * head_dim); torch stores (out, in).",
     lambda q, w, out: torch.einsum("bhnd,chd->bhnc", q, w.reshape(-1, *w.shape[:2]))),
    ("A head's block is reshaped to (latent, head_dim), which tears its rows apart; it is (head_dim, latent).",
     lambda q, w, out: q @ w.reshape(w.mT.shape).mT),
    ("The scale 1 / sqrt(head_dim) does not belong in here.", lambda q, w, out: out / q.size(3) ** 0.5),
    ("The scale 1 / sqrt(latent) does not belong in here.", lambda q, w, out: out / w.size(2) ** 0.5),
    ("The softmax is taken here; the statement asks for the product alone.", lambda q, w, out: out.softmax(-1)),
    ("The heads are merged by a reshape without a transpose, so positions mix.",
     lambda q, w, out: torch.einsum("bnhd,hdc->bhnc", q.reshape(len(q), q.size(2), q.size(1), -1), w)),
    ("The axes are (batch, n, heads, latent) here; heads stand before n.", lambda q, w, out: out.transpose(1, 2)),
    ("The heads are joined; keep (batch, heads, n, latent).", lambda q, w, out: out.transpose(1, 2).flatten(2)),
    ("Axes of size 1 are squeezed away; keep all of them.", lambda q, w, out: out.squeeze()),
    ("The inverse of a block is used instead of the block.", lambda q, w, out: q @ torch.linalg.pinv(w).mT),
    ("The last two axes are exchanged; keep (batch, heads, n, latent).", lambda q, w, out: out.mT),
    ("No gradient reaches w_k; it is detached.", lambda q, w, out: q @ w.detach()),
    ("No gradient reaches the query; it is detached.", lambda q, w, out: q.detach() @ w),
    ("No gradient flows back: the result is detached or made inside no_grad.", lambda q, w, out: out.detach()),
    ("The query is changed in place; work on a new tensor.", lambda q, w, out: (out, q.mul_(0.5))[0]),
))  # fmt: skip


class Absorbed(Calls):
    """Finds the matrix that each head was multiplied by; the first call has more queries than head_dim."""

    def notice(self, expected, seen, seed: int) -> str:
        case = cases_of(self, seed)[0]
        (query, w_k), right = (x.double() for x in case.args), expected[f"{case.label}, output"]
        output = seen.get(f"{case.label}, output")
        if not plain(output) or output.shape != right.shape or same(right, output, COARSE):
            return ""
        asked, made = (
            x.double().transpose(0, 1).flatten(1, 2) for x in (query, output)
        )  # (h, b n, width)
        for h, block in enumerate(made):
            used = torch.linalg.pinv(asked[h]) @ block  # (head_dim, latent)
            if (asked[h] @ used - block).abs().max() > 1e-3:
                return f"Absorbed head {h} is no product of query head {h} and a matrix of numbers that are the same for all queries."
            if said := _of_block(used, w_k, h):
                return said
        return ""


def _of_block(used, w_k, h: int) -> str:
    """Which rows of w_k a head was multiplied by."""
    rows = range(h * len(used), (h + 1) * len(used))
    apart = torch.cdist(used, w_k)
    if apart.amin(1).max() < 1e-2:
        found = apart.argmin(1).tolist()
        return "" if found == list(rows) else (
            f"Head {h} is multiplied by rows {', '.join(map(str, found))} of w_k; its rows are {', '.join(map(str, rows))}."
        )  # fmt: skip
    own = w_k[h * len(used) : (h + 1) * len(used)]
    factor = float((used * own).sum() / own.square().sum())
    if (used - factor * own).abs().max() < 1e-2 * abs(factor):
        return f"Head {h} is multiplied by {factor:.3g} times its block of w_k."
    return f"Head {h} is multiplied by a matrix whose rows are not rows of w_k."


EXERCISE = Exercise(
    name="absorb_query", judge=Absorbed(definition, CASES), accepted=ACCEPTED, mistakes=MISTAKES
)
