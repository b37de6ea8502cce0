"""Exercise chunked_decode: attend for a chunk of new tokens behind a cache."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.decoding_judge import RULES, SELDOM, Decoding, caches, which_result
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import alternating, far_from_zero, sized_cases
from attncourse.grading.mistakes import (
    ATTENTION,
    in_place,
    masks,
    mistakes_of,
    rules,
    scales,
    softmaxes,
)
from attncourse.grading.recipe import Given, Recipe, hide, triangle
from attncourse.grading.slips import alone


def definition(query, key, value, past_key, past_value):
    """The sum of the course over all keys so far; the longer keys and values are the next past."""
    keys, values = join(past_key, key), join(past_value, value)
    visible = spec.causal(query.size(2), keys.size(2), offset=past_key.size(2))
    return spec.scaled_dot_product_attention(query, keys, values, visible)[0], keys, values


def join(past, new):
    return torch.cat([past, new], dim=2)


CALLS = (  # what is special, b h n p d e, how loud
    ("4 new tokens behind 1, 2 samples, 3 heads, head_dim 6, values 8 wide", (2, 3, 4, 1, 6, 8), 1),
    *((f"{n} new, {p} cached", (2, 3, n, p, 5, 7), 1 if n == 2 else 2) for n in range(1, 5)
      for p in range(0, 4, n)),
    ("large scores", (1, 2, 3, 4, 6, 5), 144),
    ("scores near 768 and -768", (1, 2, 5, 0, 4, 3), alternating),
    ("scores far below and above zero", (1, 2, 5, 0, 16, 3), far_from_zero),
)  # fmt: skip


def cases(seed: int, calls: tuple = CALLS) -> list[Case]:
    return sized_cases(seed, "b h n p d e", "b h n d, b h n d, b h n e, b h p d, b h p e", calls)


RIGHT = Recipe(
    lambda q, k, v, past_k, past_v: Given(q, join(past_k, k), join(past_v, v), past_k.size(2)),
    answer=lambda output, weights, scores, x: (output, x.key, x.value),
)
ACCEPTED = Accepted(
    cat_and_mask=RIGHT,
    of_torch=lambda q, k, v, past_k, past_v: (F.scaled_dot_product_attention(
        q, join(past_k, k), join(past_v, v), triangle(q.size(2), q.size(2) + past_k.size(2), past_k.size(2)),
    ), join(past_k, k), join(past_v, v)),
    whole_pass_in_double=lambda q, k, v, past_k, past_v: [F.scaled_dot_product_attention(
        join(0 * past_k, q).double(), join(past_k, k).double(), join(past_v, v).double(), is_causal=True,
    )[:, :, past_k.size(2) :], join(past_k, k), join(past_v, v)],
)  # fmt: skip


@ACCEPTED.add
def token_by_token(query, key, value, keys, values):
    rows = []
    for q, k, v in zip(query.split(1, 2), key.split(1, 2), value.split(1, 2), strict=True):
        keys, values = join(keys, k), join(values, v)
        rows.append(torch.softmax(q @ keys.mT / q.size(-1) ** 0.5, dim=-1) @ values)
    return torch.cat(rows, dim=2), keys, values


@ACCEPTED.add
def past_and_new_scores(query, key, value, past_key, past_value):
    n, p = query.size(2), past_key.size(2)
    old = torch.einsum("bhnd,bhpd->bhnp", query, past_key)
    new = torch.einsum("bhnd,bhmd->bhnm", query, key) + torch.full((n, n), -1e9).triu(1)
    old, new = torch.softmax(join(old.mT, new.mT).mT / query.size(-1) ** 0.5, -1).split([p, n], -1)
    output = old @ past_value + torch.einsum("bhnm,bhme->bhne", new, value)
    return output, join(past_key, key), join(past_value, value)


FAMILIES = *ATTENTION, masks, rules, in_place, caches
PAIRED = scales, softmaxes, masks, rules, caches
MISTAKES = Mistakes(
    mistakes_of(RIGHT, *PAIRED, without=("bottom right", "mask unused"))
    + alone(mistakes_of(RIGHT, *(f for f in FAMILIES if f not in PAIRED)))
)
MISTAKES += [RIGHT.but(says, rule=rule) for says, rule in RULES] + [RIGHT.but(says, given=wrong) for says, wrong in (
    ("The past stands behind the new tokens; the cached keys and values come first.",
     lambda q, k, v, pk, pv: Given(q, join(k, pk), join(v, pv), pk.size(2))),
    ("Keys and values are joined in different orders, so weights meet other tokens' values.",
     lambda q, k, v, pk, pv: Given(q, join(pk, k), join(v, pv), pk.size(2))),
    ("The past is never read: the chunk attends to itself only.", lambda q, k, v, pk, pv: Given(q, k, v, 0)),
)] + [RIGHT.but("Past and new tokens get a softmax each; one softmax runs over all keys.",
                mask=lambda s, x: hide(s, x).split([s.size(3) - s.size(2), s.size(2)], -1),
                normalize=lambda parts: torch.cat([part.softmax(-1) for part in parts], -1))]  # fmt: skip
MISTAKES += [Mistake(says, replace(RIGHT, **steps)) for says, steps in SELDOM]
MISTAKES += [Mistake(says, replace(RIGHT, given=wrong)) for says, wrong in (
    ("The cached keys stand behind the new ones, the cached values before them; the cached ones come first.",
     lambda q, k, v, pk, pv: Given(q, join(k, pk), join(pv, v), pk.size(2))),
    ("The new keys are joined in the opposite order.", lambda q, k, v, pk, pv: Given(q, join(pk, k.flip(2)), join(pv, v), pk.size(2))),
    ("The oldest cached token is dropped; the cache keeps all.",
     lambda q, k, v, pk, pv: Given(q, join(pk[:, :, 1:], k), join(pv[:, :, 1:], v), max(0, pk.size(2) - 1))),
    ("Only the last of the new keys and values is joined.",
     lambda q, k, v, pk, pv: Given(q, join(pk, k[:, :, -1:]), join(pv, v[:, :, -1:]), pk.size(2) + 1 - k.size(2))),
    ("The new keys and values are joined twice.", lambda q, k, v, pk, pv: Given(
        q, join(join(pk, k), k), join(join(pv, v), v), pk.size(2) + k.size(2))),
    ("All heads read the cache of head 0.", lambda q, k, v, pk, pv: Given(
        q, join(pk[:, :1].expand_as(pk), k), join(pv[:, :1].expand_as(pv), v), pk.size(2))),
    ("All samples read the cache of sample 0.", lambda q, k, v, pk, pv: Given(
        q, join(pk[:1].expand_as(pk), k), join(pv[:1].expand_as(pv), v), pk.size(2))),
    ("The queries are given length 1; they are used as they are.", lambda q, k, v, pk, pv: Given(
        F.normalize(q, dim=-1), join(pk, k), join(pv, v), pk.size(2))),
)]  # fmt: skip

EXERCISE = Exercise(
    name="chunked_decode",
    judge=Decoding(definition, cases, look=which_result),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
