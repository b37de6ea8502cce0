"""Positions among the variants: buckets of distances; and the slips in them and in waves."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, moved, variant
from support.mutants import MUTANTS

BUCKETS = {"buckets": 8, "furthest": 5}  # few and near, so that short sequences reach the last


def bucketed(p, s, bidirectional):
    """`relative_bias` with a column for each bucket of `t5_bucket`."""
    ours = partial(p.scores.t5_bucket, bidirectional=bidirectional, **BUCKETS)
    by_loops = partial(spec.t5_bucket, bidirectional=bidirectional, **BUCKETS)

    def limit(q, k, v, attend):  # softmax ignores a constant
        return attend(q, k, v, torch.ones(s.h, 8))[0], F.scaled_dot_product_attention(q, k, v)

    return moved(
        p,
        s,
        lambda table: p.scores.relative_bias(table, ours),
        lambda table: spec.relative_bias(table, by_loops),
        limit,
        draw((s.h, 8)),
    )


@variant("attention, relative_bias in buckets, both sides", n=11, m=13, d=5, e=7)
def both_sides(p, s):
    return bucketed(p, s, bidirectional=True)


@variant("attention, relative_bias in buckets, the past", n=11, m=13, d=5, e=7)
def past(p, s):
    return bucketed(p, s, bidirectional=False)


MUTANTS += [
    ("scores", "table[h, column(q_idx - kv_idx)]", "table[h, column(kv_idx - q_idx)]"),
    ("scores", "torch.where(distance < 0, 2 * exact, 0)", "torch.where(distance > 0, 2 * exact, 0)"),
    ("scores", "distance.abs() if bidirectional else distance.clamp(min=0)", "distance.abs()"),
    ("scores", "torch.where(distance < exact, distance, far)", "far"),
    ("scores", ".long().clamp(max=2 * exact - 1)", ".round().long().clamp(max=2 * exact - 1)"),
    ("scores", "exact = buckets // parts", "exact = buckets // 4"),
    ("scores", "/ math.log(furthest / exact)", "/ math.log(furthest)"),
    ("positions", "[angles.sin(), angles.cos()], dim=-1)", "[angles.cos(), angles.sin()], dim=-1)"),
    ("positions", "torch.stack([angles.sin(), angles.cos()], dim=-1)", "torch.stack([angles.sin(), angles.cos()], dim=1)"),
]  # fmt: skip
