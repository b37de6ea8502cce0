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
    ("positions", "turned = positions[..., None].long() * steps", "turned = (positions[..., None].double() * steps).long()"),
    ("positions", "turned = positions[..., None].long() * steps", "turned = positions[..., None].int() * (steps >> 32) << 32"),
    ("positions", "torch.promote_types(dtype, torch.float32)", "dtype"),
    ("positions", "torch.promote_types(dtype, torch.float32)", "torch.float32"),
    ("positions", "RADIAN = 2**64 / (2 * math.pi)", "RADIAN = 2**64 / 6.2831853"),
    ("positions", "(frequencies * RADIAN).long()", "(frequencies.float() * RADIAN).long()"),
    ("positions", ", dtype=torch.float64, device=\"cpu\")", ", dtype=torch.float64)"),
    ("positions", ", dtype=torch.float64, device=\"cpu\")", ", dtype=torch.float32, device=\"cpu\")"),
    ("positions", "angles = angles[:, None]", "angles = angles[:, :, None].mT"),
    ("positions", "if positions.dim() == 2:\n        angles", "if False:\n        angles"),
    ("positions", "x, rest = x[..., :width], x[..., width:]", "x, rest = x[..., -width:], x[..., :-width]"),
    ("positions", "first * sin + second * cos, rest]", "first * sin + second * cos]"),
    ("positions", "frequencies = scaling(frequencies)", "frequencies = scaling(scaling(frequencies))"),
    ("positions", "_frequencies(width, base)\n    if", "_frequencies(x.size(-1), base)[: width // 2]\n    if"),
    ("positions", "cos * factor, sin", "cos, sin"),
    ("positions", "sin * factor\n", "sin\n"),
    ("positions", "if base < 1:", "if base < 0:"),
    ("positions", "if positions.is_floating_point():", "if False:"),
    ("positions", "if not 0 < width <= x.size(-1):", "if not 0 <= width <= x.size(-1):"),
    ("positions", "if not 0 < width <= x.size(-1):", "if not 0 < width:"),
    ("positions", " or positions.size(-1) != x.size(-2):", ":"),
    ("positions", "positions.size(0) in (1, x.size(0))", "positions.size(0) == x.size(0)"),
    ("positions", "positions.dim() == 2 and x.dim() == 4 and", "positions.dim() == 2 and"),
    ("rope_scaling", "return frequencies / self.factor", "return frequencies * self.factor"),
    ("rope_scaling", "(-pair / (len(frequencies) - 1))", "(-pair / len(frequencies))"),
    ("rope_scaling", "self.original_length / math.tau  # of the fastest pair", "self.original_length  # of the fastest pair"),
    ("rope_scaling", "step = torch.log(frequencies[0] / frequencies[-1]) / pair[-1]", "step = torch.log(frequencies[0] / frequencies[-1]) / len(pair)"),
    ("rope_scaling", "torch.log(turns / self.beta_fast)", "torch.log(turns / self.beta_slow)"),
    ("rope_scaling", "torch.log(turns / self.beta_slow)", "torch.log(turns / self.beta_fast)"),
    ("rope_scaling", ".floor().clamp(min=0)", ".clamp(min=0)"),
    ("rope_scaling", ".floor().clamp(min=0)", ".floor()"),
    ("rope_scaling", ".ceil().clamp(max=2 * len(pair) - 1)", ".clamp(max=2 * len(pair) - 1)"),
    ("rope_scaling", ".ceil().clamp(max=2 * len(pair) - 1)", ".ceil().clamp(max=len(pair) - 1)"),
    ("rope_scaling", ".ceil().clamp(max=2 * len(pair) - 1)", ".ceil()"),
    ("rope_scaling", "(last - first).clamp(min=1e-3)", "(last - first)"),
    ("rope_scaling", "(1 - ramp) * frequencies + ramp * frequencies / self.factor", "ramp * frequencies + (1 - ramp) * frequencies / self.factor"),
    ("rope_scaling", "return yarn_temperature(self.factor)", "return 1.0"),
    ("rope_scaling", "0.1 * math.log(factor) + 1", "0.1 * math.log2(factor) + 1"),
    ("rope_scaling", "turns = frequencies * self.original_length / math.tau", "turns = frequencies * self.original_length / math.pi"),
    ("rope_scaling", "((turns - low) / (high - low)).clamp(0, 1)", "((turns - low) / (high - low)).clamp(max=1)"),
    ("rope_scaling", "((turns - low) / (high - low)).clamp(0, 1)", "(turns / high).clamp(0, 1)"),
    ("rope_scaling", "stays * frequencies + (1 - stays) * frequencies / self.factor", "frequencies / (stays + (1 - stays) * self.factor)"),
    ("rope_scaling", "if len(frequencies) < 2:", "if len(frequencies) < 1:"),
    ("rope_scaling", "if not factor >= 1:", "if factor < 1:"),
    ("rope_scaling", "if not factor >= 1:", "if not factor > 1:"),
    ("rope_scaling", "if not original_length > 0:", "if not original_length >= 0:"),
    ("rope_scaling", "if not 0 < low < high:", "if not 0 < low:"),
    ("rope_scaling", "if not 0 < low < high:", "if not low < high:"),
    ("scores", "if num_heads < 1:", "if num_heads < 0:"),
    ("scores", "torch.arange(1, power + 1)", "torch.arange(power)"),
    ("scores", "torch.arange(num_heads - power) + 0.5", "torch.arange(num_heads - power) + 1.5"),
    ("scores", "torch.cat(steps) / power", "torch.cat(steps) / num_heads"),
    ("scores", "1 << (num_heads.bit_length() - 1)", "1 << num_heads.bit_length()"),
]  # fmt: skip
