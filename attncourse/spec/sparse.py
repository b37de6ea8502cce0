"""The definitions of attention that reads fewer keys, as literal loops."""

import torch
from torch import Tensor

from attncourse.spec.dense import (
    affine,
    grouped_query_attention,
    merge_heads,
    multi_head_attention,
    rotary,
    scaled_dot_product_attention,
    split_heads,
)


def sliding_window(n: int, m: int, left: int, right: int, offset: int = 0) -> Tensor:
    """visible(i, j) = i + offset - left <= j <= i + offset + right: beltagy2020, section 3.1."""
    first = [i + offset - left for i in range(n)]
    last = [i + offset + right for i in range(n)]
    return torch.tensor([[first[i] <= j <= last[i] for j in range(m)] for i in range(n)])


def dilated(n: int, m: int, left: int, right: int, step: int) -> Tensor:
    """visible(i, j) = j is i + step k for one of k = -left, ..., right: beltagy2020, section 3.1."""
    seen = [[i + step * k for k in range(-left, right + 1)] for i in range(n)]
    return torch.tensor([[j in seen[i] for j in range(m)] for i in range(n)])


def global_tokens(is_global: Tensor) -> Tensor:
    """visible(b, 0, i, j) = is_global(b, i) or is_global(b, j): beltagy2020, section 3.1."""
    return torch.tensor([[[[bool(i or j) for j in row] for i in row]] for row in is_global])


def longformer_mask(is_global: Tensor, left: int, right: int) -> Tensor:
    """visible(b, 0, i, j): j stands in the window of i, or one of the two is global."""
    visible = global_tokens(is_global)
    n = visible.size(-1)
    for i in range(n):
        for j in range(max(0, i - left), min(n, i + right + 1)):
            visible[:, :, i, j] = True
    return visible


def longformer_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_global: Tensor,
    left: int,
    right: int,
    own: tuple[Tensor, Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and weights of beltagy2020, section 3.1; ``own`` is what the rows of global tokens use."""
    visible = longformer_mask(is_global, left, right)
    local = scaled_dot_product_attention(query, key, value, visible)
    of_global = scaled_dot_product_attention(*(own or (query, key, value)), visible)
    output, weights = (
        torch.stack(
            [
                torch.stack([(b if g else a)[s, :, i] for i, g in enumerate(row)], dim=1)
                for s, row in enumerate(is_global)
            ]
        )
        for a, b in zip(local, of_global, strict=True)
    )
    return output, weights


def longformer_layer(
    x: Tensor, params: dict[str, Tensor], num_heads: int, is_global: Tensor, left: int, right: int
) -> tuple[Tensor, Tensor]:
    """Output and weights of `LongformerAttention`; ``params`` as its parameters are called."""

    def project(name: str, x: Tensor) -> Tensor:
        return affine(x, params[f"{name}.weight"], params.get(f"{name}.bias"))

    q, k, v, q_own, k_own, v_own = (
        split_heads(project(f"{name}_proj", x), num_heads)
        for name in ("q", "k", "v", "q_global", "k_global", "v_global")
    )
    heads, weights = longformer_attention(q, k, v, is_global, left, right, (q_own, k_own, v_own))
    return project("out_proj", merge_heads(heads)), weights


def bigbird_mask(blocks: Tensor, block_size: int) -> Tensor:
    """visible(0, h, i, j): block 0 and the last one read all, row r of (h, rows, k) says what block r + 1 reads."""
    last = blocks.size(1) + 1
    n = (last + 1) * block_size
    visible = torch.zeros(1, blocks.size(0), n, n, dtype=torch.bool)
    for h in range(blocks.size(0)):
        for i in range(n):
            for j in range(n):
                row = i // block_size
                read = row in (0, last) or j // block_size in blocks[h, row - 1].tolist()
                visible[0, h, i, j] = read
    return visible


def hops(visible: Tensor) -> Tensor:
    """The shortest way from j to i along the pairs of (n, n) that are visible; -1 where there is none."""
    n = visible.size(0)
    far = n + 1
    d = [[0 if i == j else 1 if visible[i, j] else far for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i][j] = min(d[i][j], d[i][k] + d[k][j])
    return torch.tensor([[-1 if x >= far else x for x in row] for row in d])


def streaming_attention(
    query: Tensor, key: Tensor, value: Tensor, num_sinks: int, window: int
) -> tuple[Tensor, Tensor]:
    """Output and weights of xiao2024, section 3.2: each query meets the list of what is kept, counted anew."""
    outputs, weights = [], []
    for i in range(query.size(2)):
        kept = [j for j in range(i + 1) if j < num_sinks or j > i - window]
        q = rotary(query[:, :, i : i + 1], [len(kept) - 1])
        k = rotary(key[:, :, kept], list(range(len(kept))))
        output, weight = grouped_query_attention(q, k, value[:, :, kept])
        row = torch.zeros(*weight.shape[:3], query.size(2), dtype=weight.dtype)
        for place, j in enumerate(kept):
            row[..., j] = weight[..., place]
        outputs.append(output)
        weights.append(row)
    return torch.cat(outputs, dim=2), torch.cat(weights, dim=2)


def sink_attention(
    query: Tensor, key: Tensor, value: Tensor, sink: Tensor, attn_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Output and weights of openai2025: behind the m keys stands one more, with score sink(h) and value 0."""
    m = key.size(2)
    key, value = (torch.cat([x, torch.zeros_like(x[:, :, :1])], dim=2) for x in (key, value))
    if attn_mask is not None:
        always = torch.ones(*attn_mask.shape[:-1], 1, dtype=torch.bool)
        attn_mask = torch.cat([attn_mask, always], dim=-1)
    outputs, weights = [], []
    for h in range(query.size(1)):
        g = h // (query.size(1) // key.size(1))
        output, weight = scaled_dot_product_attention(
            query[:, h : h + 1],
            key[:, g : g + 1],
            value[:, g : g + 1],
            attn_mask,
            score_mod=lambda s, b, _, i, j, own=sink[h]: own if j == m else s,
        )
        outputs.append(output)
        weights.append(weight[..., :m])
    return torch.cat(outputs, dim=1), torch.cat(weights, dim=1)


def gated_attention(
    x: Tensor, params: dict[str, Tensor], num_heads: int, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and weights of qiu2025; ``params`` as `GatedAttention` names them."""
    width = x.size(-1)
    joined = {**params, "out_proj.weight": torch.eye(width, dtype=x.dtype)}
    joined.pop("out_proj.bias", None)
    heads, weights = multi_head_attention(x, x, x, joined, num_heads, is_causal=is_causal)
    gate = affine(x, params["gate_proj.weight"], params.get("gate_proj.bias"))
    open_ = 1 / (1 + torch.exp(-gate))
    return affine(heads * open_, params["out_proj.weight"], params.get("out_proj.bias")), weights
