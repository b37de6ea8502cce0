"""Attention in five steps: score, modify, mask, normalize, mix. Every variant replaces one of them."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from attncourse.interface import check_sequences
from attncourse.mods import ScoreMod


def score(
    query: Float[Tensor, "*b n d"], key: Float[Tensor, "*b m d"], scale: float | None = None
) -> Float[Tensor, "*b n m"]:
    """How well does each query fit each key? The dot product, divided by sqrt(head_dim).

        score(i, j) = scale * sum_d query(i, d) key(j, d)

    Args:
        query: one row per asking position.
        key: one row per answering position.
        scale: factor on the dot product; ``None`` means 1 / sqrt(head_dim), 0 makes all scores equal.

    Cost: 2 n m d FLOPs per head, n m numbers of memory.
    Source: vaswani2017, eq. 1.
    Chapter: 01_dot_product.
    """
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    return (query * scale) @ key.mT  # the factor on the small tensor, not on the n m scores


def modify(scores: Float[Tensor, "b h n m"], score_mod: ScoreMod) -> Float[Tensor, "b h n m"]:
    """Move each score by a rule that knows where it stands.

    Args:
        scores: output of `score`.
        score_mod: ``score_mod(score, b, h, q_idx, kv_idx) -> score``, the signature of PyTorch's
            ``flex_attention``; called once, with index tensors that broadcast.

    Reduces to: `scores` when ``score_mod`` returns its first argument.
    Source: dong2024, section 3.
    Chapter: 01_dot_product.
    """
    b, h, n, m = (torch.arange(size, device=scores.device) for size in scores.shape)
    return score_mod(scores, b[:, None, None, None], h[:, None, None], n[:, None], m)


def mask(scores: Float[Tensor, "*b n m"], attn_mask: Tensor | None) -> Float[Tensor, "*b n m"]:
    """Forbid pairs: a forbidden score becomes minus infinity, so its weight becomes 0.

    Args:
        scores: output of `score`.
        attn_mask: bool, ``True`` = may attend; or float, added to the scores; or ``None``.
            It has two axes (n, m) or as many as ``scores``, and broadcasts.

    Raises:
        TypeError: an integer mask, because documents disagree on what 0 and 1 mean.
        ValueError: another number of axes. A (batch, n, m) mask would otherwise be read as one
            mask per *head* whenever batch == heads.

    Chapter: 02_masks.
    """
    if attn_mask is None:
        return scores
    check_mask(attn_mask, axes=scores.dim())
    if attn_mask.dtype == torch.bool:
        return scores.masked_fill(~attn_mask, -math.inf)
    return scores + attn_mask


def normalize(scores: Float[Tensor, "*b n m"]) -> Float[Tensor, "*b n m"]:
    """Turn each row of scores into weights that are positive and sum to 1: the softmax.

        weight(i, j) = exp(score(i, j)) / sum_k exp(score(i, k))

    A row in which every score is minus infinity may read nothing: its weights are all 0, and so
    is its gradient. (A bare softmax gives NaN there.)

    Cost: one table of weights; three with an empty row, or where nothing looks for
    one (under ``torch.compile`` and ``vmap``, and on a GPU, which would have to be waited for).
    Source: vaswani2017, eq. 1; the empty row follows PyTorch's ``scaled_dot_product_attention``.
    Chapter: 01_dot_product, the empty row in 02_masks.
    """
    empty = scores.detach().amax(dim=-1, keepdim=True) == -math.inf
    if not _perhaps_any(empty):
        return torch.softmax(scores, dim=-1)
    # Filled before *and* after: the softmax never sees the empty row, so no NaN enters backward.
    weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1)
    return weights.masked_fill(empty, 0.0)


def mix(
    weights: Float[Tensor, "*b n m"], value: Float[Tensor, "*b m e"]
) -> Float[Tensor, "*b n e"]:
    """Average the values with the weights.

        output(i) = sum_j weight(i, j) value(j)

    Cost: 2 n m e FLOPs per head.
    Source: vaswani2017, eq. 1.
    Chapter: 01_dot_product.
    """
    return weights @ value


def attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*b m d"],
    value: Float[Tensor, "*b m e"],
    *,
    attn_mask: Tensor | None = None,
    score_mod: ScoreMod | None = None,
    normalize: Callable[[Tensor], Tensor] = normalize,
    scale: float | None = None,
    dropout_p: float = 0.0,
) -> tuple[Float[Tensor, "*b n e"], Float[Tensor, "*b n m"]]:
    """The five steps in a row; returns the output and the weights that made it.

    Args:
        query, key, value: any leading axes, equal in all three; key and value have one length.
        attn_mask: see `mask`.
        score_mod: see `modify`; needs (batch, heads, seq, head_dim).
        normalize: the fourth step, to be replaced by variants.
        scale: see `score`.
        dropout_p: probability that a weight is zeroed, the others growing by 1 / (1 - p).
            0 in evaluation. The returned weights are those after dropout.

    Raises:
        ValueError: shapes that do not fit, or a dropout_p outside 0..1.
        TypeError: an integer mask.

    Cost: 2 n m (d + e) FLOPs per head, and n m numbers of memory for the weights.
    Reduces to: the mean of the values when all scores are equal (``scale=0``).
    Source: vaswani2017, section 3.2.1.
    Chapter: 01_dot_product.
    """
    check_sequences(query, key, value)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p must be a probability from 0 to 1; got {dropout_p}")
    scores = score(query, key, scale)
    if score_mod is not None:
        scores = modify(scores, score_mod)
    scores = mask(scores, attn_mask)
    weights = normalize(scores)
    if dropout_p:
        weights = F.dropout(weights, dropout_p)
    return mix(weights, value), weights


def scaled_dot_product_attention(
    query: Float[Tensor, "*b n d"],
    key: Float[Tensor, "*c m d"],
    value: Float[Tensor, "*c m e"],
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Float[Tensor, "*b n e"]:
    """`attention` under the name, arguments and rules of ``torch.nn.functional``.

        output = softmax(query key^T / sqrt(d) + mask) value

    Args:
        query, key, value: (batch, heads, seq, head_dim); lengths and value width may differ.
        attn_mask: bool, ``True`` = may attend, or float, added. With ``is_causal`` both apply.
        dropout_p: applies whenever it is not 0, in evaluation too, exactly as in torch.
        is_causal: query i reads keys 0..i (top-left aligned when the lengths differ).
        scale: ``None`` means 1 / sqrt(head_dim).
        enable_gqa: key and value may have fewer heads; query head h reads head h // (h / g).

    Returns: the output only. `attention` returns the weights as well.

    Raises:
        ValueError: shapes that do not fit. TypeError: an integer mask.

    Cost: as `attention`. torch's fused version never stores the n m weights.
    Reduces to: ``torch.nn.functional.scaled_dot_product_attention``, to rounding.
    Source: vaswani2017, eq. 1; paszke2019 for the interface.
    Chapter: 01_dot_product.
    """
    if enable_gqa:
        key, value = (repeat_heads(x, query.size(-3)) for x in (key, value))
    if attn_mask is not None:
        check_mask(attn_mask, axes=query.dim())
    if is_causal:
        attn_mask = add_causal(attn_mask, query.size(-2), key.size(-2), query.device)
    output, _ = attention(query, key, value, attn_mask=attn_mask, scale=scale, dropout_p=dropout_p)
    return output


def add_causal(
    attn_mask: Tensor | None, n: int, m: int, device: torch.device, offset: int = 0
) -> Tensor | None:
    """Forbid keys after the query as well: the intersection of ``attn_mask`` and j <= i + offset.

    Args:
        offset: position of query 0 among the keys; m - n behind a cache. Where even query 0 reads all keys, as a
            single new token does, nothing is added.
    """
    if offset >= m - 1:
        return attn_mask
    causal = torch.ones(n, m, dtype=torch.bool, device=device).tril(offset)
    if attn_mask is None:
        return causal
    return attn_mask & causal if attn_mask.dtype == torch.bool else mask(attn_mask, causal)


def check_mask(attn_mask: Tensor, axes: int) -> None:
    """Refuse what `mask` refuses: integers, and a number of axes other than 2 or ``axes``."""
    if attn_mask.dtype != torch.bool and not attn_mask.is_floating_point():
        raise TypeError(
            f"attn_mask must be bool (True = may attend) or float (added to the scores); got "
            f"{attn_mask.dtype}. If 1 means 'may attend' pass attn_mask.bool(), if 1 means 'hidden' "
            f"pass ~attn_mask.bool()"
        )
    if attn_mask.dim() not in (2, axes):
        raise ValueError(
            f"attn_mask must have 2 axes (queries, keys) or {axes} like the scores; got shape "
            f"{tuple(attn_mask.shape)}. For one mask per sample use attn_mask[:, None]"
        )


def repeat_heads(x: Tensor, num_heads: int) -> Tensor:
    """[k0, k1] -> [k0, k0, k1, k1]: contiguous groups of query heads share a key/value head."""
    if num_heads == x.size(-3):
        return x
    if num_heads % x.size(-3):
        raise ValueError(
            f"the number of query heads must be a multiple of the number of key/value heads; got "
            f"{num_heads} and {x.size(-3)}; use a divisor of {num_heads}"
        )
    return x.repeat_interleave(num_heads // x.size(-3), dim=-3)


def fold_heads(x: Float[Tensor, "b h n d"], num_kv_heads: int) -> Float[Tensor, "b g rows d"]:
    """Query heads that share a key/value head become further rows of one head, so that no key is repeated."""
    return x.unflatten(1, (num_kv_heads, -1)).flatten(2, 3)


def unfold_heads(x: Float[Tensor, "b g rows d"], num_heads: int) -> Float[Tensor, "b h n d"]:
    """Undo `fold_heads`."""
    return x.unflatten(2, (num_heads // x.size(1), -1)).flatten(1, 2)


def _perhaps_any(found: Tensor) -> bool:
    """False if nothing is ``True`` in it; ``True`` also where that cannot be told at once."""
    if torch.compiler.is_compiling() or found.device.type != "cpu":
        return True
    try:
        return bool(found.any())
    except RuntimeError:  # inside vmap, or traced: there are no values to look at
        return True
