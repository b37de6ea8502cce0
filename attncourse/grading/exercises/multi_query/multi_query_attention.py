"""Exercise multi_query_attention: many query heads, one key head and one value head."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(query, key, value, is_causal):
    """The loops of the course, with one key head."""
    key, value = key[:, None], value[:, None]
    return spec.grouped_query_attention(query, key, value, is_causal=is_causal)


def cases(seed: int) -> list[Case]:
    """All axes different; causal with fewer and with more queries than keys; equal axes; one token."""
    g = torch.Generator().manual_seed(seed)

    def call(b, h, n, m, d, e, is_causal, loud=1.0):
        shapes = (b, h, n, d), (b, m, d), (b, m, e)
        query, key, value = (torch.randn(s, generator=g) for s in shapes)
        return loud * query, key, value, is_causal

    far = call(1, 2, 4, 5, 4, 3, True)  # scores near 768 and -768: exp has no number for them
    far[0][..., 0], far[1][..., 0] = 24.0 * (-1.0) ** torch.arange(4), 64.0
    return [
        Case(
            "2 samples, 3 heads, 4 queries, 5 keys, head_dim 6, values 7 wide",
            call(2, 3, 4, 5, 6, 7, False),
        ),
        Case("the same, causal", call(2, 3, 4, 5, 6, 7, True)),
        Case("causal, more queries than keys", call(2, 2, 5, 3, 4, 6, True)),
        Case("as many samples as heads", call(3, 3, 4, 5, 2, 4, False)),
        Case("as many queries as keys, causal", call(1, 4, 5, 5, 3, 3, True)),
        Case("1 head", call(2, 1, 3, 4, 5, 5, False)),
        Case("1 query, causal", call(2, 3, 1, 4, 2, 5, True)),
        Case("1 token", call(1, 2, 1, 1, 3, 2, True)),
        # float32 rounds the large scores, and the gradients with them
        Case("large scores", call(1, 2, 4, 5, 3, 6, False, loud=900.0), gradients=False),
        Case("large scores, causal", call(1, 2, 4, 4, 3, 6, True, loud=900.0), gradients=False),
        Case("scores near 768 and -768, causal", far, gradients=False),
    ]


def visible(n, m):
    return torch.ones(n, m, dtype=torch.bool).tril()


def attend(query, key, value, mask=None, scale=None, axis=-1):
    """Output and weights; key and value broadcast over the heads."""
    scale = query.size(-1) ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=axis)
    return weights @ value, weights


ACCEPTED = Accepted()


@ACCEPTED.add
def broadcast_over_heads(query, key, value, is_causal):
    mask = visible(query.size(2), key.size(1)) if is_causal else None
    return attend(query, key[:, None], value[:, None], mask)


@ACCEPTED.add
def heads_folded_into_queries(query, key, value, is_causal):
    h, n = query.shape[1:3]
    mask = visible(n, key.size(1)).repeat(h, 1) if is_causal else None
    out, weights = attend(query.flatten(1, 2), key, value, mask)
    return out.unflatten(1, (h, n)), weights.unflatten(1, (h, n))


@ACCEPTED.add
def einsum(query, key, value, is_causal):
    scores = torch.einsum("bhnd,bmd->bhnm", query, key) / math.sqrt(key.shape[-1])
    if is_causal:
        i, j = torch.arange(query.shape[2])[:, None], torch.arange(key.shape[1])
        scores = torch.where(j <= i, scores, -1e9)
    weights = scores.softmax(dim=3)
    return torch.einsum("bhnm,bme->bhne", weights, value), weights


@ACCEPTED.add
def one_head_after_the_other(query, key, value, is_causal):
    mask = visible(query.size(2), key.size(1)) if is_causal else None
    heads = [attend(query[:, h], key, value, mask) for h in range(query.size(1))]
    outputs, weights = zip(*heads, strict=True)
    return torch.stack(outputs, dim=1), torch.stack(weights, dim=1)


@ACCEPTED.add
def repeated_and_of_torch(query, key, value, is_causal):
    k, v = (x.unsqueeze(1).repeat(1, query.size(1), 1, 1) for x in (key, value))
    out = F.scaled_dot_product_attention(query, k, v, is_causal=is_causal)
    eye = torch.eye(k.size(2)).expand(*k.shape[:2], -1, -1)
    return out, F.scaled_dot_product_attention(query, k, eye, is_causal=is_causal)


@ACCEPTED.add
def in_double_and_a_float_mask(query, key, value, is_causal):
    q, k, v = query.double(), key.double().unsqueeze(1), value.double().unsqueeze(1)
    scores = (q / q.shape[-1] ** 0.5) @ k.transpose(-2, -1)
    if is_causal:
        scores = scores + torch.full(scores.shape[2:], -math.inf, dtype=q.dtype).triu(1)
    weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    return [weights @ v, weights]


MISTAKES = Mistakes()


def wrong(says, **changes):
    """A mistake that is `broadcast_over_heads` with another scale, axis or mask."""
    scale, axis, mask_of = (changes.get(x) for x in ("scale", "axis", "mask"))

    @MISTAKES.add(says)
    def answer(query, key, value, is_causal):
        mask = (mask_of or visible)(query.size(2), key.size(1)) if is_causal else None
        factor = scale(query, key) if scale else None
        return attend(query, key[:, None], value[:, None], mask, factor, axis or -1)


wrong("The scores are not divided by the square root of head_dim.", scale=lambda q, k: 1.0)
wrong(
    "The scores are divided by head_dim instead of its square root.",
    scale=lambda q, k: 1 / q.size(-1),
)
wrong(
    "The scale uses the width of all heads together; it is the square root of head_dim.",
    scale=lambda q, k: (q.size(1) * q.size(-1)) ** -0.5,
)
wrong(
    "The scale uses the number of keys; it is the square root of head_dim.",
    scale=lambda q, k: k.size(1) ** -0.5,
)
wrong(
    "The softmax runs over the queries; each query shares out its weight among the keys.", axis=-2
)
wrong("The softmax runs over the heads; each head shares out its weight among the keys.", axis=1)
wrong(
    "is_causal is ignored: with it, query i reads keys 0 to i only.",
    mask=lambda n, m: torch.ones(n, m, dtype=torch.bool),
)
wrong(
    "The causal mask is aligned to the last key; here query i reads keys 0 to i.",
    mask=lambda n, m: torch.ones(n, m, dtype=torch.bool).tril(m - n),
)
wrong(
    "The causal mask hides the query's own position, and query 0 reads nothing; j <= i, not j < i.",
    mask=lambda n, m: torch.ones(n, m, dtype=torch.bool).tril(-1),
)
wrong("The causal mask is turned around: it hides the past and shows the future.",
      mask=lambda n, m: torch.ones(n, m, dtype=torch.bool).triu())  # fmt: skip


@MISTAKES.add("The causal mask is applied whether is_causal is True or not.")
def always_causal(query, key, value, is_causal):
    return broadcast_over_heads(query, key, value, True)


@MISTAKES.add(
    "The causal mask counts the folded rows: the second head starts at row n, so it sees n keys more. "
    "Repeat the mask of one head."
)
def mask_of_folded_rows(query, key, value, is_causal):
    h, n = query.shape[1:3]
    mask = visible(h * n, key.size(1)) if is_causal else None
    out, weights = attend(query.flatten(1, 2), key, value, mask)
    return out.unflatten(1, (h, n)), weights.unflatten(1, (h, n))


@MISTAKES.add(
    "The folded rows are unfolded in another order: they were flattened as (heads, queries), so "
    "unflatten them so."
)
def unfolded_wrongly(query, key, value, is_causal):
    h, n = query.shape[1:3]
    mask = visible(n, key.size(1)).repeat(h, 1) if is_causal else None
    out, weights = attend(query.flatten(1, 2), key, value, mask)
    return tuple(x.unflatten(1, (n, h)).transpose(1, 2) for x in (out, weights))


@MISTAKES.add("The causal mask is (n, n); it has one row a query and one column a key: (n, m).")
def square_mask(query, key, value, is_causal):
    mask = visible(query.size(2), query.size(2)) if is_causal else None
    return attend(query, key[:, None], value[:, None], mask)


def exponentials(s):
    return s.exp() / s.exp().sum(-1, keepdim=True)


for says, hidden, weights_of in (
    ("Hidden scores are set to 0 instead of minus infinity, so hidden keys keep some weight.",
     0.0, lambda s: s.softmax(-1)),
    ("Hidden scores become -100, which is more than some scores; minus infinity is less than any.",
     -100.0, lambda s: s.softmax(-1)),
    ("The exponential overflows on large scores; subtract the largest score of the row first, as "
     "torch.softmax does.", -math.inf, exponentials),
    ("The exponential overflows on large scores, in float64 as well; subtract the largest of the row.",
     -math.inf, lambda s: exponentials(s.double()).float()),
    ("The largest of all scores is subtracted; rows far below it vanish. Subtract that of the row.",
     -math.inf, lambda s: exponentials(s - s.max())),
):  # fmt: skip

    @MISTAKES.add(says)
    def shared_out(q, key, value, is_causal, hidden=hidden, weights_of=weights_of):
        scores = q @ key[:, None].mT / q.size(-1) ** 0.5
        mask = visible(*scores.shape[2:]) | (not is_causal)
        weights = weights_of(scores.masked_fill(~mask, hidden))
        return weights @ value[:, None], weights


@MISTAKES.add("The query is scaled in place; the caller finds it changed.")
def scaled_in_place(query, key, value, is_causal):
    query *= query.size(-1) ** -0.5
    mask = visible(query.size(2), key.size(1)) if is_causal else None
    return attend(query, key[:, None], value[:, None], mask, scale=1.0)


@MISTAKES.add("The weights are masked after the softmax, so the rows no longer sum to 1.")
def masked_after_the_softmax(query, key, value, is_causal):
    _, weights = attend(query, key[:, None], value[:, None])
    if is_causal:
        weights = weights * visible(query.size(2), key.size(1))
    return weights @ value[:, None], weights


@MISTAKES.add(
    "The head axis is missing in key and value, so the batch is taken for the heads: write key[:, None]."
)
def batch_taken_for_heads(query, key, value, is_causal):
    mask = visible(query.size(2), key.size(1)) if is_causal else None
    return attend(query, key, value, mask)


@MISTAKES.add("The query heads are averaged before they ask; every head asks its own question.")
def averaged_queries(query, key, value, is_causal):
    query = query.mean(dim=1, keepdim=True).expand_as(query)
    return broadcast_over_heads(query, key, value, is_causal)


@MISTAKES.add("All heads get the weights of head 0; every head asks its own question.")
def head_0_for_all(query, key, value, is_causal):
    return broadcast_over_heads(query[:, :1].expand_as(query), key, value, is_causal)


@MISTAKES.add("The outputs of the heads are averaged; return one for each head.")
def averaged_outputs(query, key, value, is_causal):
    out, weights = broadcast_over_heads(query, key, value, is_causal)
    return out.mean(dim=1, keepdim=True), weights


@MISTAKES.add("The weights are averaged over the heads; return (batch, heads, n, m).")
def averaged_weights(query, key, value, is_causal):
    out, weights = broadcast_over_heads(query, key, value, is_causal)
    return out, weights.mean(dim=1)


@MISTAKES.add("The heads stay folded: return (batch, heads, n, e) and (batch, heads, n, m).")
def still_folded(query, key, value, is_causal):
    out, weights = broadcast_over_heads(query, key, value, is_causal)
    return out.flatten(1, 2), weights.flatten(1, 2)


@MISTAKES.add("The heads stand behind the positions; return (batch, heads, n, ...).")
def positions_first(query, key, value, is_causal):
    out, weights = broadcast_over_heads(query, key, value, is_causal)
    return out.transpose(1, 2), weights.transpose(1, 2)


@MISTAKES.add("The keys are mixed instead of the values.")
def keys_mixed(query, key, value, is_causal):
    return broadcast_over_heads(query, key, key, is_causal)


@MISTAKES.add("Only the output is returned; return (output, weights).")
def output_only(query, key, value, is_causal):
    return broadcast_over_heads(query, key, value, is_causal)[0]


@MISTAKES.add("The order is (weights, output); return (output, weights).")
def swapped(query, key, value, is_causal):
    return broadcast_over_heads(query, key, value, is_causal)[::-1]


@MISTAKES.add("No gradient flows through the weights; they are detached or made inside no_grad.")
def detached(query, key, value, is_causal):
    weights = broadcast_over_heads(query, key, value, is_causal)[1].detach()
    return weights @ value[:, None], weights


EXERCISE = Exercise(
    name="multi_query_attention",
    answer="multi_query_attention",
    title="Multi-query attention",
    kind="Implement",
    points=2,
    difficulty=2,
    minutes=15,
    needs="sections 'By hand' to 'The function' of chapter 5",
    judge=Calls(definition, cases),
    hints=(
        "It is attention as you know it; only the shapes need a thought. Which axis do key and value "
        "lack?",
        "key[:, None] has shape (batch, 1, m, d) and broadcasts over the heads of the query. The "
        "causal mask is one (n, m) table for all heads: torch.ones(n, m, dtype=torch.bool).tril().",
        "scores = query @ key[:, None].mT / math.sqrt(query.size(-1)), then masked_fill(~mask, "
        "-math.inf) if is_causal, softmax over the last axis, and weights @ value[:, None].",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
