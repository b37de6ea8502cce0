"""The definitions of how scores move, by a rule, relative positions, neighbours or other heads, as literal loops.

And of the frequencies by which `rotary` turns in texts that are longer than those of the training.
"""

import math

import torch
from torch import Tensor

from attncourse.spec.dense import scaled_dot_product_attention, softmax


def softcap(cap: float):
    """score -> cap * tanh(score / cap)."""
    return lambda s, b, h, i, j: cap * torch.tanh(s / cap)


def alibi_slopes(num_heads: int) -> list[float]:
    """2 ** (-8 (h + 1) / n) for a power of two; else those of the next smaller one, and then every second of its double.

    Source: the code of press2022.
    """
    power = 1
    while 2 * power <= num_heads:
        power *= 2
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    if num_heads > power:
        slopes += alibi_slopes(2 * power)[::2]
    return slopes[:num_heads]


def alibi(num_heads: int):
    """score -> score - slope(h) * |i - j|."""
    slopes = alibi_slopes(num_heads)
    return lambda s, b, h, i, j: s - slopes[h] * abs(i - j)


def relative_bias(table: Tensor, bucket=None):
    """score -> score + table(h, bucket(i - j)); without a bucket i - j + r, beyond r counting as r."""
    r = table.size(1) // 2
    column = bucket or (lambda distance: max(-r, min(r, distance)) + r)
    return lambda s, b, h, i, j: s + table[h, column(i - j)]


def t5_bucket(
    distance: int, buckets: int = 32, furthest: int = 128, bidirectional: bool = True
) -> int:
    """How many edges a distance has reached: 1, 2 .. e, then each larger by one factor, up to furthest.

    Source: raffel2020, section 2.1.
    """
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if distance < 0 else 0
        distance = abs(distance)
    exact = buckets // 2
    if furthest <= exact:
        raise ValueError(f"furthest must be beyond the near distances; got {furthest}")
    edges = list(range(1, exact + 1))
    for k in range(1, buckets - exact):
        edges.append(exact * (furthest / exact) ** (k / (buckets - exact)))
    return first + sum(distance >= edge for edge in edges)


def log_bucket(distance: int, buckets: int, furthest: int) -> int:
    """The number of one distance as the released code of he2021 gives it: its own up to buckets / 2, then shared."""
    exact = buckets // 2
    if furthest - 1 <= exact:
        raise ValueError(f"furthest must be beyond the near distances; got {furthest}")
    if abs(distance) <= exact:
        return distance
    share = math.log(abs(distance) / exact) / math.log((furthest - 1) / exact)
    number = exact + math.ceil((exact - 1) * share)
    return number if distance > 0 else -number


def table_row(distance: int, span: int, bucket=None) -> int:
    """he2021, eq. 3: distance + span, and no less than 0 and no more than 2 span - 1."""
    number = distance if bucket is None else bucket(distance)
    return max(0, min(number + span, 2 * span - 1))


def disentangled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pos_key: Tensor | None = None,
    pos_query: Tensor | None = None,
    *,
    content: bool = True,
    bucket=None,
    p2c: str = "code",
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """Output and weights of he2021, section 3.1, one score at a time; ``bucket`` takes and gives an int."""
    terms = int(content) + (pos_key is not None) + (pos_query is not None)
    scale = 1 / math.sqrt(query.size(-1) * terms)

    def moved(score, b, h, i, j):
        score = score if content else 0 * score
        if pos_key is not None:
            row = table_row(i - j, pos_key.size(1) // 2, bucket)
            score = score + scale * (query[b, h, i] * pos_key[h, row]).sum()
        if pos_query is not None:
            distance = i - j if p2c == "code" else j - i
            row = table_row(distance, pos_query.size(1) // 2, bucket)
            score = score + scale * (key[b, h, j] * pos_query[h, row]).sum()
        return score

    return scaled_dot_product_attention(query, key, value, attn_mask, is_causal, scale, moved)


def document_bias(table: Tensor, alpha: Tensor, beta: Tensor):
    """score -> score + alpha(h) table(clip(i - j)) + beta(h), the middle of the table being distance 0."""
    reach = table.size(0) // 2

    def moved(score, b, h, i, j):
        return score + alpha[h] * table[max(-reach, min(reach, i - j)) + reach] + beta[h]

    return moved


def convolve(table: Tensor, kernel: Tensor) -> Tensor:
    """out(b, h, i, j) = sum_a sum_c kernel(h, a, c) table(b, h, i - (c_q - 1) + a, j - c_k // 2 + c)."""
    batch, heads, n, m = table.shape
    c_q, c_k = kernel.shape[1:]
    if c_k % 2 == 0:
        raise ValueError(f"a kernel has a middle column; got {c_k} columns")
    out = []
    for b in range(batch):
        for h in range(heads):
            for i in range(n):
                for j in range(m):
                    total = torch.zeros_like(table[0, 0, 0, 0])
                    for a in range(c_q):
                        for c in range(c_k):
                            row, column = i - (c_q - 1) + a, j - c_k // 2 + c
                            if 0 <= row < n and 0 <= column < m:
                                total = total + kernel[h, a, c] * table[b, h, row, column]
                    out.append(total)
    return torch.stack(out).reshape(batch, heads, n, m)


def mix_heads(table: Tensor, matrix: Tensor) -> Tensor:
    """mixed(b, h, i, j) = sum_g matrix(h, g) table(b, g, i, j)."""
    rows = []
    for h in range(len(matrix)):
        row = torch.zeros_like(table[:, 0])
        for g in range(table.size(1)):
            row = row + matrix[h, g] * table[:, g]
        rows.append(row)
    return torch.stack(rows, dim=1)


def multi_token_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    kernel: Tensor | None = None,
    kernel_after: Tensor | None = None,
    mix: Tensor | None = None,
    mix_after: Tensor | None = None,
    visible: Tensor | None = None,
    added: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and weights of golovneva2025, section 3; without kernels, of shazeer2020b.

    Args:
        visible: (n, m) or (b, h, n, m); None: query i reads keys 0..i.
        added: (n, m), finite, joins the scores behind the convolution.
    """
    batch, heads, n, d = query.shape
    group, m = heads // key.size(1), key.size(2)
    pairs = [(b, h, i) for b in range(batch) for h in range(heads) for i in range(n)]
    if visible is None:
        visible = torch.tensor([[j <= i for j in range(m)] for i in range(n)])
    visible = visible.expand(batch, heads, n, m)
    scores = torch.zeros(batch, heads, n, m, dtype=query.dtype)
    for b, h, i in pairs:
        for j in range(m):
            if visible[b, h, i, j]:
                scores[b, h, i, j] = (query[b, h, i] * key[b, h // group, j]).sum() / math.sqrt(d)
    scores = scores if kernel is None else convolve(scores, kernel)
    scores = scores if mix is None else mix_heads(scores, mix)
    scores = scores if added is None else scores + added
    weights = torch.zeros_like(scores)
    for b, h, i in pairs:
        row = softmax({j: scores[b, h, i, j] for j in range(m) if visible[b, h, i, j]})
        for j, weight in row.items():
            weights[b, h, i, j] = weight
    if kernel_after is not None:
        weights = convolve(weights, kernel_after) * visible
    weights = weights if mix_after is None else mix_heads(weights, mix_after)
    output = torch.zeros(batch, heads, n, value.size(-1), dtype=value.dtype)
    for b, h, i in pairs:
        output[b, h, i] = sum(weights[b, h, i, j] * value[b, h // group, j] for j in range(m))
    return output, weights


def differential_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lam: float | Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor]:
    """Output and weights of ye2024, eq. 1, pair by pair: heads 2 p and 2 p + 1 of query and key."""
    outputs, tables = [], []
    for p in range(value.size(1)):
        mask = attn_mask
        if mask is not None and mask.dim() == 4 and mask.size(1) > 1:
            mask = mask[:, p : p + 1]
        first, second = (
            scaled_dot_product_attention(
                query[:, head : head + 1],
                key[:, head : head + 1],
                value[:, p : p + 1],
                mask,
                is_causal,
            )
            for head in (2 * p, 2 * p + 1)
        )
        outputs.append(first[0] - lam * second[0])
        tables.append(first[1] - lam * second[1])
    return torch.cat(outputs, dim=1), torch.cat(tables, dim=1)
