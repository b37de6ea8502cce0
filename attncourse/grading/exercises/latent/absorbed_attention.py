"""Exercise absorbed_attention: one decoding step that never makes a key or a value."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistake, Mistakes
from attncourse.grading.exercises.latent._noticed import Stepwise
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.mistakes import gradients, mistakes_of, outputs, scales, softmaxes, weights
from attncourse.grading.recipe import Given, Recipe, dot


def definition(query, q_rotary, latent, k_rotary, w_k, w_v):
    """Keys and values are made; then it is the attention of the course, in loops."""
    key, value = (spec.split_heads(spec.affine(latent, w), query.size(1)) for w in (w_k, w_v))
    key = torch.cat([key, k_rotary[:, None].expand(-1, query.size(1), -1, -1)], -1)
    query = torch.cat([query, q_rotary], -1)[:, :, None]
    return tuple(x[:, :, 0] for x in spec.scaled_dot_product_attention(query, key, value))


CALLS = (  # what is special, b h d e m c r, how loud
    ("2 samples, 3 heads, keys 4 wide, values 8 wide, 5 tokens, latent 7, rotary 6", (2, 3, 4, 8, 5, 7, 6), 1),
    ("a latent of 3, keys and values 5 wide", (2, 4, 5, 5, 6, 3, 2), 1),
    ("1 token", (2, 3, 5, 4, 1, 6, 2), 1),
    ("1 sample, 1 head, latent 1, values 1 wide", (1, 1, 5, 1, 4, 1, 2), 1),
    ("large scores", (2, 5, 3, 6, 4, 3, 2), 300),
    ("scores of 768 and -768", (2, 2, 2, 3, 5, 4, 2), 0),  # exp has no number for them
)  # fmt: skip


def call(generator, b, h, d, e, m, c, r, loud=1) -> list:
    """Arguments for one token that asks and m that answer; where loud is 0, scores of 768 and -768."""
    args = normal(generator, (b, h, d), (b, h, r), (b, m, c), (b, m, r), (h * d, c), (h * e, c))
    if not loud:
        args[1][..., 0], args[3][..., 0] = 24.0 * (-1.0) ** torch.arange(h), 64.0
    return [loud * args[0], (loud or 1) * args[1], *args[2:4], args[4] / c**0.5, args[5]]


def cases(seed: int) -> list[Case]:
    """float32 rounds large scores, and the gradients with them."""
    g, calls = seeded(seed), enumerate(CALLS)
    return [Case(what, tuple(call(g, *of, loud)), gradients=k < 3) for k, (what, of, loud) in calls]


def memory(answer) -> bool | str:
    """True when no key and no value is made, at once or in pieces, nor anything as large."""
    args = call(torch.Generator().manual_seed(7), 2, 12, 64, 60, 200, 6, 2)
    made, of_a_head = as_answer(answer).allocations(*args), 2 * 60 * 200
    if made.total >= 12 * of_a_head:
        return Described(f"they are made: all results have {made.total:,} numbers; {made.how}")
    large = f"something is as large as those of a head: {made.how}"
    return made.new < of_a_head or Described(large)


def blocks(w, heads):
    """w as (heads, head_dim, latent)."""
    return w.unflatten(0, (heads, -1))


def given(query, q_rotary, latent, k_rotary, w_k, w_v, cut_k=blocks, cut_v=blocks):
    h, width = query.size(1), query.size(-1) + q_rotary.size(-1)
    asks = torch.cat([torch.einsum("bhd,hdc->bhc", query, cut_k(w_k, h)), q_rotary], -1)[:, :, None]
    answers = torch.cat([latent, k_rotary], -1)[:, None]
    return Given(asks, answers, latent[:, None], None, width, cut_v(w_v, h))


def as_rows(heads, matrix):
    """The heads are the rows of one product."""
    return (heads.transpose(1, 2) @ matrix).transpose(1, 2)


def score(x, add=lambda latents, rotary, x: latents + rotary):
    c = x.value.size(-1)
    latents, rotary = x.query[..., :c], x.query[..., c:]
    return add(as_rows(latents, x.value.mT), as_rows(rotary, x.key[..., c:].mT), x)


RIGHT = Recipe(
    given, score=score, width="head_dim + rotary_dim", mix=lambda w, x: as_rows(w, x.value) @ x.rest.mT,
    answer=lambda output, weights, *_: (output[..., 0, :], weights[..., 0, :]),
)  # fmt: skip
ACCEPTED = Accepted(both_parts_apart=RIGHT)


@ACCEPTED.add
def einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v):
    w_k, w_v = (w.view(query.size(1), -1, w.size(-1)) for w in (w_k, w_v))
    scores = torch.einsum("bhd,hdc->bhc", query, w_k) @ latent.mT + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores / (query.size(-1) + q_rotary.size(-1)) ** 0.5, dim=-1)
    return torch.einsum("bhc,hec->bhe", weights @ latent, w_v), weights


@ACCEPTED.add
def one_head_after_the_other(query, q_rotary, latent, k_rotary, w_k, w_v):
    heads, asked = [], (query.unbind(1), q_rotary.unbind(1))
    for q, r, k, v in zip(*asked, *(w.chunk(query.size(1)) for w in (w_k, w_v)), strict=True):
        scores = ((q @ k)[:, None] * latent).sum(-1) + (r[:, None] * k_rotary).sum(-1)
        weights = torch.softmax(scores / (q.size(-1) + r.size(-1)) ** 0.5, dim=-1)
        heads.append(((weights[:, :, None] * latent).sum(1) @ v.T, weights))
    return tuple(torch.stack(parts, dim=1) for parts in zip(*heads, strict=True))


@ACCEPTED.add
def one_wide_head_of_torch(query, q_rotary, latent, k_rotary, w_k, w_v):
    asks = torch.cat([(query[:, :, None] @ blocks(w_k, query.size(1)))[:, :, 0], q_rotary], -1)
    answers, scale = torch.cat([latent, k_rotary], -1), (query.size(-1) + q_rotary.size(-1)) ** -0.5
    mix = F.scaled_dot_product_attention(asks, answers, latent, scale=scale)
    output = torch.einsum("bhc,hec->bhe", mix, blocks(w_v, query.size(1)))
    return output, torch.softmax(asks @ answers.mT * scale, dim=-1)


@ACCEPTED.add
def tokens_one_by_one_in_float64(*args):
    query, q_rotary, latent, k_rotary, w_k, w_v = (x.double() for x in args)
    absorbed = torch.einsum("bhd,hdc->bhc", query, blocks(w_k, query.size(1)))
    asks, answers = torch.cat([absorbed, q_rotary], -1), torch.cat([latent, k_rotary], -1)
    scores = torch.stack([(asks * c[:, None]).sum(-1) for c in answers.unbind(1)], dim=-1)
    weights = torch.softmax(scores / (query.size(-1) + q_rotary.size(-1)) ** 0.5, dim=-1)
    mix = sum(weights[:, :, j, None] * c[:, None] for j, c in enumerate(latent.unbind(1)))
    return torch.einsum("bhc,hec->bhe", mix, blocks(w_v, query.size(1))), weights


@ACCEPTED.add
def scaled_query_and_batched_products(query, q_rotary, latent, k_rotary, w_k, w_v):
    h, scale = query.size(1), (query.size(-1) + q_rotary.size(-1)) ** -0.5
    asked = torch.bmm((query * scale).transpose(0, 1), blocks(w_k, h)).transpose(0, 1)
    weights = torch.baddbmm(asked @ latent.mT, q_rotary, k_rotary.mT, alpha=scale).softmax(dim=2)
    return torch.bmm((weights @ latent).transpose(0, 1), blocks(w_v, h).mT).transpose(0, 1), weights


def plain(query, q_rotary, latent, k_rotary, w_k, w_v):
    """Keys and values of all heads are made."""
    k, v = (torch.einsum("bmc,hdc->bhmd", latent, blocks(w, query.size(1))) for w in (w_k, w_v))
    scores = torch.einsum("bhd,bhmd->bhm", query, k) + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores / (query.size(-1) + q_rotary.size(-1)) ** 0.5, dim=-1)
    return torch.einsum("bhm,bhme->bhe", weights, v), weights


def scaled_apart(latents, rotary, x):
    """Each part by its own width, which undoes the scale of the sum."""
    rotary_dim = x.key.size(-1) - x.value.size(-1)
    scaled = latents / (x.width - rotary_dim) ** 0.5 + rotary / rotary_dim**0.5
    return scaled * x.width**0.5


WITHOUT = ("scaled by queries", "scaled by values", "softmax over queries", "softmax over both", "positions first",
           "heads merged", "squeezed", "heads of weights first", "weights returned transposed",
           "query detached", "key detached", "value detached")  # fmt: skip
MISTAKES = Mistakes([
    *mistakes_of(RIGHT, scales, softmaxes, outputs, weights, gradients, without=WITHOUT),
    Mistake("The results are right, but keys or values are made, all at once or a few after the other; move w_k "
            "to the query, which is one token instead of m, and mix the latents before w_v.", plain),
    RIGHT.but("The results are right and no key is made, but something is as large as the latents once for every "
              "head, as a broadcast product makes it; let the heads be rows of one: (b, h, c) @ (b, c, m).",
              score=dot),
    *(RIGHT.but(says, scale=scale) for says, scale in (
        ("The scale counts head_dim only; the scores are sums of head_dim + rotary_dim products.",
         lambda x: (x.width + x.value.size(-1) - x.key.size(-1)) ** -0.5),
        ("The scale is that of the wide rows, 1 / sqrt(latent_dim + rotary_dim), as torch's function takes by "
         "default; absorbing must not change the scores.", lambda x: x.key.size(-1) ** -0.5),
    )),
    *(RIGHT.but(says, score=partial(score, add=add)) for says, add in (
        ("The rotary part is left out of the scores.", lambda latents, rotary, x: latents),
        ("The rotary part is subtracted; both parts add up.", lambda latents, rotary, x: latents - rotary),
        ("Both parts are multiplied; they add up.", lambda latents, rotary, x: latents * rotary),
        ("Only the rotary part makes the scores; the query must meet the latents as well.", lambda c, r, x: r),
        ("Only the part of the latents is scaled; the sum is.", lambda c, r, x: c + r * x.width**0.5),
        ("Only the rotary part is scaled; the sum is.", lambda c, r, x: c * x.width**0.5 + r),
        ("Each part is scaled by its own width; the sum is scaled once.", scaled_apart),
    )),
    *(RIGHT.but(says.format(" and ".join(which)), given=partial(given, **{f"cut_{w[-1]}": cut for w in which}))
      for which in (("w_k",), ("w_v",), ("w_k", "w_v")) for says, cut in (
        ("Rows of {} are given to the heads in turn; head h owns a contiguous block of rows.",
         lambda w, h: w.unflatten(0, (-1, h)).transpose(0, 1)),
        ("All heads use the block of {} of head 0.", lambda w, h: blocks(w, h)[:1].expand(h, -1, -1)),
        ("Every head uses the sum of all blocks of {}; head h uses its own (in einsum, h stands in both).",
         lambda w, h: blocks(w, h).sum(0).expand(h, -1, -1)),
        ("The blocks of {} are reshaped to (latent, width), which tears rows apart; they are (width, latent).",
         lambda w, h: w.reshape(h, w.size(1), -1).mT),
    )),
    RIGHT.but("The mixed latents are returned; they must still be multiplied by w_v, head by head.",
              mix=lambda weights, x: as_rows(weights, x.value)),
    RIGHT.but("The mixed latents are multiplied by w_k; w_v makes values.", given=lambda *a: given(*a[:5], a[4])),
    RIGHT.but("The heads are joined; return (batch, heads, width).",
              answer=lambda o, w, *_: (o.flatten(1), w[..., 0, :])),
    RIGHT.but("Axes of size 1 are squeezed away; keep all of them.",
              answer=lambda *made: tuple(x.squeeze() for x in RIGHT.answer(*made))),
    RIGHT.but("The query is changed in place, by /= or *= for example: the caller finds it changed.", scale=lambda x: 1.0,
              given=lambda q, r, *rest: given(q.mul_(s := (q.size(-1) + r.size(-1)) ** -0.5), r * s, *rest)),
])  # fmt: skip

EXERCISE = Exercise(
    name="absorbed_attention",
    judge=MemoryLimited(
        Stepwise(definition, cases),
        "2 samples, 12 heads, head_dim 64, values 60 wide, 200 tokens, latent 6, rotary "
        "2: no keys and no values are made",
        memory,
        # The keys or the values of one head are 128 MiB; the latents are small.
        Budget(partial(call, b=1, h=2, d=4096, e=4096, m=8192, c=6, r=2), RIGHT),
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
