"""Exercise absorbed_attention: one decoding step that never makes a key or a value."""

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.exercises.latent import _absorbed_attention_judge as its
from attncourse.grading.memory_judge import MemoryLimited

ACCEPTED = Accepted()


def blocks(query, w):
    """w as (heads, head_dim, latent)."""
    return w.unflatten(0, (query.size(1), -1))


def scale_of(query, q_rotary):
    return (query.size(-1) + q_rotary.size(-1)) ** -0.5


def scores_of(query, q_rotary, latent, k_rotary, w_k):
    """Scores (b, h, m), scaled."""
    absorbed = torch.einsum("bhd,hdc->bhc", query, blocks(query, w_k))
    scores = absorbed @ latent.mT + q_rotary @ k_rotary.mT
    return scores * scale_of(query, q_rotary)


def out_of(query, weights, latent, w_v):
    """Mix the latents, then project."""
    return torch.einsum("bhc,hdc->bhd", weights @ latent, blocks(query, w_v))


@ACCEPTED.add
def einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v):
    weights = torch.softmax(scores_of(query, q_rotary, latent, k_rotary, w_k), dim=-1)
    return out_of(query, weights, latent, w_v), weights


@ACCEPTED.add
def one_wide_head(query, q_rotary, latent, k_rotary, w_k, w_v):
    absorbed = torch.einsum("bhd,hdc->bhc", query, blocks(query, w_k))
    wide = torch.cat([absorbed, q_rotary], -1) @ torch.cat([latent, k_rotary], -1).mT
    weights = torch.softmax(wide * scale_of(query, q_rotary), dim=-1)
    return out_of(query, weights, latent, w_v), weights


@ACCEPTED.add
def one_head_after_the_other(query, q_rotary, latent, k_rotary, w_k, w_v):
    outputs, maps = [], []
    for h in range(query.size(1)):
        asked = query[:, h] @ blocks(query, w_k)[h]
        scores = (asked[:, None] * latent).sum(-1) + (q_rotary[:, h, None] * k_rotary).sum(-1)
        maps.append(torch.softmax(scores * scale_of(query, q_rotary), dim=-1))
        mixed = (maps[-1][:, :, None] * latent).sum(1)
        outputs.append(mixed @ blocks(query, w_v)[h].T)
    return torch.stack(outputs, dim=1), torch.stack(maps, dim=1)


@ACCEPTED.add
def fused_output(query, q_rotary, latent, k_rotary, w_k, w_v):
    """torch's function as multi-query attention: all heads are rows of one."""
    absorbed = torch.einsum("bhd,hdc->bhc", query, blocks(query, w_k))
    asks, answers = torch.cat([absorbed, q_rotary], -1), torch.cat([latent, k_rotary], -1)
    scale = scale_of(query, q_rotary)
    mixed = F.scaled_dot_product_attention(
        asks[:, None], answers[:, None], latent[:, None], scale=scale
    )
    weights = torch.softmax(asks @ answers.mT * scale, dim=-1)
    return torch.einsum("bhc,hdc->bhd", mixed[:, 0], blocks(query, w_v)), weights


@ACCEPTED.add
def tokens_one_by_one_in_float64(query, q_rotary, latent, k_rotary, w_k, w_v):
    query, q_rotary, latent, k_rotary, w_k, w_v = (
        x.double() for x in (query, q_rotary, latent, k_rotary, w_k, w_v)
    )
    absorbed = (query[:, :, None] @ blocks(query, w_k))[:, :, 0]
    scores = torch.stack(
        [
            (absorbed * c[:, None]).sum(-1) + (q_rotary * r[:, None]).sum(-1)
            for c, r in zip(latent.unbind(1), k_rotary.unbind(1), strict=True)
        ],
        dim=-1,
    )
    weights = torch.softmax(scores * scale_of(query, q_rotary), dim=-1)
    mixed = sum(weights[:, :, j, None] * latent[:, j, None] for j in range(latent.size(1)))
    return (mixed[:, :, None] @ blocks(query, w_v).mT)[:, :, 0], weights


@ACCEPTED.add
def scaled_query_and_batched_products(query, q_rotary, latent, k_rotary, w_k, w_v):
    scale = scale_of(query, q_rotary)
    asked = torch.bmm((query * scale).transpose(0, 1), blocks(query, w_k)).transpose(0, 1)
    scores = torch.bmm(asked, latent.mT)
    scores = torch.baddbmm(scores, q_rotary, k_rotary.mT, alpha=scale)
    weights = F.softmax(scores, dim=2)
    mixed = torch.bmm(weights, latent).transpose(0, 1)
    return torch.bmm(mixed, blocks(query, w_v).mT).transpose(0, 1), weights


MISTAKES = Mistakes()


def made(query, latent, w):
    """Keys or values of all heads, (b, h, m, width)."""
    return (latent @ w.T).unflatten(-1, (query.size(1), -1)).transpose(1, 2)


@MISTAKES.add(
    "The results are right, but the keys of all heads are made; move w_k to the query, which is one "
    "token instead of m."
)
def plain(query, q_rotary, latent, k_rotary, w_k, w_v):
    k, v = (made(query, latent, w) for w in (w_k, w_v))
    scores = torch.einsum("bhd,bhmd->bhm", query, k) + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores * scale_of(query, q_rotary), dim=-1)
    return torch.einsum("bhm,bhmd->bhd", weights, v), weights


@MISTAKES.add(
    "The results are right and no key is made, but the values of all heads are; mix the latents "
    "first, then multiply by w_v."
)
def values_made(query, q_rotary, latent, k_rotary, w_k, w_v):
    weights = torch.softmax(scores_of(query, q_rotary, latent, k_rotary, w_k), dim=-1)
    return torch.einsum("bhm,bhmd->bhd", weights, made(query, latent, w_v)), weights


@MISTAKES.add(
    "The results are right, but the latents are copied for every head, as a broadcast product does; "
    "let the heads be rows of one product: (b, h, c) @ (b, c, m)."
)
def broadcast(query, q_rotary, latent, k_rotary, w_k, w_v):
    absorbed = torch.einsum("bhd,hdc->bhc", query, blocks(query, w_k))
    scores = (absorbed[:, :, None] @ latent[:, None].mT)[:, :, 0] + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores * scale_of(query, q_rotary), dim=-1)
    mixed = (weights[:, :, None] @ latent[:, None])[:, :, 0]
    return torch.einsum("bhc,hdc->bhd", mixed, blocks(query, w_v)), weights


@MISTAKES.add(
    "The results are right, but keys and values are made, one head at a time; absorb w_k and w_v "
    "instead."
)
def one_head_at_a_time(query, q_rotary, latent, k_rotary, w_k, w_v):
    outputs, maps = [], []
    for h in range(query.size(1)):
        k, v = (latent @ blocks(query, w)[h].T for w in (w_k, w_v))
        scores = torch.einsum("bd,bmd->bm", query[:, h], k)
        scores = scores + torch.einsum("br,bmr->bm", q_rotary[:, h], k_rotary)
        maps.append(torch.softmax(scores * scale_of(query, q_rotary), dim=-1))
        outputs.append(torch.einsum("bm,bmd->bd", maps[-1], v))
    return torch.stack(outputs, dim=1), torch.stack(maps, dim=1)


@MISTAKES.add(
    "The results are right, but keys and values are made, for one sample and one head at a time; absorb "
    "w_k and w_v instead."
)
def one_sample_at_a_time(*args):
    *batched, w_k, w_v = args
    found = [
        one_head_at_a_time(*one, w_k, w_v)
        for one in zip(*(x.split(1) for x in batched), strict=True)
    ]
    return tuple(torch.cat(x) for x in zip(*found, strict=True))


def variant(says, scale=scale_of, part=lambda scores, rotary: scores + rotary, w=blocks, axis=-1):
    """Right but for one of its steps."""

    @MISTAKES.add(says)
    def attend(query, q_rotary, latent, k_rotary, w_k, w_v):
        absorbed = torch.einsum("bhd,hdc->bhc", query, w(query, w_k))
        scores = part(absorbed @ latent.mT, q_rotary @ k_rotary.mT)
        weights = torch.softmax(scores * scale(query, q_rotary), dim=axis)
        return out_of(query, weights, latent, w_v), weights

    return attend


variant("The scale is missing: 1 / sqrt(head_dim + rotary_dim).", scale=lambda q, r: 1.0)
variant(
    "The scale counts head_dim only; the scores are sums of head_dim + rotary_dim products.",
    scale=lambda q, r: q.size(-1) ** -0.5,
)
variant(
    "The scores are divided by head_dim + rotary_dim; its square root is missing.",
    scale=lambda q, r: 1 / (q.size(-1) + r.size(-1)),
)
variant("The rotary part is left out of the scores.", part=lambda scores, rotary: scores)
variant("The rotary part is subtracted; both parts add up.", part=lambda s, r: s - r)
variant("Both parts are multiplied; they add up.", part=lambda s, r: s * r)
variant(
    "Only the rotary part makes the scores; the query must meet the latents as well.",
    part=lambda scores, rotary: rotary,
)
variant("The softmax runs over the heads; it runs over the tokens.", axis=1)
variant(
    "Rows of w_k are given to the heads in turn; head h owns a contiguous block of rows.",
    w=lambda query, w: w.unflatten(0, (-1, query.size(1))).transpose(0, 1),
)
variant(
    "All heads use the block of w_k of head 0; each has its own.",
    w=lambda query, w: blocks(query, w)[:1].expand(query.size(1), -1, -1),
)


@MISTAKES.add("Each part is scaled by its own width; the sum is scaled once.")
def two_scales(query, q_rotary, latent, k_rotary, w_k, w_v):
    absorbed = torch.einsum("bhd,hdc->bhc", query, blocks(query, w_k))
    scores = absorbed @ latent.mT / query.size(-1) ** 0.5
    weights = torch.softmax(scores + q_rotary @ k_rotary.mT / q_rotary.size(-1) ** 0.5, dim=-1)
    return out_of(query, weights, latent, w_v), weights


@MISTAKES.add(
    "The scale is that of the wide rows, 1 / sqrt(latent_dim + rotary_dim), as torch's function "
    "takes by default; absorbing must not change the scores."
)
def default_scale(query, q_rotary, latent, k_rotary, w_k, w_v):
    absorbed = torch.einsum("bhd,hdc->bhc", query, blocks(query, w_k))
    wide = torch.cat([absorbed, q_rotary], -1) @ torch.cat([latent, k_rotary], -1).mT
    weights = torch.softmax(wide / (latent.size(-1) + k_rotary.size(-1)) ** 0.5, dim=-1)
    return out_of(query, weights, latent, w_v), weights


@MISTAKES.add("The mixed latents are returned; they must still be multiplied by w_v, head by head.")
def mixed_latents(query, q_rotary, latent, k_rotary, w_k, w_v):
    weights = torch.softmax(scores_of(query, q_rotary, latent, k_rotary, w_k), dim=-1)
    return weights @ latent, weights


@MISTAKES.add("The mixed latents are multiplied by w_k; the values are made by w_v.")
def mixed_by_the_wrong_matrix(query, q_rotary, latent, k_rotary, w_k, w_v):
    weights = torch.softmax(scores_of(query, q_rotary, latent, k_rotary, w_k), dim=-1)
    return out_of(query, weights, latent, w_k), weights


@MISTAKES.add("All heads use the block of w_v of head 0; each has its own.")
def values_of_head_0(query, q_rotary, latent, k_rotary, w_k, w_v):
    weights = torch.softmax(scores_of(query, q_rotary, latent, k_rotary, w_k), dim=-1)
    return weights @ latent @ blocks(query, w_v)[0].T, weights


@MISTAKES.add("The heads are joined; the output keeps an axis for them: (batch, heads, width).")
def joined(query, q_rotary, latent, k_rotary, w_k, w_v):
    output, weights = einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v)
    return output.flatten(1), weights


@MISTAKES.add("The scores are returned instead of the weights.")
def scores_returned(query, q_rotary, latent, k_rotary, w_k, w_v):
    output, _ = einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v)
    return output, scores_of(query, q_rotary, latent, k_rotary, w_k)


@MISTAKES.add("Only the output is returned; return (output, weights).")
def output_only(query, q_rotary, latent, k_rotary, w_k, w_v):
    return einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v)[0]


@MISTAKES.add("squeeze() drops axes of size 1; one sample, one head or one token must stay.")
def squeezed(query, q_rotary, latent, k_rotary, w_k, w_v):
    output, weights = einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v)
    return output.squeeze(), weights.squeeze()


@MISTAKES.add("The exponentials overflow on large scores; use torch.softmax.")
def bare_exponentials(query, q_rotary, latent, k_rotary, w_k, w_v):
    e = torch.exp(scores_of(query, q_rotary, latent, k_rotary, w_k))
    weights = e / e.sum(-1, keepdim=True)
    return out_of(query, weights, latent, w_v), weights


@MISTAKES.add("The exponentials overflow on large scores, in float64 as well; use torch.softmax.")
def exponentials_in_float64(query, q_rotary, latent, k_rotary, w_k, w_v):
    e = torch.exp(scores_of(query, q_rotary, latent, k_rotary, w_k).double())
    weights = (e / e.sum(-1, keepdim=True)).float()
    return out_of(query, weights, latent, w_v), weights


@MISTAKES.add(
    "The largest of all scores is subtracted, so heads far below it vanish; subtract that of each row."
)
def largest_of_all(query, q_rotary, latent, k_rotary, w_k, w_v):
    scores = scores_of(query, q_rotary, latent, k_rotary, w_k)
    e = torch.exp(scores - scores.max())
    weights = e / e.sum(-1, keepdim=True)
    return out_of(query, weights, latent, w_v), weights


@MISTAKES.add("No gradient flows through the weights; they are detached.")
def detached(query, q_rotary, latent, k_rotary, w_k, w_v):
    weights = torch.softmax(scores_of(query, q_rotary, latent, k_rotary, w_k), dim=-1).detach()
    return out_of(query, weights, latent, w_v), weights


@MISTAKES.add("The query is scaled in place, which changes the caller's tensor.")
def scaled_in_place(query, q_rotary, latent, k_rotary, w_k, w_v):
    scale = scale_of(query, q_rotary)
    asks = torch.einsum("bhd,hdc->bhc", query.mul_(scale), blocks(query, w_k))
    weights = torch.softmax(asks @ latent.mT + q_rotary @ k_rotary.mT * scale, dim=-1)
    return out_of(query, weights, latent, w_v), weights


EXERCISE = Exercise(
    name="absorbed_attention",
    answer="absorbed_attention",
    title="One step without keys and values",
    kind="Implement",
    points=3,
    difficulty=4,
    minutes=25,
    needs="sections 'By hand' and 'The function' of chapter 7",
    judge=MemoryLimited(Calls(its.definition, its.cases), its.SIZE, its.memory, its.BUDGET),
    hints=(
        "Five moves: absorb w_k into the query, score against latents and rotary keys, scale and "
        "softmax, mix the latents, multiply by w_v.",
        "The heads can be rows of one product: (b, h, c) @ (b, c, m). The scale is "
        "1 / sqrt(head_dim + rotary_dim), whatever latent_dim is.",
        'scores = (torch.einsum("bhd,hdc->bhc", query, w_k.unflatten(0, (h, -1))) @ latent.mT '
        "+ q_rotary @ k_rotary.mT) * scale; weights = softmax(scores); "
        'torch.einsum("bhc,hec->bhe", weights @ latent, w_v.unflatten(0, (h, -1)))',
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
