"""Exercise grouped_query_attention: groups share a key head, and nothing is copied."""

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.exercises.grouped_query._grouped_query_attention_judge import (
    BUDGET,
    SIZE,
    cases,
    definition,
    memory,
)
from attncourse.grading.memory_judge import MemoryLimited


def grouped(query, key):
    """(b, g, heads of a group, n, d)."""
    return query.unflatten(1, (key.size(1), query.size(1) // key.size(1)))


ACCEPTED = Accepted()


@ACCEPTED.add
def heads_folded_into_queries(query, key, value):
    r, n = query.size(1) // key.size(1), query.size(2)
    rows = grouped(query, key).flatten(2, 3)
    weights = torch.softmax(rows @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return (weights @ value).unflatten(2, (r, n)).flatten(1, 2)


@ACCEPTED.add
def folded_and_of_torch(query, key, value):
    b, h, n, d = query.shape
    rows = query.reshape(b, key.size(1), -1, d)
    return F.scaled_dot_product_attention(rows, key, value).reshape(b, h, n, value.size(-1))


@ACCEPTED.add
def einsum(query, key, value):
    scores = torch.einsum("bgrnd,bgmd->bgrnm", grouped(query, key), key) * key.shape[-1] ** -0.5
    return torch.einsum("bgrnm,bgme->bgrne", scores.softmax(-1), value).flatten(1, 2)


@ACCEPTED.add
def one_head_after_the_other(query, key, value):
    r, heads = query.size(1) // key.size(1), []
    for h in range(query.size(1)):
        k, v = key[:, h // r], value[:, h // r]
        heads.append(torch.softmax(query[:, h] @ k.mT / k.size(-1) ** 0.5, dim=-1) @ v)
    return torch.stack(heads, dim=1)


@ACCEPTED.add
def group_after_group_in_double(query, key, value):
    r = query.shape[1] // key.shape[1]
    outputs = []
    for q, k, v in zip(
        query.double().split(r, 1), key.double().unbind(1), value.double().unbind(1), strict=True
    ):
        scores = torch.einsum("brnd,bmd->brnm", q, k) / q.shape[-1] ** 0.5
        weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
        outputs.append(torch.einsum("brnm,bme->brne", weights, v))
    return torch.cat(outputs, dim=1)  # fmt: skip


@ACCEPTED.add
def sample_after_sample(query, key, value):
    r, out = query.size(1) // key.size(1), []
    for q, k, v in zip(query, key, value, strict=True):
        heads = [F.scaled_dot_product_attention(q[h], k[h // r], v[h // r]) for h in range(len(q))]
        out.append(torch.stack(heads))
    return torch.stack(out)


MISTAKES = Mistakes()
COPIED = "for every query head: its tensors are larger than twice key"


@MISTAKES.add(
    f"The output is right, but keys or values are copied {COPIED}. repeat_interleave does that, a matmul "
    "that broadcasts, and enable_gqa=True when values and keys differ in width."
)
def copied(query, key, value):
    k, v = (x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in (key, value))
    return F.scaled_dot_product_attention(query, k, v)


def attend(q, k, v, scale=None, axis=-1):
    """From (b, g, r, n, d) and (b, g, m, d); the axes of the scores are (b, g, r, n, m)."""
    scale = q.size(-1) ** -0.5 if scale is None else scale
    weights = torch.softmax(torch.einsum("bgrnd,bgmd->bgrnm", q, k) * scale, dim=axis)
    return torch.einsum("bgrnm,bgme->bgrne", weights, v)


def mistake(says, likely=False):
    """Register a rule; a likely one twice, also in a version that copies the keys."""

    def register(rule):
        def copying(query, key, value):
            repeated = key.repeat_interleave(query.size(1) // key.size(1), dim=1)
            return rule(query, key, value) + 0 * repeated.mean()

        MISTAKES.add(says)(rule)
        if likely:
            MISTAKES.add(f"{says} And keys or values are copied {COPIED}.")(copying)
        return rule

    return register


@mistake("The groups are strided, h % G; query head h reads key head h // (H / G).", likely=True)
def strided(query, key, value):
    q = query.unflatten(1, (-1, key.size(1))).transpose(1, 2)
    return attend(q, key, value).transpose(1, 2).flatten(1, 2)


@mistake("Keys are read in contiguous order, but the heads of the output stand in strided order.")
def output_strided(query, key, value):
    return attend(grouped(query, key), key, value).transpose(1, 2).flatten(1, 2)


@mistake("The queries are grouped strided, the output contiguous: its heads are in another order.")
def queries_strided(query, key, value):
    q = query.unflatten(1, (-1, key.size(1))).transpose(1, 2)
    return attend(q, key, value).flatten(1, 2)


@mistake("Every query head reads key head 0; head h reads key head h // (H / G).")
def only_the_first(query, key, value):
    k, v = (x[:, :1].expand_as(x) for x in (key, value))
    return attend(grouped(query, key), k, v).flatten(1, 2)


@mistake("The keys of all groups are averaged; head h reads key head h // (H / G).")
def averaged_keys(query, key, value):
    k, v = (x.mean(1, keepdim=True).expand_as(x) for x in (key, value))
    return attend(grouped(query, key), k, v).flatten(1, 2)


@mistake("The key heads are read in reversed order: head 0 reads key head 0.")
def reversed_groups(query, key, value):
    return attend(grouped(query, key), key.flip(1), value.flip(1)).flatten(1, 2)


@mistake("The query heads of a group are averaged; each has its own scores and its own output.")
def averaged_queries(query, key, value):
    q = grouped(query, key)
    return attend(q.mean(2, keepdim=True).expand_as(q), key, value).flatten(1, 2)


@mistake("The query heads of a group are added up before the softmax, as in document 002.")
def summed_queries(query, key, value):
    return attend(grouped(query, key).sum(2, keepdim=True), key, value).flatten(1, 2)


@mistake("The softmax is missing.")
def no_softmax(query, key, value):
    q = grouped(query, key) / query.size(-1) ** 0.5
    return torch.einsum("bgrnm,bgme->bgrne", torch.einsum("bgrnd,bgmd->bgrnm", q, key), value).flatten(1, 2)  # fmt: skip


@mistake("The scores are not divided by the square root of head_dim.", likely=True)
def unscaled(query, key, value):
    return attend(grouped(query, key), key, value, scale=1.0).flatten(1, 2)


@mistake("The scores are divided by head_dim instead of its square root.", likely=True)
def divided_by_head_dim(query, key, value):
    return attend(grouped(query, key), key, value, scale=1 / query.size(-1)).flatten(1, 2)


@mistake("The scale uses the width of the values; it is the square root of the keys' head_dim.")
def scaled_by_values(query, key, value):
    return attend(grouped(query, key), key, value, scale=value.size(-1) ** -0.5).flatten(1, 2)


@mistake("The softmax runs over the queries; each query shares out its weight among the keys.")
def over_queries(query, key, value):
    return attend(grouped(query, key), key, value, axis=-2).flatten(1, 2)


@mistake("The softmax runs over the heads of a group; each shares out its weight among the keys.")
def over_heads(query, key, value):
    return attend(grouped(query, key), key, value, axis=2).flatten(1, 2)


@mistake("The heads of a group and the queries are swapped when the folded rows are unfolded.")
def unfolded_swapped(query, key, value):
    out = attend(grouped(query, key), key, value).flatten(2, 3)
    return out.unflatten(2, (query.size(2), -1)).transpose(2, 3).flatten(1, 2)


@mistake("The groups are still apart; return (batch, H, n, e).")
def groups_apart(query, key, value):
    return attend(grouped(query, key), key, value)


@mistake("The heads are joined; return them apart, as (batch, H, n, e).")
def joined(query, key, value):
    return attend(grouped(query, key), key, value).flatten(1, 2).transpose(1, 2).flatten(2)


@mistake("The exponential overflows on large scores; subtract the largest score of the row first.")
def overflowing(query, key, value):
    scores = torch.einsum("bgrnd,bgmd->bgrnm", grouped(query, key), key) / query.size(-1) ** 0.5
    exponentials = torch.exp(scores)
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return torch.einsum("bgrnm,bgme->bgrne", weights, value).flatten(1, 2)


@mistake("The keys are used as values.")
def keys_as_values(query, key, value):
    return attend(grouped(query, key), key, key).flatten(1, 2)


@mistake("No gradient flows back: the inputs are detached or used inside no_grad.")
def detached(query, key, value):
    return attend(grouped(query, key).detach(), key.detach(), value.detach()).flatten(1, 2)


EXERCISE = Exercise(
    name="grouped_query_attention",
    answer="grouped_query_attention",
    title="Share without copying",
    kind="Implement",
    points=3,
    difficulty=3,
    minutes=25,
    needs="sections 'The sum' and 'What it costs' of chapter 6",
    judge=MemoryLimited(Calls(definition, cases), SIZE, memory, BUDGET),
    hints=(
        "A loop over the heads copies nothing: head h reads key[:, h // (H // G)], which is a view.",
        "Without a loop: the r = H / G query heads of a group become further rows. Reshape the query to "
        "(batch, G, r * n, d); then queries, keys and values have G heads each.",
        "rows = query.reshape(b, G, r * n, d); weights = softmax(rows @ key.mT / sqrt(d)); "
        "return (weights @ value).reshape(b, H, n, e).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
