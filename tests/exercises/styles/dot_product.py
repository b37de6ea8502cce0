"""Right answers to the exercises on the dot product."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

from styles import style

style("sharpness", 7.0, name="float")
style("sharpness", np.int64(7), name="numpy")
style("sharpness", torch.tensor(7), name="tensor")
style("sharpness", math.ceil(math.log(0.99 / 0.01 * 7)), name="from_the_formula")
style("score_std", Fraction(8, 2), name="fraction")
style("score_std", np.float64(64 * 0.25) ** 0.5, name="numpy")
style("score_std", torch.tensor(64.0).sqrt() * 0.5, name="tensor")


@style("kernel_regression")
def broadcast_and_softmax(query, keys, values, bandwidth):
    squares = (query[:, None] - keys).square().sum(-1)
    return torch.softmax(-squares / (2 * bandwidth**2), dim=-1) @ values


@style("kernel_regression")
def norm_and_einsum(query, keys, values, bandwidth):
    distances = torch.linalg.vector_norm((query[:, None] - keys) / bandwidth, dim=-1)
    return torch.einsum("nm,me->ne", torch.softmax(-0.5 * distances**2, dim=1), values)


@style("kernel_regression")
def expanded_square(query, keys, values, bandwidth):
    q, k = query.double(), keys.double()  # |q|^2 is the same for every key, so softmax ignores it
    scores = (q @ k.T - 0.5 * k.square().sum(-1)) / bandwidth**2
    return scores.softmax(-1).float() @ values


@style("kernel_regression")
def loop_over_queries(query, keys, values, bandwidth):
    rows = []
    for q in query:
        scores = -((keys - q) ** 2).sum(dim=1) / (2 * bandwidth * bandwidth)
        weights = torch.exp(scores - scores.max())
        rows.append((weights[:, None] * values).sum(0) / weights.sum())
    return torch.stack(rows)


@style("scaled_dot_product_attention")
def einsum(query, key, value):
    scores = torch.einsum("bhnd,bhmd->bhnm", query, key) / math.sqrt(key.shape[-1])
    weights = scores.softmax(-1)
    return torch.einsum("bhnm,bhme->bhne", weights, value), weights


@style("scaled_dot_product_attention")
def loops_over_heads(query, key, value):
    outputs, maps = [], []
    for q, k, v in zip(query, key, value, strict=True):
        for qh, kh, vh in zip(q, k, v, strict=True):
            maps.append(F.softmax(qh @ kh.T * qh.shape[-1] ** -0.5, dim=1))
            outputs.append(maps[-1] @ vh)
    return [torch.stack(x).unflatten(0, query.shape[:2]) for x in (outputs, maps)]


@style("scaled_dot_product_attention")
def double_precision_by_hand(query, key, value):
    scores = (query.double() / math.sqrt(query.size(-1))) @ key.double().mT
    scores = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = scores / scores.sum(dim=-1, keepdim=True)
    return weights @ value.double(), weights


@style("softmax_jacobian")
def diagonal_minus_outer(scores):
    p = torch.softmax(scores, dim=-1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None, :]


@style("softmax_jacobian")
def autograd_row_by_row(scores):
    jacobian = torch.autograd.functional.jacobian
    return torch.stack([jacobian(lambda s: torch.softmax(s, 0), row) for row in scores])


@style("softmax_jacobian")
def vmap_of_jacrev(scores):
    return torch.func.vmap(torch.func.jacrev(lambda row: torch.softmax(row, dim=-1)))(scores)


@style("softmax_jacobian")
def einsum_with_identity(scores):
    p, identity = torch.softmax(scores, -1), torch.eye(scores.size(1))
    return torch.einsum("bi,ij->bij", p, identity) - torch.einsum("bi,bj->bij", p, p)
