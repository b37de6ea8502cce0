"""Right answers to the exercises on latent attention."""

from fractions import Fraction
from functools import partial

import torch
import torch.nn.functional as F

from attncourse.grading.exercises.latent.absorb_query import blocks
from attncourse.grading.exercises.latent.crossover import HEAD_DIM, LATENT, TOKENS, flops
from attncourse.grading.exercises.latent.repair_rotary import right, rotary
from attncourse.grading.heads import split
from styles import style

style("cache_bytes", 691.2e6, name="as_a_float")
style("cache_bytes", torch.tensor(691_200_000), name="as_a_tensor")
style("cache_bytes", Fraction(60 * 576 * 10_000 * 16, 8), name="as_a_fraction")

SEARCH = max(n for n in range(500) if flops(n, n, LATENT) < flops(n, TOKENS, HEAD_DIM))
MATRIX = LATENT * HEAD_DIM
style("crossover", 81.0, name="as_a_float")
style("crossover", SEARCH, name="by_a_search")
style("crossover", MATRIX * TOKENS // (MATRIX + TOKENS * (LATENT - HEAD_DIM)), name="by_algebra")


@style("absorb_query")
def einsum(query, w_k):
    return torch.einsum("bhnd,hdc->bhnc", query, blocks(query, w_k))


@style("absorb_query")
def one_head_at_a_time(query, w_k):
    rows = w_k.chunk(query.size(1), dim=0)
    return torch.stack([query[:, h] @ block for h, block in enumerate(rows)], dim=1)


@style("absorb_query")
def linear_in_float64(query, w_k):
    heads = zip(query.double().unbind(1), w_k.double().split(query.size(3)), strict=True)
    return torch.stack([F.linear(q, w.T) for q, w in heads], dim=1)


@style("absorb_query")
def block_diagonal(query, w_k):
    w = torch.block_diag(*w_k.split(query.size(3)))  # (h * d, h * c)
    merged = query.transpose(1, 2).flatten(2) @ w
    return merged.unflatten(-1, (query.size(1), -1)).transpose(1, 2)


@style("absorbed_attention")
def einsum_and_matmul(query, q_rotary, latent, k_rotary, w_k, w_v):
    w_k, w_v = (w.view(query.size(1), -1, w.size(-1)) for w in (w_k, w_v))
    scores = torch.einsum("bhd,hdc->bhc", query, w_k) @ latent.mT + q_rotary @ k_rotary.mT
    weights = torch.softmax(scores / (query.size(-1) + q_rotary.size(-1)) ** 0.5, dim=-1)
    return torch.einsum("bhc,hec->bhe", weights @ latent, w_v), weights


@style("absorbed_attention")
def one_head_after_the_other(query, q_rotary, latent, k_rotary, w_k, w_v):
    heads, asked = [], (query.unbind(1), q_rotary.unbind(1))
    for q, r, k, v in zip(*asked, *(w.chunk(query.size(1)) for w in (w_k, w_v)), strict=True):
        scores = ((q @ k)[:, None] * latent).sum(-1) + (r[:, None] * k_rotary).sum(-1)
        weights = torch.softmax(scores / (q.size(-1) + r.size(-1)) ** 0.5, dim=-1)
        heads.append(((weights[:, :, None] * latent).sum(1) @ v.T, weights))
    return tuple(torch.stack(parts, dim=1) for parts in zip(*heads, strict=True))


@style("absorbed_attention")
def one_wide_head_of_torch(query, q_rotary, latent, k_rotary, w_k, w_v):
    asks = torch.cat([(query[:, :, None] @ blocks(query, w_k))[:, :, 0], q_rotary], -1)
    answers, scale = torch.cat([latent, k_rotary], -1), (query.size(-1) + q_rotary.size(-1)) ** -0.5
    mix = F.scaled_dot_product_attention(asks, answers, latent, scale=scale)
    output = torch.einsum("bhc,hec->bhe", mix, blocks(query, w_v))
    return output, torch.softmax(asks @ answers.mT * scale, dim=-1)


@style("absorbed_attention")
def scaled_query_and_batched_products(query, q_rotary, latent, k_rotary, w_k, w_v):
    scale = (query.size(-1) + q_rotary.size(-1)) ** -0.5
    asked = torch.bmm((query * scale).transpose(0, 1), blocks(query, w_k)).transpose(0, 1)
    weights = torch.baddbmm(asked @ latent.mT, q_rotary, k_rotary.mT, alpha=scale).softmax(dim=2)
    mixed = (weights @ latent).transpose(0, 1)
    return torch.bmm(mixed, blocks(query, w_v).mT).transpose(0, 1), weights


def by_complex_numbers(x, positions):
    angles = 10_000.0 ** -torch.linspace(0, 1, x.size(-1) // 2 + 1)[:-1].double()
    turned = torch.complex(*x.double().chunk(2, -1)) * torch.exp(1j * positions[:, None] * angles)
    return torch.cat([turned.real, turned.imag], -1).to(x.dtype)


COMPLEX = partial(right, turn=by_complex_numbers)
style("repair_rotary", COMPLEX, name="complex_numbers_in_float64")


@style("repair_rotary")
def absorbed(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    latent, k_rotary = x @ w_c.T, rotary(x @ w_kr.T, positions)
    of_heads, q = w_k.unflatten(0, (num_heads, -1)), split(x @ w_q.T, num_heads)
    asks = q @ of_heads, rotary(split(x @ w_qr.T, num_heads), positions)
    scores = torch.cat(asks, -1) @ torch.cat([latent, k_rotary], -1)[:, None].mT
    return scores / ((len(w_q) + len(w_qr)) / num_heads) ** 0.5, latent, k_rotary


@style("repair_rotary")
def scores_head_by_head(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    latent, k_rotary, scores = x @ w_c.T, rotary(x @ w_kr.T, positions), []
    for q, r, k in zip(*(w.chunk(num_heads) for w in (w_q, w_qr, w_k)), strict=True):
        fit = (x @ q.T) @ (latent @ k.T).mT + rotary(x @ r.T, positions) @ k_rotary.mT
        scores.append(fit / (q.size(0) + r.size(0)) ** 0.5)
    return torch.stack(scores, dim=1), latent, k_rotary


@style("repair_rotary")
def one_rotation_by_the_distance(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    """The cache holds turned keys; the scores turn the query by the distance instead."""
    latent, keys, q_rotary = x @ w_c.T, x @ w_kr.T, split(x @ w_qr.T, num_heads)
    asks = torch.stack([rotary(q_rotary, positions - at) for at in positions], -2)
    scores = split(x @ w_q.T, num_heads) @ split(latent @ w_k.T, num_heads).mT
    scores = scores + torch.einsum("bhnmr,bmr->bhnm", asks, keys)
    return scores / ((len(w_q) + len(w_qr)) / num_heads) ** 0.5, latent, rotary(keys, positions)
