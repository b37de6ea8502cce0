"""How a score moves: rules ``score_mod(score, b, h, q_idx, kv_idx) -> score``.

The signature is that of PyTorch's ``flex_attention``, so a rule written here runs there unchanged.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
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

        score -> score - slope(h) * |i - j|
        slope(h) = 2 ** (-8 (h + 1) / p)          h < p,  p the largest power of two up to num_heads
                 = 2 ** (-8 (h - p + 1/2) / p)    h >= p: halfway between those, from the steepest on

    Args:
        num_heads: number of heads; a power of two has the first kind of slopes only.

    Raises:
        ValueError: num_heads is below 1.

    Source: press2022, section 3, and its code for numbers that are no power of two. There a causal mask
        hides j > i; here both sides cost the same.
    Chapter: 04_positions.
    """
    if num_heads < 1:
        raise ValueError(
            f"num_heads must be at least 1, for each has a slope; got {num_heads}. Use "
            "the number of heads of the query"
        )
    power = 1 << (num_heads.bit_length() - 1)
    steps = [torch.arange(1, power + 1), torch.arange(num_heads - power) + 0.5]
    slopes = 2.0 ** (-8 * torch.cat(steps) / power)

    def rule(score, b, h, q_idx, kv_idx):
        return score - slopes.to(score)[h] * (q_idx - kv_idx).abs()

    return rule


@named
def relative_bias(
    table: Float[Tensor, "h offsets"], bucket: Callable[[Tensor], Tensor] | None = None
) -> ScoreMod:
    """Add a learned number that depends on the head and on how far apart query and key are.

        score -> score + table(h, bucket(i - j)),   bucket(x) = clip(x, -r, r) + r unless given

    Args:
        table: one row per head. Without ``bucket`` it has 2 r + 1 columns: the middle one is distance 0,
            columns right of it look back.
        bucket: the column of each distance i - j, which is positive where the key comes before the
            query; for example `t5_bucket`.

    Raises:
        ValueError: without ``bucket``, an even number of columns, which has no middle.

    Reduces to: the plain score when the table is constant, because softmax ignores a shift.
    Source: raffel2020, section 2.1, with `t5_bucket`; shaw2018, section 3.2, for the clipped distance.
    Chapter: 04_positions.
    """
    if bucket is None and table.size(-1) % 2 == 0:
        raise ValueError(
            f"table needs an odd number of columns, 2 r + 1, with distance 0 in the middle; got "
            f"{table.size(-1)}"
        )
    reach = table.size(-1) // 2
    column = bucket or (lambda distance: distance.clamp(-reach, reach) + reach)

    def rule(score, b, h, q_idx, kv_idx):
        return score + table[h, column(q_idx - kv_idx)]

    return rule


def t5_bucket(
    distance: Int[Tensor, "*n"], buckets: int = 32, furthest: int = 128, bidirectional: bool = True
) -> Int[Tensor, "*n"]:
    """Near distances have a bucket each, far ones share: each bucket is wider than the last by one factor.

        bucket(x) = x                                                                  x < e
                  = e + floor((buckets - e) log(x / e) / log(furthest / e))            x >= e,  e = buckets / 2

    Args:
        distance: i - j, positive where the key comes before the query.
        buckets: how many there are, even; a multiple of 4 if ``bidirectional``.
        furthest: from this distance on, all share the last bucket.
        bidirectional: half of the buckets are for keys that come after the query; their numbers come
            second. ``False``: these keys count as distance 0, for they are masked anyway.

    Raises:
        ValueError: buckets that cannot be halved (twice if ``bidirectional``), or a ``furthest`` that is
            not above e.

    Source: raffel2020, section 2.1; the numbers are those of the code that was published with it.
    Chapter: 04_positions.
    """
    parts = 4 if bidirectional else 2
    exact = buckets // parts
    if buckets < parts or buckets % parts or furthest <= exact:
        raise ValueError(
            f"buckets must be a multiple of {parts}, and furthest above buckets / {parts}; got "
            f"buckets={buckets} and furthest={furthest}"
        )
    after = torch.where(distance < 0, 2 * exact, 0) if bidirectional else 0
    distance = distance.abs() if bidirectional else distance.clamp(min=0)
    share = torch.log(distance.clamp(min=exact) / exact) / math.log(furthest / exact)
    far = (exact + exact * share).long().clamp(max=2 * exact - 1)
    return after + torch.where(distance < exact, distance, far)
