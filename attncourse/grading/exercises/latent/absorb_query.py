"""Exercise absorb_query: the matrix that makes the keys moves to the query's side."""

import torch
import torch.nn.functional as F

from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(query, w_k):
    """absorbed(b, h, n, c) = sum_d query(b, h, n, d) w_k(h * head_dim + d, c)."""
    b, h, n, d = query.shape
    rows = []
    for head in range(h):
        total = query.new_zeros(b, n, w_k.size(1))
        for k in range(d):
            total = total + query[:, head, :, k, None] * w_k[head * d + k]
        rows.append(total)
    return torch.stack(rows, dim=1)


def cases(seed: int) -> list[Case]:
    """Every axis its own size; a latent narrower and wider than a head; equal sizes; one of each."""
    g = torch.Generator().manual_seed(seed)

    def call(b, h, n, d, c, loud=1.0):
        shapes = (b, h, n, d), (h * d, c)
        query, w_k = (torch.randn(shape, generator=g) for shape in shapes)
        return loud * query, w_k

    return [
        Case("2 samples, 3 heads, 5 queries, head_dim 4, latent 7", call(2, 3, 5, 4, 7)),
        Case("a latent narrower than a head: 2 against 6", call(2, 3, 4, 6, 2)),
        Case("as many heads as queries, head_dim, and latent", call(2, 3, 3, 3, 3)),
        Case("1 head", call(2, 1, 3, 5, 4)),
        Case("1 sample, 1 query, head_dim 1", call(1, 4, 1, 1, 3)),
        Case("a latent of 1", call(2, 3, 2, 4, 1)),
        Case("as wide a latent as all heads together", call(2, 2, 3, 4, 8)),
        Case("large numbers", call(1, 2, 3, 4, 5, 30.0), gradients=False),
    ]


def per_head(query, w_k):
    """w_k as (heads, head_dim, latent)."""
    return w_k.reshape(query.size(1), query.size(3), -1)


ACCEPTED = Accepted()


@ACCEPTED.add
def einsum(query, w_k):
    return torch.einsum("bhnd,hdc->bhnc", query, per_head(query, w_k))


@ACCEPTED.add
def batched_product(query, w_k):
    return query @ w_k.unflatten(0, (query.size(1), -1))


@ACCEPTED.add
def one_head_after_the_other(query, w_k):
    blocks = w_k.chunk(query.size(1), dim=0)
    return torch.stack([query[:, h] @ block for h, block in enumerate(blocks)], dim=1)


@ACCEPTED.add
def linear_in_float64(query, w_k):
    blocks = w_k.double().split(query.size(3))
    heads = [F.linear(q, w.T) for q, w in zip(query.double().unbind(1), blocks, strict=True)]
    return torch.stack(heads, dim=1)


@ACCEPTED.add
def block_diagonal(query, w_k):
    b, h, n, d = query.shape
    w = torch.block_diag(*w_k.split(d))  # (h * d, h * c)
    merged = query.transpose(1, 2).flatten(2) @ w
    return merged.unflatten(-1, (h, -1)).transpose(1, 2)


@ACCEPTED.add
def scores_of_the_unit_latents(query, w_k):
    """The absorbed query is what the query scores against every unit latent."""
    keys = F.linear(torch.eye(w_k.size(1)), w_k).unflatten(-1, (query.size(1), -1))
    return query @ keys.permute(1, 2, 0)


MISTAKES = Mistakes()


@MISTAKES.add("The query is left as it was; it must be multiplied by its head's block of w_k.")
def untouched(query, w_k):
    return query.clone()


@MISTAKES.add(
    "Rows of w_k are given to the heads in turn; head h owns the contiguous rows h * head_dim to "
    "(h + 1) * head_dim."
)
def strided_heads(query, w_k):
    h = query.size(1)
    return torch.einsum("bhnd,hdc->bhnc", query, w_k.unflatten(0, (-1, h)).transpose(0, 1))


@MISTAKES.add("All heads use the block of head 0; head h has rows of its own.")
def first_block_only(query, w_k):
    return query @ w_k[: query.size(3)]


@MISTAKES.add("The heads take the blocks in reverse order; head 0 owns the first rows.")
def blocks_reversed(query, w_k):
    return query @ per_head(query, w_k).flip(0)


@MISTAKES.add("The heads are added up; each head keeps an absorbed query of its own.")
def heads_added(query, w_k):
    return torch.einsum("bhnd,hdc->bnc", query, per_head(query, w_k))


@MISTAKES.add(
    "Every head uses the sum of all blocks; head h uses its own block (in einsum, h must stand in "
    "the result and in both factors)."
)
def blocks_added(query, w_k):
    return torch.einsum("bhnd,gdc->bhnc", query, per_head(query, w_k))


@MISTAKES.add("The block is transposed: its rows are head_dim, its columns latent.")
def transposed(query, w_k):
    return query @ per_head(query, w_k).mT


@MISTAKES.add(
    "w_k is read as if it were stored (latent, heads * head_dim); torch stores (out, in)."
)
def read_as_in_out(query, w_k):
    _, h, _, d = query.shape
    return torch.einsum("bhnd,chd->bhnc", query, w_k.reshape(-1, h, d))


@MISTAKES.add("The scale is put in here; the statement asks for the product alone.")
def scaled(query, w_k):
    return query @ per_head(query, w_k) / query.size(3) ** 0.5


@MISTAKES.add(
    "The scale 1 / sqrt(latent) is put in here; the statement asks for the product alone."
)
def scaled_by_the_latent(query, w_k):
    return query @ per_head(query, w_k) / w_k.size(1) ** 0.5


@MISTAKES.add("The heads were merged by a reshape without a transpose, so positions mix.")
def merged_without_transpose(query, w_k):
    b, h, n, d = query.shape
    merged = query.reshape(b, n, h * d)
    return torch.einsum("bnhd,hdc->bhnc", merged.unflatten(-1, (h, d)), per_head(query, w_k))


@MISTAKES.add("The axes come out as (batch, n, heads, latent); heads stand before n.")
def positions_before_heads(query, w_k):
    return torch.einsum("bhnd,hdc->bnhc", query, per_head(query, w_k))


@MISTAKES.add("The heads are joined into one axis; the result keeps (batch, heads, n, latent).")
def joined(query, w_k):
    return torch.einsum("bhnd,hdc->bnhc", query, per_head(query, w_k)).flatten(2)


@MISTAKES.add("squeeze() drops axes of size 1; one sample, one head or one query must stay.")
def squeezed(query, w_k):
    return (query @ per_head(query, w_k)).squeeze()


@MISTAKES.add("The inverse of the block is used; what moves across a dot product is the transpose.")
def inverted(query, w_k):
    return query @ torch.linalg.pinv(per_head(query, w_k)).mT


@MISTAKES.add("The last two axes are exchanged; the result is (batch, heads, n, latent).")
def latent_before_positions(query, w_k):
    return torch.einsum("bhnd,hdc->bhcn", query, per_head(query, w_k))


@MISTAKES.add(
    "A head's block is reshaped to (latent, head_dim), which reads the same numbers in another order; "
    "it is (head_dim, latent)."
)
def block_reshaped(query, w_k):
    _, h, _, d = query.shape
    return torch.einsum("bhnd,hcd->bhnc", query, w_k.reshape(h, -1, d))


@MISTAKES.add("No gradient reaches w_k; it is detached.")
def matrix_detached(query, w_k):
    return query @ per_head(query, w_k).detach()


@MISTAKES.add("No gradient reaches the query; it is detached.")
def query_detached(query, w_k):
    return query.detach() @ per_head(query, w_k)


@MISTAKES.add("No gradient flows at all; the result is detached.")
def detached(query, w_k):
    return (query @ per_head(query, w_k)).detach()


@MISTAKES.add("The query is changed in place; work on a new tensor.")
def changed_in_place(query, w_k):
    out = query @ per_head(query, w_k)
    query.mul_(0.5)
    return out


EXERCISE = Exercise(
    name="absorb_query",
    answer="absorb_query",
    title="Move the matrix to the query",
    kind="Implement",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'By hand' of chapter 7",
    judge=Calls(definition, cases),
    hints=(
        "Cut the rows of w_k into one block per head: (num_heads, head_dim, latent_dim).",
        "k = W c, so q . k = q . (W c) = (q as a row, times W) . c. No transpose is needed: the "
        "block is already (head_dim, latent_dim).",
        'torch.einsum("bhnd,hdc->bhnc", query, w_k.unflatten(0, (query.size(1), -1)))',
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
