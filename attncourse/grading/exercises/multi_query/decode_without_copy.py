"""Exercise decode_without_copy: one decoding step that reads the cache where it lies."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.allocations import made_by
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.memory_judge import Budget


def cases(seed: int) -> list[Case]:
    """Every axis its own size; one sample; one token; large scores; 512 tokens, to be measured."""
    g = torch.Generator().manual_seed(seed)

    def call(b, h, m, d, e, loud=1.0):
        shapes = (b, h, 1, d), (b, 1, m, d), (b, 1, m, e)
        query, key, value = (torch.randn(s, generator=g) for s in shapes)
        return loud * query, key, value

    far = call(1, 3, 5, 4, 4)  # scores near 768 and -768: exp has no number for them
    far[0][..., 0], far[1][..., 0] = torch.tensor([[[24.0], [-24.0], [24.0]]]), 64.0
    return [
        Case("2 samples, 3 heads, 5 tokens, head_dim 6, values 7 wide", call(2, 3, 5, 6, 7)),
        Case("as many samples as heads", call(3, 3, 4, 5, 2)),
        Case("1 sample, 4 heads, 3 tokens", call(1, 4, 3, 4, 4)),
        Case("1 head", call(2, 1, 4, 3, 5)),
        Case("1 token", call(2, 3, 1, 4, 4)),
        Case("large scores", call(2, 3, 5, 6, 4, loud=900.0)),
        Case("scores near 768 and -768", far),
        Case(MEASURED, call(3, 4, 512, 16, 16)),
    ]


MEASURED = "3 samples, 4 heads, 512 tokens, head_dim 16"
NO_COPY = f"{MEASURED}, no new tensor is as large as the cached keys"


def large_call(g):
    """Keys and values are 104 MiB each, all else is small."""
    shapes = (1, 2, 1, 128), (1, 1, 13 * 2**14, 128), (1, 1, 13 * 2**14, 128)
    return tuple(torch.randn(s, generator=g) for s in shapes)


def fused(query, key, value):
    """What is right, quickly."""
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


BUDGET = Budget(large_call, fused)


class WithoutCopy(Calls):
    """`Calls`, and in the longest of them the size of what is made on the way."""

    def observe(self, answer, seed: int):
        seen = super().observe(answer, seed)
        if callable(answer):
            args = self.cases(seed)[-1].args
            try:
                made = made_by(answer, *args)
            except (Exception, SystemExit):
                return seen  # told by the output
            times = made.new / args[1].numel()
            copied = f"{made.how}, {times:.0f} x the numbers of the keys"
            seen[NO_COPY] = times < 1 or copied
            seen |= BUDGET.proof(self, answer, seed, seen, NO_COPY)
        return seen

    def expected(self, seed: int):
        return super().expected(seed) | {NO_COPY: True}


def definition(query, key, value):
    """The loops of the course; the new token may read everything."""
    return spec.grouped_query_attention(query, key, value)[0]


def weights_of(rows, key, scale=None):
    """Softmax of rows (b, r, d) against key (b, 1, m, d)."""
    scale = rows.size(-1) ** -0.5 if scale is None else scale
    return torch.softmax(rows @ key[:, 0].mT * scale, dim=-1)


ACCEPTED = Accepted()


@ACCEPTED.add
def heads_as_rows(query, key, value):
    return (weights_of(query[:, :, 0], key) @ value[:, 0])[:, :, None]


@ACCEPTED.add
def folded_and_of_torch(query, key, value):
    return F.scaled_dot_product_attention(query.transpose(1, 2), key, value).transpose(1, 2)


@ACCEPTED.add
def einsum(query, key, value):
    q, k, v = query.squeeze(2), key.squeeze(1), value.squeeze(1)
    scores = torch.einsum("bhd,bmd->bhm", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhm,bme->bhe", scores.softmax(-1), v).unsqueeze(2)


@ACCEPTED.add
def one_head_after_the_other(query, key, value):
    heads = [weights_of(query[:, h], key) @ value[:, 0] for h in range(query.size(1))]
    return torch.stack(heads, dim=1)


@ACCEPTED.add
def sample_by_sample(query, key, value):
    out = torch.empty(*query.shape[:3], value.size(-1))
    for b in range(len(query)):
        scores = key[b, 0] @ query[b, :, 0].T / query.size(-1) ** 0.5  # (m, h)
        out[b, :, 0] = torch.softmax(scores, dim=0).T @ value[b, 0]
    return out


@ACCEPTED.add
def batched_product(query, key, value):
    scores = torch.bmm(query.flatten(1, 2) / query.size(-1) ** 0.5, key.flatten(1, 2).mT)
    weights = torch.exp(scores.double() - scores.double().logsumexp(-1, keepdim=True))
    return torch.bmm(weights.float(), value.flatten(1, 2)).unsqueeze(2)


@ACCEPTED.add
def shared_by_torch(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


MISTAKES = Mistakes()


@MISTAKES.add("repeat_interleave writes the keys and values out once for every head.")
def repeated(query, key, value):
    k, v = (x.repeat_interleave(query.size(1), dim=1) for x in (key, value))
    return F.scaled_dot_product_attention(query, k, v)


@MISTAKES.add("repeat writes the keys and values out once for every head.")
def repeated_by_repeat(query, key, value):
    k, v = (x.repeat(1, query.size(1), 1, 1) for x in (key, value))
    return F.scaled_dot_product_attention(query, k, v)


@MISTAKES.add(
    "A product that broadcasts over the heads copies the keys for each of them. Let the heads be the "
    "rows of one product: query[:, :, 0] @ key[:, 0].mT."
)
def broadcast(query, key, value):
    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value


@MISTAKES.add(
    "expand is free, but a product that reads what was expanded copies it for every head; so does "
    "contiguous."
)
def expanded_and_contiguous(query, key, value):
    k, v = (x.expand(-1, query.size(1), -1, -1).contiguous() for x in (key, value))
    return F.scaled_dot_product_attention(query, k, v)


@MISTAKES.add("Stacking the same keys for every head copies them.")
def stacked(query, key, value):
    k, v = (torch.cat([x] * query.size(1), dim=1) for x in (key, value))
    return F.scaled_dot_product_attention(query, k, v)


@MISTAKES.add(
    "query * key holds every product of every head before it is summed; a matrix product does not."
)
def products_held(query, key, value):
    scores = (query * key).sum(-1) / query.size(-1) ** 0.5
    return (torch.softmax(scores, dim=-1)[..., None] * value).sum(2, keepdim=True)


@MISTAKES.add("The scale multiplies the keys, which makes a copy of them; scale the query.")
def keys_scaled(query, key, value):
    key = key / query.size(-1) ** 0.5
    return (weights_of(query[:, :, 0], key, scale=1.0) @ value[:, 0])[:, :, None]


@MISTAKES.add(
    "The scale is multiplied into the cached keys in place: the next step finds them small."
)
def keys_scaled_in_place(query, key, value):
    key /= query.size(-1) ** 0.5
    return (weights_of(query[:, :, 0], key, scale=1.0) @ value[:, 0])[:, :, None]


@MISTAKES.add("The keys are converted to float64, which copies the cache.")
def cache_in_double(query, key, value):
    q, k, v = query.double(), key.double(), value.double()
    return heads_as_rows(q, k, v)


@MISTAKES.add(
    "The turned keys are made contiguous, which copies them; a product takes them as they are."
)
def turned_and_contiguous(query, key, value):
    scores = query[:, :, 0] @ key[:, 0].transpose(1, 2).contiguous()
    weights = torch.softmax(scores / query.size(-1) ** 0.5, dim=-1)
    return (weights @ value[:, 0])[:, :, None]


@MISTAKES.add("clone copies the keys.")
def cloned(query, key, value):
    return heads_as_rows(query, key[:, 0].clone()[:, None], value)


@MISTAKES.add(
    "is_causal counts the folded heads as positions: head h then reads tokens 0 to h only. A new "
    "token may read everything."
)
def causal_over_folded_heads(query, key, value):
    rows = query.transpose(1, 2)
    return F.scaled_dot_product_attention(rows, key, value, is_causal=True).transpose(1, 2)


@MISTAKES.add(
    "is_causal lets query 0 read key 0 only; the new token is the last one and may read everything."
)
def causal(query, key, value):
    return value[:, :, :1].expand(-1, query.size(1), -1, -1)


@MISTAKES.add("The scores are not divided by the square root of head_dim.")
def unscaled(query, key, value):
    return (weights_of(query[:, :, 0], key, 1.0) @ value[:, 0])[:, :, None]


@MISTAKES.add("The scale uses the number of heads; it is the square root of head_dim.")
def scaled_by_heads(query, key, value):
    return (weights_of(query[:, :, 0], key, query.size(1) ** -0.5) @ value[:, 0])[:, :, None]


@MISTAKES.add("The softmax runs over the heads; each head shares out its weight among the tokens.")
def softmax_over_heads(query, key, value):
    scores = query[:, :, 0] @ key[:, 0].mT / query.size(-1) ** 0.5
    return (torch.softmax(scores, dim=1) @ value[:, 0])[:, :, None]


def exponentials(scores):
    e = scores.exp()
    return e / e.sum(-1, keepdim=True)


for says, weights_from in (
    ("The exponentials overflow on large scores; subtract the largest of each row, as torch.softmax "
     "does.", exponentials),
    ("The exponentials overflow on large scores, in float64 as well; subtract the largest of each row.",
     lambda s: exponentials(s.double())),
    ("The largest of all scores is subtracted, so heads far below it vanish; subtract that of each row.",
     lambda s: exponentials(s - s.max())),
):  # fmt: skip

    @MISTAKES.add(says)
    def bare(query, key, value, weights_from=weights_from):
        weights = weights_from(query[:, :, 0] @ key[:, 0].mT / query.size(-1) ** 0.5)
        return (weights.float() @ value[:, 0])[:, :, None]


@MISTAKES.add("The heads are averaged before they ask; every head asks its own question.")
def averaged_queries(query, key, value):
    return heads_as_rows(query.mean(1, keepdim=True).expand_as(query), key, value)


@MISTAKES.add("The last token is left out; its keys and values are in the cache already.")
def last_token_left_out(query, key, value):
    return heads_as_rows(query, key[:, :, :-1], value[:, :, :-1])


@MISTAKES.add("The heads stay folded, as positions of one head; return (batch, heads, 1, e).")
def still_folded(query, key, value):
    return heads_as_rows(query, key, value).transpose(1, 2)


@MISTAKES.add("The axis of the single position is missing; return (batch, heads, 1, e).")
def position_dropped(query, key, value):
    return heads_as_rows(query, key, value).squeeze(2)


@MISTAKES.add("The keys are mixed instead of the values.")
def keys_mixed(query, key, value):
    return heads_as_rows(query, key, key)


EXERCISE = Exercise(
    name="decode_without_copy",
    answer="decode_step",
    title="Decode without a copy",
    kind="Implement",
    points=3,
    difficulty=3,
    minutes=20,
    needs="section 'One decoding step' of chapter 5",
    judge=WithoutCopy(definition, cases, gradients=False),
    hints=(
        "All heads ask the same keys. What is a head, seen from the keys?",
        "query[:, :, 0] has shape (batch, heads, head_dim): a matrix for each sample, with one row a "
        "head. key[:, 0] has one matrix for each sample, too. Nothing needs to be repeated.",
        "rows = query[:, :, 0] / math.sqrt(query.size(-1)); weights = torch.softmax(rows @ key[:, "
        "0].mT, dim=-1); return (weights @ value[:, 0])[:, :, None].",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
