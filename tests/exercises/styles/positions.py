"""Positions: right answers in other styles."""

import math

import numpy as np
import torch

from attncourse.grading.exercises.positions.extrapolation import RIGHT
from styles import style

style("extrapolation", [0.3575, 0.0183], name="four_decimals")
style("extrapolation", torch.tensor(RIGHT), name="tensor")
style("extrapolation", np.array(RIGHT), name="numpy")


@style("sinusoid")
def loops(positions, width, base):
    out = torch.zeros(len(positions), width)
    for row, p in enumerate(positions):
        for i in range(width // 2):
            angle = p.item() / base ** (2 * i / width)
            out[row, i], out[row, i + width // 2] = math.sin(angle), math.cos(angle)
    return out


@style("sinusoid")
def exponent_of_a_logarithm(positions, width, base):
    turn = torch.exp(torch.arange(0, width, 2) * (-math.log(base) / width))
    angles = torch.outer(positions.float(), turn)
    return torch.hstack([torch.sin(angles), torch.cos(angles)])


@style("sinusoid")
def numpy_angles(positions, width, base):
    angles = positions.numpy()[:, None] / np.power(base, np.arange(0, width, 2) / width)
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


@style("sinusoid")
def complex_hands(positions, width, base):
    angles = positions[:, None] * base ** (-torch.arange(0, width, 2).double() / width)
    hands = torch.polar(torch.ones_like(angles), angles)
    return torch.cat([hands.imag, hands.real], 1)


@style("t5_bucket")
def one_by_one(distance, buckets, furthest):
    def one(x):
        half = buckets // 2
        first, x, e = (half if x < 0 else 0), abs(x), half // 2
        if x < e:
            return first + x
        return first + min(half - 1, e + int(math.log(x / e) / math.log(furthest / e) * (half - e)))

    return torch.tensor([one(x) for x in distance.flatten().tolist()]).reshape(distance.shape)


@style("t5_bucket")
def as_in_the_published_code(distance, buckets, furthest):
    buckets //= 2
    out = (distance < 0).long() * buckets
    x = distance.abs()
    e = buckets // 2
    large = e + (torch.log(x.float() / e) / math.log(furthest / e) * (buckets - e)).long()
    return out + torch.where(x < e, x, torch.min(large, torch.full_like(large, buckets - 1)))


@style("t5_bucket")
def edges_counted(distance, buckets, furthest):
    half, e = buckets // 2, buckets // 4
    steps = torch.arange(1, half - e).double() / (half - e)
    edges = torch.cat([torch.arange(1, e + 1).double(), e * (furthest / e) ** steps])
    return torch.bucketize(distance.abs().double(), edges, right=True) + half * (distance < 0)


@style("t5_bucket")
def numpy_in_base_2(distance, buckets, furthest):
    half, e = buckets // 2, buckets // 4
    x = np.abs(distance.numpy())
    far = e + np.floor(np.log2(np.maximum(x, e) / e) / np.log2(furthest / e) * (half - e))
    return torch.from_numpy(
        np.where(x < e, x, np.minimum(far, half - 1)) + half * (distance.numpy() < 0)
    )


@style("rotary_step")
def complex_numbers(query, key, past, base):
    n, d = query.shape[2:]
    speeds = base ** (-torch.arange(0, d, 2).double() / d)
    angles = (past[:, None] + torch.arange(n)).double()[:, None, :, None] * speeds
    hands = torch.polar(torch.ones_like(angles), angles)
    pairs = (
        torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous()) for x in (query, key)
    )
    return tuple(torch.view_as_real(x * hands).flatten(-2).float() for x in pairs)


@style("rotary_step")
def rotate_neighbours(query, key, past, base):
    d = query.shape[-1]
    speed = (1.0 / base ** (torch.arange(0, d, 2).float() / d)).repeat_interleave(2)
    at = torch.stack([torch.arange(p, p + query.shape[2]) for p in past.tolist()])
    angle = at[:, None, :, None] * speed

    def one(x):
        crossed = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
        return x * angle.cos() + crossed * angle.sin()

    return [one(query), one(key)]


@style("rotary_step")
def matrices_sample_by_sample(query, key, past, base):
    def one(x, p):
        rows = []
        for t, vector in enumerate(x.unbind(1)):
            angles = (int(p) + t) * base ** (-torch.arange(0, x.size(-1), 2) / x.size(-1))
            c, s = angles.cos(), angles.sin()
            blocks = [
                torch.stack([torch.stack([a, -b]), torch.stack([b, a])])
                for a, b in zip(c, s, strict=True)
            ]
            rows.append(vector @ torch.block_diag(*blocks).T)
        return torch.stack(rows, 1)

    return tuple(
        torch.stack([one(x, p) for x, p in zip(xs, past, strict=True)]) for xs in (query, key)
    )


@style("repair_positions")
def pair_by_pair(table, n, m):
    r = (table.shape[1] - 1) // 2
    rows = []
    for i in range(n):
        rows.append(
            torch.stack([table[:, min(max(m - n + i - j, -r), r) + r] for j in range(m)], dim=1)
        )
    return torch.stack(rows, dim=1)


@style("repair_positions")
def last_rows_of_the_square(table, n, m):
    r, at = table.size(1) // 2, torch.arange(m)
    square = (at.view(m, 1) - at).clip(-r, r) + r
    return table[:, square[m - n :]].contiguous()


@style("repair_positions")
def one_hot_product(table, n, m):
    r = table.size(1) // 2
    apart = torch.arange(m - n, m)[:, None] - torch.arange(m)[None]
    where = torch.nn.functional.one_hot(torch.clamp(apart, min=-r, max=r) + r, 2 * r + 1)
    return torch.einsum("hr,nmr->hnm", table, where.to(table.dtype))


@style("repair_positions")
def padded_and_unfolded(table, n, m):
    """A row of the bias is a window of one long row, of which the ends are repeated."""
    r = table.size(1) // 2
    row = torch.cat([table[:, :1].expand(-1, m), table, table[:, -1:].expand(-1, m)], 1)
    return torch.stack([row[:, r + i + 1 : m + r + i + 1].flip(1) for i in range(m - n, m)], 1)
