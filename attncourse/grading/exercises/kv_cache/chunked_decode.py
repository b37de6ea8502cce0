"""Exercise chunked_decode: attend for a chunk of new tokens behind a cache."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(query, key, value, past_key, past_value):
    """The sum of the course over all keys so far; the longer keys and values are the next past."""
    n, past = query.size(2), past_key.size(2)
    keys, values = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    visible = spec.causal(n, past + n, offset=past)
    return spec.scaled_dot_product_attention(query, keys, values, visible)[0], keys, values


def cases(seed: int) -> list[Case]:
    """A sequence of 5 tokens in chunks of every size, 1 to 5; and a few shapes of their own."""
    g = torch.Generator().manual_seed(seed)

    def whole(b, h, m, d, e, loud=1.0):
        query, key, value = (torch.randn(b, h, m, w, generator=g) for w in (d, d, e))
        return loud * query, key, value

    def call(q, k, v, start, end):
        new = slice(start, end)
        return (q[:, :, new], k[:, :, new], v[:, :, new], k[:, :, :start], v[:, :, :start])

    def far():
        """Each score is 768 plus or minus a little, or -768: exp has no number for it, in float64 either."""
        q, k, v = whole(1, 2, 7, 4, 5)
        q[..., 0], k[..., 0] = 24.0 * (-1.0) ** torch.arange(7), 64.0
        return q, k, v

    sequence, found = whole(2, 3, 5, 4, 7), []
    for size in range(1, 6):
        for start in range(0, 5, size):
            end = min(start + size, 5)
            label = f"chunks of {size}: tokens {start} to {end - 1} of 5"
            found.append(Case(label, call(*sequence, start, end), gradients=size == 2))
    return [
        *found,
        Case("4 new tokens behind 2, 1 head", call(*whole(1, 1, 6, 5, 3), 2, 6)),
        Case("large scores", call(*whole(1, 2, 7, 6, 5, 144.0), 4, 7), gradients=False),
        Case("scores near 768 and -768", call(*far(), 3, 7), gradients=False),
    ]


def attend(query, keys, values, visible=None, scale=None):
    scale = query.size(-1) ** -0.5 if scale is None else scale
    scores = query @ keys.mT * scale
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    return torch.softmax(scores, dim=-1) @ values


def extend(key, value, past_key, past_value):
    return torch.cat([past_key, key], dim=2), torch.cat([past_value, value], dim=2)


def triangle(n, m, offset):
    return torch.ones(n, m, dtype=torch.bool).tril(offset)


ACCEPTED = Accepted()


@ACCEPTED.add
def cat_and_mask(query, key, value, past_key, past_value):
    keys, values = extend(key, value, past_key, past_value)
    visible = triangle(query.size(2), keys.size(2), past_key.size(2))
    return attend(query, keys, values, visible), keys, values


@ACCEPTED.add
def of_torch(query, key, value, past_key, past_value):
    keys, values = extend(key, value, past_key, past_value)
    i = torch.arange(query.size(2))[:, None] + past_key.size(2)
    mask = torch.where(torch.arange(keys.size(2)) <= i, 0.0, -math.inf)
    return F.scaled_dot_product_attention(query, keys, values, mask), keys, values


@ACCEPTED.add
def token_by_token(query, key, value, past_key, past_value):
    keys, values, rows = past_key, past_value, []
    for q, k, v in zip(query.split(1, 2), key.split(1, 2), value.split(1, 2), strict=True):
        keys, values = extend(k, v, keys, values)
        rows.append(attend(q, keys, values))
    return torch.cat(rows, dim=2), keys, values


@ACCEPTED.add
def past_and_new_scores(query, key, value, past_key, past_value):
    d, n = query.size(-1), query.size(2)
    old = torch.einsum("bhnd,bhpd->bhnp", query, past_key)
    new = torch.einsum("bhnd,bhmd->bhnm", query, key) + torch.full((n, n), -1e9).triu(1)
    weights = torch.softmax(torch.cat([old, new], -1) / math.sqrt(d), dim=-1)
    old, new = weights.split([past_key.size(2), n], dim=-1)
    output = old @ past_value + torch.einsum("bhnm,bhme->bhne", new, value)
    return output, *extend(key, value, past_key, past_value)


@ACCEPTED.add
def whole_pass_in_double(query, key, value, past_key, past_value):
    keys, values = (x.double() for x in extend(key, value, past_key, past_value))
    padded = torch.cat([torch.zeros_like(past_key), query], dim=2).double()
    output = F.scaled_dot_product_attention(padded, keys, values, is_causal=True)
    return [output[:, :, past_key.size(2) :], keys, values]


MISTAKES = Mistakes()


def masked(says, visible):
    """Register the answer whose mask is ``visible(i, j, n, past)``."""

    @MISTAKES.add(says)
    def wrong(query, key, value, past_key, past_value):
        keys, values = extend(key, value, past_key, past_value)
        n, past = query.size(2), past_key.size(2)
        mask = visible(torch.arange(n)[:, None], torch.arange(past + n), n, past)
        return attend(query, keys, values, mask), keys, values


masked(
    "The mask is aligned at the top left, as is_causal=True does: new query i stands at past + i.",
    lambda i, j, n, past: j <= i,
)
masked(
    "There is no mask: inside a chunk a token reads later tokens.",
    lambda i, j, n, past: (i >= 0) & (j >= 0),
)
masked(
    "A single query needs no mask, but behind a cache a longer chunk gets one that is aligned at the top left.",
    lambda i, j, n, past: (j <= i) | (n == 1),
)
masked(
    "There is a mask only when nothing is cached; a chunk behind a cache needs one, too.",
    lambda i, j, n, past: (j <= i) | (past > 0),
)
masked("A query cannot read itself: j <= i + past.", lambda i, j, n, past: j < i + past)
masked(
    "Each query reads one position too far ahead: j <= i + past.",
    lambda i, j, n, past: j <= i + past + 1,
)
masked("The mask is shifted by n; shift it by the past.", lambda i, j, n, past: j <= i + n)
masked(
    "The cached tokens are hidden; a new query reads all of them.",
    lambda i, j, n, past: (j >= past) & (j <= i + past),
)
masked(
    "Of the new tokens a query reads itself only; it also reads those before itself.",
    lambda i, j, n, past: (j < past) | (j == i + past),
)
masked("The mask is inverted: True = may attend.", lambda i, j, n, past: j > i + past)


def scaled(says, scale):
    """Register the right answer with the factor ``scale(d, m, n)`` on the scores."""

    @MISTAKES.add(says)
    def wrong(query, key, value, past_key, past_value):
        keys, values = extend(key, value, past_key, past_value)
        n, m = query.size(2), keys.size(2)
        visible = triangle(n, m, m - n)
        factor = scale(query.size(-1), m, n)
        return attend(query, keys, values, visible, factor), keys, values


scaled("The scores are not divided by sqrt(head_dim).", lambda d, m, n: 1.0)
scaled("The scores are divided by head_dim, not by its square root.", lambda d, m, n: 1 / d)
scaled("The scores are divided by the root of the number of keys.", lambda d, m, n: m**-0.5)


def shared_out(says, weights_of, hidden=-math.inf):
    """Register the right answer with another softmax, or another number for what is hidden."""

    @MISTAKES.add(says)
    def wrong(query, key, value, past_key, past_value):
        keys, values = extend(key, value, past_key, past_value)
        n, m = query.size(2), keys.size(2)
        scores = query @ keys.mT * query.size(-1) ** -0.5
        weights = weights_of(scores.masked_fill(~triangle(n, m, m - n), hidden))
        return weights.to(values.dtype) @ values, keys, values


def bare(scores):
    e = scores.exp()
    return e / e.sum(-1, keepdim=True)


shared_out(
    "The exponentials overflow on large scores; subtract the largest of each row, as torch.softmax does.",
    bare,
)
shared_out(
    "The exponentials overflow on large scores, in float64 as well; subtract the largest of each row.",
    lambda scores: bare(scores.double()),
)
shared_out(
    "The largest of all scores is subtracted, so rows far below it vanish; subtract that of each row.",
    lambda scores: bare(scores - scores.max()),
)
shared_out(
    "The largest of all scores is subtracted, in float64, but rows far below it vanish there as well; "
    "subtract that of each row.",
    lambda scores: bare(scores.double() - scores.max()),
)
shared_out(
    "Hidden scores become -100, which is more than some scores; minus infinity is less than any.",
    lambda scores: torch.softmax(scores, dim=-1),
    hidden=-100.0,
)


@MISTAKES.add("The past stands behind the new tokens; the cached keys and values come first.")
def past_behind(query, key, value, past_key, past_value):
    keys, values = torch.cat([key, past_key], 2), torch.cat([value, past_value], 2)
    visible = triangle(query.size(2), keys.size(2), past_key.size(2))
    return attend(query, keys, values, visible), keys, values


@MISTAKES.add(
    "Keys and values are joined in different orders, so weights meet other tokens' values."
)
def orders_differ(query, key, value, past_key, past_value):
    keys, values = torch.cat([past_key, key], 2), torch.cat([value, past_value], 2)
    visible = triangle(query.size(2), keys.size(2), past_key.size(2))
    return attend(query, keys, values, visible), keys, values


@MISTAKES.add("Only the new tokens are returned, so the cache does not grow; return all m.")
def new_only(query, key, value, past_key, past_value):
    return cat_and_mask(query, key, value, past_key, past_value)[0], key, value


@MISTAKES.add("The old cache is returned; the new keys and values belong into it.")
def past_only(query, key, value, past_key, past_value):
    return cat_and_mask(query, key, value, past_key, past_value)[0], past_key, past_value


@MISTAKES.add("Only the output is returned; return (output, keys, values).")
def output_only(*args):
    return cat_and_mask(*args)[0]


@MISTAKES.add("The order is (output, values, keys); return (output, keys, values).")
def swapped(*args):
    output, keys, values = cat_and_mask(*args)
    return output, values, keys


@MISTAKES.add("The past is never read: the chunk attends to itself only, and forgets what was.")
def no_past(query, key, value, past_key, past_value):
    n = query.size(2)
    return attend(query, key, value, triangle(n, n, 0)), key, value


@MISTAKES.add("Past and new tokens get a softmax each; one softmax runs over all keys.")
def two_softmaxes(query, key, value, past_key, past_value):
    n = query.size(2)
    output = attend(query, key, value, triangle(n, n, 0))
    if past_key.size(2):
        output = output + attend(query, past_key, past_value)
    return output, *extend(key, value, past_key, past_value)


@MISTAKES.add("The mask is applied after the softmax, so the rows of weights do not sum to 1.")
def masked_after(query, key, value, past_key, past_value):
    keys, values = extend(key, value, past_key, past_value)
    m = keys.size(2)
    weights = attend(query, keys, torch.eye(m)) * triangle(query.size(2), m, past_key.size(2))
    return weights @ values, keys, values


@MISTAKES.add("The cached keys and values are detached; gradients must flow to all five inputs.")
def detached(query, key, value, past_key, past_value):
    return cat_and_mask(query, key, value, past_key.detach(), past_value.detach())


@MISTAKES.add("No gradient reaches the inputs; this runs inside no_grad, or all of it is detached.")
def without_gradients(*args):
    return tuple(x.detach() for x in cat_and_mask(*args))


@MISTAKES.add("Only the last new token asks; the output has a row for each of the n.")
def last_query_only(query, key, value, past_key, past_value):
    output, keys, values = cat_and_mask(query, key, value, past_key, past_value)
    return output[:, :, -1:], keys, values


EXERCISE = Exercise(
    name="chunked_decode",
    answer="chunked_decode",
    title="Attention in chunks",
    kind="Implement",
    points=3,
    difficulty=3,
    minutes=20,
    needs="sections 'The sum' and 'The mask with a cache' of chapter 4",
    judge=Calls(definition, cases),
    hints=(
        "Join the past and the new keys along the sequence, and the values, too. Then it is attention "
        "of n queries and m keys, with a mask.",
        "Query i stands at position past + i, where past is past_key.size(2).",
        "visible = torch.ones(n, m, dtype=torch.bool).tril(diagonal=m - n); scores that are not visible "
        "become -inf before the softmax; return output, keys, values.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
