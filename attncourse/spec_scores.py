"""The definitions of scores that know more, as literal Python loops: relative positions, neighbours, other heads.

As in `attncourse.spec`: one loop for each index of the formula, nothing clever, float64 for comparing.
"""

import math

from torch import Tensor

from attncourse.spec import scaled_dot_product_attention


def log_bucket(distance: int, buckets: int, furthest: int) -> int:
    """The number of one distance as the released code of he2021 gives it: its own up to buckets / 2, then shared."""
    exact = buckets // 2
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
