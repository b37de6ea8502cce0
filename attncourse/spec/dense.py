"""The definitions of attention that reads every key, of its layers, and of positions and masks, as literal loops."""

import math

import torch
from torch import Tensor

from attncourse.spec.positions import rotary


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    score_mod=None,
) -> tuple[Tensor, Tensor]:
    """Output (b, h, n, e) and weights (b, h, n, m) of vaswani2017, eq. 1, one number at a time.

    Args:
        query, key, value: (b, h, n, d), (b, h, m, d), (b, h, m, e).
        attn_mask: broadcasts to (b, h, n, m); bool, True = may attend, or float, added.
        is_causal: query i reads keys 0..i.
        scale: None means 1 / sqrt(d).
        score_mod: called with one score and four ints.
    """
    batch, heads, n, d = query.shape
    m, e = value.shape[2:]
    scale = 1 / math.sqrt(d) if scale is None else scale
    if attn_mask is not None:
        attn_mask = attn_mask.expand(batch, heads, n, m)
    output, weights = [], []
    for b in range(batch):
        for h in range(heads):
            for i in range(n):
                scores = {}
                for j in range(m):
                    if is_causal and j > i:
                        continue
                    entry = None if attn_mask is None else attn_mask[b, h, i, j]
                    if entry is not None and entry.dtype == torch.bool and not entry:
                        continue
                    s = scale * (query[b, h, i] * key[b, h, j]).sum()
                    if score_mod is not None:
                        s = score_mod(s, b, h, i, j)
                    if entry is not None and entry.dtype != torch.bool:
                        s = s + entry
                    if s > -math.inf:
                        scores[j] = s
                row = softmax(scores)
                weights += [row.get(j, torch.zeros_like(query[0, 0, 0, 0])) for j in range(m)]
                o = torch.zeros_like(value[0, 0, 0])
                for j, weight in row.items():
                    o = o + weight * value[b, h, j]
                output.append(o)
    return (
        torch.stack(output).reshape(batch, heads, n, e),
        torch.stack(weights).reshape(batch, heads, n, m),
    )


def softmax(scores: dict[int, Tensor]) -> dict[int, Tensor]:
    """exp(s) over the sum of exp(s); the largest score is taken out first, so nothing overflows."""
    if not scores:
        return {}
    largest = max(scores.values()).detach()
    exponentials = {j: torch.exp(s - largest) for j, s in scores.items()}
    total = sum(exponentials.values())
    return {j: x / total for j, x in exponentials.items()}


def affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y(b, i, r) = sum_c x(b, i, c) weight(r, c) + bias(r)."""
    rows = []
    for b in range(x.size(0)):
        for i in range(x.size(1)):
            for r in range(weight.size(0)):
                y = (x[b, i] * weight[r]).sum()
                rows.append(y if bias is None else y + bias[r])
    return torch.stack(rows).reshape(x.size(0), x.size(1), weight.size(0))


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """out(b, h, i, d) = x(b, i, h * head_dim + d)."""
    batch, n, width = x.shape
    head_dim, odd = divmod(width, num_heads)
    if odd:
        raise ValueError(f"{num_heads} heads cannot share a width of {width}")
    out = torch.zeros(batch, num_heads, n, head_dim, dtype=x.dtype)
    for b in range(batch):
        for h in range(num_heads):
            for i in range(n):
                for d in range(head_dim):
                    out[b, h, i, d] = x[b, i, h * head_dim + d]
    return out


def merge_heads(x: Tensor) -> Tensor:
    """out(b, i, h * head_dim + d) = x(b, h, i, d)."""
    batch, num_heads, n, head_dim = x.shape
    out = torch.zeros(batch, n, num_heads * head_dim, dtype=x.dtype)
    for b in range(batch):
        for h in range(num_heads):
            for i in range(n):
                for d in range(head_dim):
                    out[b, i, h * head_dim + d] = x[b, h, i, d]
    return out


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    params: dict[str, Tensor],
    num_heads: int,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    num_kv_heads: int | None = None,
    positions: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and weights of vaswani2017, section 3.2.2; of ainslie2023 with fewer key/value heads.

    ``params`` holds ``q_proj.weight``, ``q_proj.bias`` and so on for k, v and out, in the layout of
    ``nn.Linear``: (out_features, in_features). A missing bias is no bias. With ``positions``, queries
    and keys are turned.
    """
    num_kv_heads = num_kv_heads or num_heads

    def project(name: str, x: Tensor) -> Tensor:
        return affine(x, params[f"{name}.weight"], params.get(f"{name}.bias"))

    q = split_heads(project("q_proj", query), num_heads)
    k = split_heads(project("k_proj", key), num_kv_heads)
    v = split_heads(project("v_proj", value), num_kv_heads)
    if positions is not None:
        q, k = rotary(q, positions), rotary(k, positions)
    heads, weights = grouped_query_attention(q, k, v, attn_mask, is_causal)
    return project("out_proj", merge_heads(heads)), weights


def grouped_query_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Query head h of (b, H, n, d) reads KV head h // (H / G) of (b, G, m, d): ainslie2023, section 2.2."""
    num_heads, num_kv_heads = query.size(1), key.size(1)
    outputs, weights = [], []
    for h in range(num_heads):
        g = h // (num_heads // num_kv_heads)
        mask = attn_mask
        if mask is not None and mask.dim() == 4 and mask.size(1) > 1:
            mask = mask[:, h : h + 1]
        head = scaled_dot_product_attention(
            query[:, h : h + 1], key[:, g : g + 1], value[:, g : g + 1], mask, is_causal, scale
        )
        outputs.append(head[0])
        weights.append(head[1])
    return torch.cat(outputs, dim=1), torch.cat(weights, dim=1)


def latent_attention(x: Tensor, params: dict[str, Tensor], num_heads: int) -> tuple[Tensor, Tensor]:
    """Output and weights of deepseek2024, section 2.1, causal; ``params`` as `LatentAttention` names them.

    All keys and values are made from the latents, head by head.
    """

    def project(name: str, x: Tensor) -> Tensor:
        return affine(x, params[f"{name}.weight"])

    n, positions = x.size(1), list(range(x.size(1)))
    compressed = project("latent_proj", x)
    mean_square = compressed.square().mean(dim=-1, keepdim=True)
    tiny = torch.finfo(x.dtype).eps
    latent = compressed / torch.sqrt(mean_square + tiny) * params["latent_norm.weight"]
    k_rotary = rotary(project("k_rotary_proj", x), positions)
    q_rotary = rotary(split_heads(project("q_rotary_proj", x), num_heads), positions)
    q = split_heads(project("q_proj", x), num_heads)
    k = split_heads(project("k_proj", latent), num_heads)
    v = split_heads(project("v_proj", latent), num_heads)
    shared = torch.stack([k_rotary] * num_heads, dim=1)
    heads, weights = scaled_dot_product_attention(
        torch.cat([q, q_rotary], -1), torch.cat([k, shared], -1), v, causal(n, n)
    )
    return project("out_proj", merge_heads(heads)), weights


def causal(n: int, m: int, offset: int = 0) -> Tensor:
    """visible(i, j) = j <= i + offset."""
    return torch.tensor([[j <= i + offset for j in range(m)] for i in range(n)])


def padding(lengths: list[int], m: int) -> Tensor:
    """visible(b, 0, 0, j) = j < lengths(b)."""
    return torch.tensor([[[[j < length for j in range(m)]]] for length in lengths])


def layer_norm(x: Tensor, params: dict[str, Tensor], eps: float = 1e-5) -> Tensor:
    """y(b, i) = (x(b, i) - mean) / sqrt(variance + eps) * weight + bias, mean and variance over the width."""
    rows = []
    for row in x.reshape(-1, x.size(-1)):
        mean = sum(row) / len(row)
        variance = sum((row - mean) ** 2) / len(row)
        rows.append((row - mean) / torch.sqrt(variance + eps) * params["weight"] + params["bias"])
    return torch.stack(rows).reshape(x.shape)


def transformer_layer(
    x: Tensor,
    params: dict[str, Tensor],
    num_heads: int,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
    norm_first: bool = True,
    **options,
) -> Tensor:
    """An encoder layer or, with a memory, a decoder layer: vaswani2017, sections 3.1 and 3.3."""

    def of(part: str) -> dict[str, Tensor]:
        return {k[len(part) + 1 :]: p for k, p in params.items() if k.startswith(part + ".")}

    def feed_forward(y: Tensor) -> Tensor:
        hidden = affine(y, of("feed_forward.0")["weight"], of("feed_forward.0")["bias"])
        bent = hidden * (hidden > 0)
        return affine(bent, of("feed_forward.2")["weight"], of("feed_forward.2")["bias"])

    def read(part: str, y: Tensor, z: Tensor, **options) -> Tensor:
        return multi_head_attention(y, z, z, of(part), num_heads, **options)[0]

    parts = [lambda y: read("attention", y, y, **options), feed_forward]
    if memory is not None:
        parts.insert(1, lambda y: read("cross", y, memory, attn_mask=memory_mask))
    for k, part in enumerate(parts):
        norm = of(f"norms.{k}")
        x = x + part(layer_norm(x, norm)) if norm_first else layer_norm(x + part(x), norm)
    return x
