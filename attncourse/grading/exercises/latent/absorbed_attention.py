"""Exercise absorbed_attention: one decoding step that never makes a key or a value."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.compare import Described
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.families import gradients, mistakes_of, outputs, scales, softmaxes, weights
from attncourse.grading.inputs import normal
from attncourse.grading.memory_judge import Budget, MemoryLimited
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe, dot


def definition(query, q_rotary, latent, k_rotary, w_k, w_v):
    """Keys and values are made; then it is the attention of the course, in loops."""
    h = query.size(1)
    key, value = (spec.split_heads(spec.linear(latent, w), h) for w in (w_k, w_v))
    key = torch.cat([key, k_rotary[:, None].expand(-1, h, -1, -1)], -1)
    found = spec.scaled_dot_product_attention(
        torch.cat([query, q_rotary], -1)[:, :, None], key, value
    )
    return tuple(x[:, :, 0] for x in found)


CALLS = (  # what is special, b h d e m c r, how loud
    ("2 samples, 3 heads, keys 4 wide, values 8 wide, 5 tokens, latent 7, rotary 6", (2, 3, 4, 8, 5, 7, 6), 1),
    ("a latent of 3, keys and values 5 wide", (2, 4, 5, 5, 6, 3, 2), 1),
    ("all sizes equal to 4", (4, 4, 4, 4, 4, 4, 4), 1),
    ("1 token", (2, 3, 5, 4, 1, 6, 2), 1),
    ("1 head", (3, 1, 4, 5, 6, 7, 2), 1),
    ("1 sample, latent 1, values 1 wide", (1, 3, 5, 1, 4, 1, 2), 1),
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
    g, calls = torch.Generator().manual_seed(seed), enumerate(CALLS)
    return [Case(what, tuple(call(g, *of, loud)), gradients=k < 3) for k, (what, of, loud) in calls]


def memory(answer) -> bool | str:
    """True when no key and no value is made, at once or in pieces, nor anything as large."""
    args = call(torch.Generator().manual_seed(7), 2, 12, 64, 60, 200, 6, 2)
    made, of_a_head = as_answer(answer).allocations(*args), 2 * 60 * 200
    large = made.new >= of_a_head
    if made.total >= 12 * of_a_head:
        what = "they are made" if large else "they are made in pieces"
        return Described(f"{what}: all results together have {made.total:,} numbers; {made.how}")
    return not large or Described(f"something is as large as those of a head: {made.how}")


def blocks(w, heads):
    """w as (heads, head_dim, latent)."""
    return w.unflatten(0, (heads, -1))


def given(query, q_rotary, latent, k_rotary, w_k, w_v, cut_k=blocks, cut_v=blocks):
    h, width = query.size(1), query.size(-1) + q_rotary.size(-1)
    asks = torch.cat([torch.einsum("bhd,hdc->bhc", query, cut_k(w_k, h)), q_rotary], -1)[:, :, None]
    answers = torch.cat([latent, k_rotary], -1)[:, None]
    return Given(asks, answers, latent[:, None], None, width, cut_v(w_v, h))


def score(x, add=torch.add):
    """The heads are rows of one product with the latents, and of one with the rotary keys."""
    c, rows = x.value.size(-1), x.query.transpose(1, 2)
    return add(rows[..., :c] @ x.value.mT, rows[..., c:] @ x.key[..., c:].mT).transpose(1, 2)


def mixed(weights, x):
    return (weights.transpose(1, 2) @ x.value).transpose(1, 2)


RIGHT = Recipe(
    given, score=score, mix=lambda weights, x: mixed(weights, x) @ x.rest.mT, width="head_dim + rotary_dim",
    answer=lambda output, weights, *_: (output[..., 0, :], weights[..., 0, :]),
)  # fmt: skip
ACCEPTED = Accepted(both_parts_apart=RIGHT)


@ACCEPTED.add
def einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v):
    w_k, w_v = (w.view(query.size(1), -1, w.size(-1)) for w in (w_k, w_v))
    absorbed = torch.einsum("bhd,hdc->bhc", query, w_k)
    scores = absorbed @ latent.mT + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores / (query.size(-1) + q_rotary.size(-1)) ** 0.5, dim=-1)
    return torch.einsum("bhc,hec->bhe", weights @ latent, w_v), weights


@ACCEPTED.add
def one_head_after_the_other(query, q_rotary, latent, k_rotary, w_k, w_v):
    outputs, maps, h = [], [], query.size(1)
    asked = query.unbind(1), q_rotary.unbind(1)
    for q, r, k, v in zip(*asked, w_k.chunk(h), w_v.chunk(h), strict=True):
        scores = ((q @ k)[:, None] * latent).sum(-1) + (r[:, None] * k_rotary).sum(-1)
        maps.append(torch.softmax(scores / (q.size(-1) + r.size(-1)) ** 0.5, dim=-1))
        outputs.append((maps[-1][:, :, None] * latent).sum(1) @ v.T)
    return torch.stack(outputs, dim=1), torch.stack(maps, dim=1)


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
    absorbed = (query[:, :, None] @ blocks(w_k, query.size(1)))[:, :, 0]
    cached = list(zip(latent.unbind(1), k_rotary.unbind(1), strict=True))
    scores = [(absorbed * c[:, None]).sum(-1) + (q_rotary * r[:, None]).sum(-1) for c, r in cached]
    scale = (query.size(-1) + q_rotary.size(-1)) ** -0.5
    weights = torch.softmax(torch.stack(scores, dim=-1) * scale, dim=-1)
    mix = sum(weights[:, :, j, None] * c[:, None] for j, (c, _) in enumerate(cached))
    return (mix[:, :, None] @ blocks(w_v, query.size(1)).mT)[:, :, 0], weights


@ACCEPTED.add
def scaled_query_and_batched_products(query, q_rotary, latent, k_rotary, w_k, w_v):
    scale = (query.size(-1) + q_rotary.size(-1)) ** -0.5
    asked = torch.bmm((query * scale).transpose(0, 1), blocks(w_k, query.size(1))).transpose(0, 1)
    scores = torch.baddbmm(torch.bmm(asked, latent.mT), q_rotary, k_rotary.mT, alpha=scale)
    weights = F.softmax(scores, dim=2)
    mix = torch.bmm(weights, latent).transpose(0, 1)
    return torch.bmm(mix, blocks(w_v, query.size(1)).mT).transpose(0, 1), weights


def plain(query, q_rotary, latent, k_rotary, w_k, w_v, tokens=None):
    """Keys and values of all heads are made, of so many tokens at once."""
    cut, h = latent.size(1) if tokens is None else tokens, query.size(1)
    k, v = ([(c @ w.T).unflatten(-1, (h, -1)) for c in latent.split(cut, 1)] for w in (w_k, w_v))
    scores = torch.cat([torch.einsum("bhd,bmhd->bhm", query, some) for some in k], -1)
    scale = (query.size(-1) + q_rotary.size(-1)) ** -0.5
    weights = torch.softmax((scores + q_rotary @ k_rotary.mT) * scale, -1)
    mix = zip(weights.split(cut, -1), v, strict=True)
    return sum(torch.einsum("bhm,bmhe->bhe", w, some) for w, some in mix), weights


def divided(widths):
    """Steps that divide each part by the root of another width of (head_dim, rotary_dim, latent_dim)."""

    def instead(query, q_rotary, latent, *others):
        one, other = widths(query.size(-1), q_rotary.size(-1), latent.size(-1))
        return given(query / one**0.5, q_rotary / other**0.5, latent, *others)

    return {"given": instead, "scale": lambda x: 1.0}


WITHOUT = ("scaled by queries", "scaled by values", "softmax over queries", "softmax over both", "positions first",
           "heads merged", "squeezed", "heads of weights first", "weights returned transposed", "query detached", "key detached", "value detached")  # fmt: skip
MISTAKES = Mistakes([
    *mistakes_of(RIGHT, scales, softmaxes, outputs, weights, gradients, without=WITHOUT),
    Mistake("The results are right, but keys or values are made, of all heads or of one after the other; move w_k to "
            "the query, which is one token instead of m, and mix the latents before w_v.", plain),
    Mistake("The results are right, but keys or values are made, a few at a time; move w_k to the query, and mix the "
            "latents before w_v.", partial(plain, tokens=10)),
    RIGHT.but("The results are right and no key is made, but something is as large as the latents once for every "
              "head, as a broadcast product makes it; let the heads be rows of one product: (b, h, c) @ (b, c, m).",
              score=dot),
    *(RIGHT.but(says, **divided(widths)) for says, widths in (
        ("The scale counts head_dim only; the scores are sums of head_dim + rotary_dim products.",
         lambda d, r, c: (d, d)),
        ("The scale is that of the wide rows, 1 / sqrt(latent_dim + rotary_dim), as torch's function takes by "
         "default; absorbing must not change the scores.", lambda d, r, c: (c + r, c + r)),
        ("The scale counts latent_dim only; absorbing must not change the scores.", lambda d, r, c: (c, c)),
        ("Each part is scaled by its own width; the sum is scaled once.", lambda d, r, c: (d, r)),
        ("Only the part of the latents is scaled; the sum is.", lambda d, r, c: (d + r, 1)),
        ("Only the rotary part is scaled; the sum is.", lambda d, r, c: (1, d + r)),
    )),
    *(RIGHT.but(says, score=partial(score, add=add)) for says, add in (
        ("The rotary part is left out of the scores.", lambda latents, rotary: latents),
        ("The rotary part is subtracted; both parts add up.", torch.sub),
        ("Both parts are multiplied; they add up.", torch.mul),
        ("Only the rotary part makes the scores; the query must meet the latents as well.",
         lambda latents, rotary: rotary),
    )),
    *(RIGHT.but(says.format(" and ".join(which)), given=partial(given, **{f"cut_{w[-1]}": cut for w in which}))
      for which in (("w_k",), ("w_v",), ("w_k", "w_v")) for says, cut in (
        ("Rows of {} are given to the heads in turn; head h owns a contiguous block of rows.",
         lambda w, h: w.unflatten(0, (-1, h)).transpose(0, 1)),
        ("All heads use the block of {} of head 0; each has its own.", lambda w, h: blocks(w, h)[:1].expand(h, -1, -1)),
        ("The heads take the blocks of {} in reverse order; head 0 owns the first rows.", lambda w, h: blocks(w, h).flip(0)),
        ("Every head uses the sum of all blocks of {}; head h uses its own (in einsum, h stands in both factors).",
         lambda w, h: blocks(w, h).sum(0).expand(h, -1, -1)),
        ("The blocks of {} are reshaped to (latent, width), which tears their rows apart; they are (width, latent).",
         lambda w, h: w.reshape(h, w.size(1), -1).mT),
    )),
    *(RIGHT.but(says, given=lambda q, r, *others, f=f: given(f(q), f(r), *others)) for says, f in (
        ("The queries of the heads are averaged; every head asks its own question.",
         lambda q: q.mean(1, keepdim=True).expand_as(q)),
        ("All heads ask the question of head 0; every head asks its own.", lambda q: q[:, :1].expand_as(q)),
    )),
    RIGHT.but("The mixed latents are returned; they must still be multiplied by w_v, head by head.", mix=mixed),
    RIGHT.but("The mixed latents are multiplied by w_k; the values are made by w_v.",
              given=lambda *a: given(*a[:5], a[4])),
    RIGHT.but("The heads are joined; the output keeps an axis for them: (batch, heads, width).",
              answer=lambda o, w, *_: (o.flatten(1), w[..., 0, :])),
    RIGHT.but("The weights are (batch, m, num_heads); return (batch, num_heads, m).",
              answer=lambda o, w, *_: (o[..., 0, :], w[..., 0, :].mT)),
    RIGHT.but("Axes of size 1 are squeezed away; keep all of them.",
              answer=lambda *made: tuple(x.squeeze() for x in RIGHT.answer(*made))),
    RIGHT.but("The query is scaled in place, which changes the caller's tensor.", scale=lambda x: 1.0,
              given=lambda q, r, *rest: given(q.mul_(s := (q.size(-1) + r.size(-1)) ** -0.5), r * s, *rest)),
])  # fmt: skip

EXERCISE = Exercise(
    name="absorbed_attention", title="One step without keys and values", kind="Implement",
    points=3, difficulty=4, minutes=25,
    needs="sections 'By hand' and 'The function' of chapter 7",
    judge=MemoryLimited(
        Calls(definition, cases), "2 samples, 12 heads, head_dim 64, values 60 wide, 200 tokens, latent 6, rotary 2: no keys and no values are made", memory,
        # The keys or the values of one head are 128 MiB; the latents are small.
        Budget(partial(call, b=1, h=2, d=4096, e=4096, m=8192, c=6, r=2), RIGHT),
    ),
    accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Five moves: absorb w_k into the query, score against latents and rotary keys, scale and "
        "softmax, mix the latents, multiply by w_v.",
        "The heads can be rows of one product: (b, h, c) @ (b, c, m). The scale is "
        "1 / sqrt(head_dim + rotary_dim), whatever latent_dim is.",
        'scores = (torch.einsum("bhd,hdc->bhc", query, w_k.unflatten(0, (h, -1))) @ latent.mT '
        "+ q_rotary @ k_rotary.mT) * scale; weights = softmax(scores); "
        'torch.einsum("bhc,hec->bhe", weights @ latent, w_v.unflatten(0, (h, -1)))',
    ),
)  # fmt: skip
