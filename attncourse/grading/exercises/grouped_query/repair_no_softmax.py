"""Exercise repair_no_softmax: document 002 adds up the heads of a group and forgets the softmax."""

from itertools import product

import torch

from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.exercises.grouped_query._grouped_query_attention_judge import (
    cases,
    definition,
)

ACCEPTED = Accepted()


@ACCEPTED.add
def found_code_repaired(query, key, value):
    grouped = query.unflatten(1, (key.size(1), -1))
    scores = grouped @ key[:, :, None].mT / query.size(-1) ** 0.5
    return (scores.softmax(-1) @ value[:, :, None]).flatten(1, 2)


@ACCEPTED.add
def repeated_keys(query, key, value):
    k, v = (x.repeat_interleave(query.size(1) // x.size(1), dim=1) for x in (key, value))
    return torch.softmax(query @ k.mT / query.size(-1) ** 0.5, dim=-1) @ v


@ACCEPTED.add
def einsum_in_double(query, key, value):
    q = query.double().unflatten(1, (key.size(1), -1))
    scores = torch.einsum("bgrnd,bgmd->bgrnm", q, key.double()) * key.shape[-1] ** -0.5
    weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
    return torch.einsum("bgrnm,bgme->bgrne", weights, value.double()).flatten(1, 2)


@ACCEPTED.add
def one_head_after_the_other(query, key, value):
    r, heads = query.size(1) // key.size(1), []
    for h in range(query.size(1)):
        scores = query[:, h] @ key[:, h // r].mT / query.size(-1) ** 0.5
        heads.append(scores.softmax(-1) @ value[:, h // r])
    return torch.stack(heads, dim=1)


@ACCEPTED.add
def heads_folded_into_queries(query, key, value):
    b, h, n, d = query.shape
    scores = (query * d**-0.5).reshape(b, key.size(1), -1, d) @ key.mT
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    heads = exponentials @ value / exponentials.sum(-1, keepdim=True)
    return heads.reshape(b, h, n, -1)


@ACCEPTED.add
def picked_by_an_index(query, key, value):
    g = torch.arange(query.size(1)) // (query.size(1) // key.size(1))
    weights = torch.softmax(query @ key[:, g].mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value[:, g]


MISTAKES = Mistakes()


def group(query, key, strided=False):
    """(b, g, r, n, d); strided: head h in group h % G, as found."""
    if strided:
        return query.unflatten(1, (-1, key.size(1))).transpose(1, 2)
    return query.unflatten(1, (key.size(1), -1))


def ungroup(heads, strided=False):
    return (heads.transpose(1, 2) if strided else heads).flatten(1, 2)


def scores_of(q, key, scale=None):
    """(b, g, r, n, m)."""
    scale = q.size(-1) ** -0.5 if scale is None else scale
    return torch.einsum("bgrnd,bgmd->bgrnm", q, key) * scale


def mix(weights, value):
    return torch.einsum("bgrnm,bgme->bgrne", weights, value)


LEFT = {
    "summed": "the scores are summed over the heads of a group, so the query heads are gone",
    "no_softmax": "no softmax follows the scores",
    "unscaled": "the scores are not divided by the square root of d",
    "strided": "head h is in group h % G instead of h // (H / G)",
}


def left_in(summed, no_softmax, unscaled, strided):
    """The code as found, with only these of its four faults left."""

    def answer(query, key, value):
        s = scores_of(group(query, key, strided), key, 1.0 if unscaled else None)
        s = s.sum(2, keepdim=True) if summed else s
        heads = mix(s if no_softmax else s.softmax(-1), value)
        return heads[:, :, 0] if summed else ungroup(heads, strided)

    return answer


for faults in product((True, False), repeat=4):
    says = [text for text, there in zip(LEFT.values(), faults, strict=True) if there]
    if len(says) == 4:
        MISTAKES.add(
            "This is the code as found, or computes the same: all four faults are still there."
        )(left_in(*faults))
    elif says:
        number = ("One fault is", "Two faults are", "Three faults are")[len(says) - 1]
        MISTAKES.add(f"{number} left: {'; '.join(says)}.")(left_in(*faults))


def mistake(says, change=None, scale=None, values=None, finish=ungroup, strided=False):
    """A repair with one step wrong; ``change`` makes weights (b, g, r, n, m) of scores."""

    @MISTAKES.add(f"{says} And {LEFT['strided']}." if strided else says)
    def answer(query, key, value):
        factor = None if scale is None else scale(query, key, value)
        s = scores_of(group(query, key, strided), key, factor)
        weights = s.softmax(-1) if change is None else change(s)
        heads = mix(weights, value if values is None else values(key, value))
        return finish(heads)


mistake(
    "The scores of a group are summed before the softmax, and the result is copied to its heads; "
    "each head has scores of its own.",
    lambda s: s.sum(2, keepdim=True).expand_as(s).softmax(-1),
)
mistake(
    "The scores of a group are averaged before the softmax, and the result is copied to its heads; "
    "each head has scores of its own.",
    lambda s: s.mean(2, keepdim=True).expand_as(s).softmax(-1),
)
for strided in (False, True):
    mistake(
        "The scores of a group are averaged, and one output is left for each group; every query head keeps "
        "its own.",
        lambda s: s.mean(2, keepdim=True).softmax(-1),
        strided=strided,
    )
for strided in (False, True):
    mistake(
        "The weights or outputs of a group are summed, after the softmax; every query head keeps its "
        "own output.",
        lambda s: s.softmax(-1).sum(2, keepdim=True),
        strided=strided,
    )
for strided in (False, True):
    mistake(
        "The weights or outputs of a group are averaged, after the softmax; every query head keeps its "
        "own output.",
        lambda s: s.softmax(-1).mean(2, keepdim=True),
        strided=strided,
    )
mistake(
    "The weights of a group are averaged and the result is copied to its heads; each head has weights "
    "of its own.",
    lambda s: s.softmax(-1).mean(2, keepdim=True).expand_as(s),
)
mistake(
    "The weights of a group are summed and the result is copied to its heads; each head has weights of "
    "its own.",
    lambda s: s.softmax(-1).sum(2, keepdim=True).expand_as(s),
)
mistake(
    "The softmax runs over the queries; each query shares out its weight among the keys.",
    lambda s: s.softmax(-2),
)
mistake(
    "The softmax runs over the heads of a group; each query shares out its weight among the keys.",
    lambda s: s.softmax(2),
)
mistake(
    "The softmax runs over the groups; each query shares out its weight among the keys.",
    lambda s: s.softmax(1),
)
mistake(
    "The softmax runs over all query heads; each query shares out its weight among the keys.",
    lambda s: s.flatten(1, 2).softmax(1).unflatten(1, s.shape[1:3]),
)
mistake(
    "The scores are divided by their sum, without the exponential; that is no softmax.",
    lambda s: s / s.sum(-1, keepdim=True),
)
mistake(
    "The scores go through a sigmoid; the weights of a query must add up to 1.",
    lambda s: s.sigmoid(),
)
mistake(
    "The exponentials are not divided by their sum.",
    lambda s: s.exp(),
)
mistake(
    "The exponential overflows on large scores; subtract the largest score of the row first.",
    lambda s: s.exp() / s.exp().sum(-1, keepdim=True),
)
mistake(
    "The scale is applied after the softmax; divide the scores before it.",
    scale=lambda q, k, v: 1.0,
    values=lambda k, v: v * k.size(-1) ** -0.5,
)
mistake(
    "The scores are divided by d instead of its square root.",
    scale=lambda q, k, v: 1 / q.size(-1),
)
mistake(
    "The scale uses e, the width of the values; it is the square root of d.",
    scale=lambda q, k, v: v.size(-1) ** -0.5,
)
mistake(
    "The scale uses H, the number of query heads; it is the square root of d.",
    scale=lambda q, k, v: q.size(1) ** -0.5,
)
mistake(
    "The scale uses H * d, the whole width; it is the square root of d, the width of one head.",
    scale=lambda q, k, v: (q.size(1) * q.size(-1)) ** -0.5,
)
mistake(
    "The scores are multiplied by the square root of d; divide by it.",
    scale=lambda q, k, v: q.size(-1) ** 0.5,
)
mistake("The groups are still apart; return (b, H, n, e).", finish=lambda heads: heads)
mistake(
    "The groups are still apart; return (b, H, n, e).",
    finish=lambda heads: heads.transpose(1, 2),
    strided=True,
)
mistake(
    "The keys are grouped rightly, but the heads of the output stand in strided order.",
    finish=lambda heads: ungroup(heads, strided=True),
)
mistake(
    "No gradient flows back: the output is detached or made inside no_grad.",
    finish=lambda heads: ungroup(heads).detach(),
)


EXERCISE = Exercise(
    name="repair_no_softmax",
    answer="grouped_attention",
    title="Give the heads back",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=15,
    needs="section 'What the source documents say' of chapter 6",
    judge=Calls(definition, cases),
    hints=(
        "Compare with the five steps of attention. Two are missing, one joins what must stay apart, and "
        "one reshape takes the wrong heads together.",
        "query.unflatten(1, (key.size(1), -1)) is (b, G, H / G, n, d): neighbours form a group. Keys and "
        "values need a third axis of size 1 at the same place, and no sum is taken.",
        "scores = grouped @ key[:, :, None].mT / sqrt(d); "
        "return (softmax(scores, -1) @ value[:, :, None]).flatten(1, 2)",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
    forbids=(
        "torch.nn.functional.scaled_dot_product_attention",
        "torch.nn.MultiheadAttention",
    ),
)
