"""How a score moves: rules ``score_mod(score, b, h, q_idx, kv_idx) -> score``.

The signature is that of PyTorch's ``flex_attention``, so a rule written here runs there unchanged.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attncourse.mods import ScoreMod, named


@named
def softcap(cap: float) -> ScoreMod:
    """Scores bend towards plus or minus ``cap`` instead of growing without bound.

        score -> cap * tanh(score / cap)

    Args:
        cap: largest absolute score, in score units; 0 < cap. A large cap changes nothing.

    Raises:
        ValueError: cap is not positive.

    Reduces to: the plain score as cap grows.
    Source: gemma2024, section 2.
    """
    if cap <= 0:
        raise ValueError(f"cap is the largest absolute score and must be positive; got {cap}")

    def rule(score, b, h, q_idx, kv_idx):
        return cap * torch.tanh(score / cap)

    return rule


@named
def alibi(num_heads: int) -> ScoreMod:
    """Distance costs: each head lowers a score by its own slope times the distance.

        score -> score - slope(h) * |i - j|,   slope(h) = 2 ** (-8 (h + 1) / num_heads)

    Args:
        num_heads: number of heads, a power of two as in the source's formula.

    Raises:
        ValueError: num_heads is not a power of two.

    Source: press2022, section 3. There a causal mask hides j > i; here both sides cost the same.
    """
    if num_heads < 1 or num_heads & (num_heads - 1):
        raise ValueError(f"num_heads must be a power of two for these slopes; got {num_heads}")
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)

    def rule(score, b, h, q_idx, kv_idx):
        return score - slopes.to(score)[h] * (q_idx - kv_idx).abs()

    return rule


@named
def relative_bias(table: Float[Tensor, "h offsets"]) -> ScoreMod:
    """Add a learned number that depends on the head and on how far apart query and key are.

        score -> score + table(h, clip(i - j, -r, r) + r),   offsets = 2 r + 1

    Args:
        table: one row per head; the middle column is distance 0, columns right of it look back.

    Raises:
        ValueError: an even number of columns has no middle.

    Reduces to: the plain score when the table is constant, because softmax ignores a shift.
    Source: raffel2020, section 2.1, without its logarithmic buckets.
    """
    if table.size(-1) % 2 == 0:
        raise ValueError(
            f"table needs an odd number of columns, 2 r + 1, with distance 0 in the middle; got "
            f"{table.size(-1)}"
        )
    reach = table.size(-1) // 2

    def rule(score, b, h, q_idx, kv_idx):
        return score + table[h, (q_idx - kv_idx).clamp(-reach, reach) + reach]

    return rule
