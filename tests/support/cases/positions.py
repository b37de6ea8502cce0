"""Positions among the variants and claims: buckets of distances, waves, and the slips in both."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, moved, variant
from support.claims import claim
from support.contracts import close
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


@claim
def buckets_equal_their_loops(p):
    distances = torch.arange(-300, 301)
    for buckets, furthest in ((32, 128), (8, 20), (16, 100), (4, 3)):
        for both in (False, True):
            found = p.scores.t5_bucket(distances, buckets, furthest, bidirectional=both)
            wanted = [spec.t5_bucket(x, buckets, furthest, both) for x in distances.tolist()]
            assert found.tolist() == wanted
            assert found.max() == buckets - 1
    for buckets, furthest, both in ((6, 128, True), (5, 128, False), (32, 8, True), (0, 9, False)):
        with pytest.raises(ValueError, match="multiple of .* got buckets="):
            p.scores.t5_bucket(distances, buckets, furthest, both)


@claim
def a_wave_equals_its_loops(p):
    positions = [0, 1, 4, 1000]
    for width, base in ((8, 10_000.0), (2, 10_000.0), (6, 50.0)):
        waves = p.positions.sinusoidal(torch.tensor(positions), width, base)
        wanted = [spec.sinusoidal(at, width, base) for at in positions]
        close(waves, torch.tensor(wanted), atol=1e-6)
        # A vector has the same length everywhere, as sin^2 + cos^2 = 1.
        close(waves.square().sum(-1), torch.full((4,), width / 2), atol=1e-5)
    with pytest.raises(ValueError, match="even; got 7"):
        p.positions.sinusoidal(torch.arange(3), 7)


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
