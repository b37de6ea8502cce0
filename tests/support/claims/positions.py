"""What must hold for waves, rotations, slowed rotations and slopes, beyond the contracts."""

from functools import partial

import mpmath
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse import spec
from support.cases import draw
from support.claims import refused
from support.contracts import close

FAR = (2**24, 2**24 - 1, 2**24 - 12_345, 10_000_019)
SLOWED = [  # class, its numbers; the first and the last pair of YaRN's ramp lie before, within and behind all pairs
    ("interpolated", (4.0,)),
    ("ntk", (4.0,)),
    *(("yarn", (4.0, length, 32.0, 1.0)) for length in (3, 100, 4096, 200_000, 10**9)),
    ("yarn", (4.0, 4096, 20.0, 3.0)),
    ("yarn", (4.0, 10**9, 1e6, 1.0)),
    ("llama3", (8.0, 1.0, 4.0, 8192)),
    ("llama3", (8.0, 2.0, 5.0, 1000)),
]


class NoFloat64(TorchDispatchMode):
    """As on a device that has no float64: tensors of it are on the CPU only."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, torch.Tensor) and x.dtype == torch.float64:
                assert x.device.type == "cpu", f"{function} makes float64"
        return out


def rotation_equals_its_loops_and_keeps_lengths(p):
    (x,) = draw((2, 3, 5, 8))
    positions = [0, 3, 4, 100, 7]
    for base in (10_000.0, 50.0, 1):
        turned = p.positions.rotary(x, torch.tensor(positions), base)
        close(turned, spec.rotary(x, positions, base))
        close(turned.norm(dim=-1), x.norm(dim=-1))
    close(p.positions.rotary(x, torch.zeros(5, dtype=torch.long)), x, atol=0.0)
    assert p.positions.rotary(x.half(), torch.arange(5)).dtype == torch.float16
    small = p.positions.rotary(x, torch.tensor(positions, dtype=torch.int32))
    close(small, p.positions.rotary(x, torch.tensor(positions)), atol=0.0)
    with pytest.raises(ValueError, match="even; got 7"):
        p.positions.rotary(x[..., :7], torch.arange(5))


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


def products_of_turned_vectors_know_the_distance_only(p):
    q, k = draw((1, 8), (1, 8))

    def product(i, j):
        a, b = (p.positions.rotary(x, torch.tensor([at])) for x, at in ((q, i), (k, j)))
        return a @ b.mT

    close(product(7, 3), product(104, 100))
    close(product(7, 3), product(-100, -104))
    assert (product(7, 3) - product(7, 4)).abs() > 1e-3


def angles_of_far_positions_are_exact(p):
    """Up to 2**24, against 50 digits; in a low precision only the result is rounded."""
    half = 64
    ones = torch.cat([torch.ones(len(FAR), half), torch.zeros(len(FAR), half)], dim=-1)
    with mpmath.workdps(50):
        for base in (10_000.0, 500_000.0):
            slower = [mpmath.mpf(base) ** (-mpmath.mpf(i) / half) for i in range(half)]
            exact = [[f(at * s) for f in (mpmath.cos, mpmath.sin) for s in slower] for at in FAR]
            exact = torch.tensor([[float(x) for x in row] for row in exact], dtype=torch.float64)
            for dtype, error in (
                (torch.float32, 1e-6),
                (torch.float64, 1e-8),
                (torch.bfloat16, 2**-8.9),
            ):
                turned = p.positions.rotary(ones.to(dtype), torch.tensor(FAR), base)
                close(turned.double(), exact, atol=error)
            waves = p.positions.sinusoidal(torch.tensor(FAR), 2 * half, base)
            wanted = torch.stack([exact[:, half:], exact[:, :half]], dim=-1).flatten(1)
            close(waves.double(), wanted, atol=1e-6)


def positions_may_differ_between_sequences(p):
    (x,) = draw((2, 3, 5, 8))
    positions = [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]  # the first is shorter, and padded on the left
    turned = p.positions.rotary(x, torch.tensor(positions))
    close(turned, torch.stack([spec.rotary(x[b], positions[b]) for b in range(2)]))
    both = p.positions.rotary(x, torch.tensor(positions[1:]))
    close(both, spec.rotary(x, positions[1]))
    one_by_one = torch.vmap(p.positions.rotary)(x, torch.tensor(positions))
    close(one_by_one, turned, atol=0.0)


def the_first_features_turn_and_the_others_stay(p):
    (x,) = draw((2, 3, 5, 12))
    positions = [0, 3, 4, 100, 7]
    for rotary_dim in (2, 6, 12):
        turned = p.positions.rotary(x, torch.tensor(positions), 50.0, rotary_dim=rotary_dim)
        frequencies = spec.rotary_frequencies(rotary_dim, 50.0)
        close(turned, spec.rotary(x, positions, frequencies=frequencies))
        close(turned[..., rotary_dim:], x[..., rotary_dim:], atol=0.0)
    close(turned, p.positions.rotary(x, torch.tensor(positions), 50.0), atol=0.0)


def slowed_frequencies_are_those_of_their_loops(p):
    (x,) = draw((2, 5, 24))
    positions = [0, 3, 4, 1000, 7]
    for name, numbers in SLOWED:
        scaling = getattr(p.rope_scaling, name)(*numbers)
        for rotary_dim, base in ((24, 10_000.0), (16, 500_000.0)):
            wanted = getattr(spec, f"{name}_frequencies")(rotary_dim, base, *numbers)
            plain = torch.tensor(spec.rotary_frequencies(rotary_dim, base), dtype=torch.float64)
            close(scaling(plain), torch.tensor(wanted, dtype=torch.float64), atol=1e-13)
            size = p.rope_scaling.yarn_temperature(4.0) if name == "yarn" else 1.0
            options = {"scaling": scaling, "rotary_dim": rotary_dim}
            turned = p.positions.rotary(x, torch.tensor(positions), base, **options)
            close(turned, spec.rotary(x, positions, frequencies=wanted, factor=size))
    close(p.rope_scaling.yarn_temperature(32.0), 0.1 * 3.4657359027997265 + 1)


def factor_1_slows_nothing(p):
    frequencies = torch.tensor(spec.rotary_frequencies(16), dtype=torch.float64)
    for name, numbers in SLOWED:
        scaling = getattr(p.rope_scaling, name)(1.0, *numbers[1:])
        close(scaling(frequencies), frequencies, atol=1e-15)
        assert getattr(scaling, "attention_factor", 1.0) == 1.0
    ends = p.rope_scaling.ntk(4.0)(frequencies)[[0, -1]]
    close(ends, frequencies[[0, -1]] / torch.tensor([1.0, 4.0]))


def no_float64_leaves_the_cpu(p):
    """Waves and angles are made on devices that have none, and where another device is the usual one."""
    x, positions = torch.empty(2, 3, 5, 8, device="meta"), torch.arange(5, device="meta")
    options = {"scaling": p.rope_scaling.yarn(4.0, 4096), "rotary_dim": 6}
    with NoFloat64(), torch.device("meta"):
        for at in (positions, positions.expand(2, 5)):
            assert p.positions.rotary(x, at).shape == x.shape
            assert p.positions.rotary(x.half(), at, **options).dtype == torch.float16
        assert p.positions.sinusoidal(positions, 8).shape == (5, 8)
        with pytest.raises(AssertionError, match="makes float64"):
            positions.double()


def slopes_are_those_of_the_loops(p):
    for heads in range(1, 25):
        ours, loops = p.scores.alibi(heads), spec.alibi(heads)
        slopes = [-float(ours(torch.zeros(()), 0, h, torch.tensor(3), torch.tensor(4))) for h in range(heads)]  # fmt: skip
        close(slopes, [-loops(0.0, 0, h, 3, 4) for h in range(heads)], atol=1e-7)
        assert len(set(slopes)) == heads, "each head has its own"
        assert 0 < min(slopes) <= max(slopes) < 1
    refused(ValueError, ("num_heads must be at least 1.*got 0", partial(p.scores.alibi, 0)))


def messages_about_positions_say_what_to_do(p):
    x, at = torch.zeros(2, 3, 5, 8), torch.arange(5)
    turn, slow = p.positions.rotary, p.rope_scaling
    one_pair = torch.ones(1, dtype=torch.float64)
    refused(
        TypeError,
        ("integers; got torch.float32. .*scaling=interpolated", lambda: turn(x, at / 2)),
        ("integers; got torch.float32", lambda: p.positions.sinusoidal(at / 2, 8)),
    )
    refused(
        ValueError,
        ("base must be at least 1.*; got 0.5", lambda: turn(x, at, 0.5)),
        ("even; got 3", lambda: turn(x, at, rotary_dim=3)),
        ("from 2 to the 8 features of x; got 10", lambda: turn(x, at, rotary_dim=10)),
        ("from 2 to the 8 features of x; got 0", lambda: turn(x, at, rotary_dim=0)),
        (r"got \(4,\) for x of \(2, 3, 5, 8\)\. Give each", lambda: turn(x, at[:4])),
        (r"got \(1,\) for x", lambda: turn(x, at[:1])),
        (r"got \(3, 5\) for x", lambda: turn(x, at.expand(3, 5))),
        (r"got \(2, 5\) for x of \(2, 5, 8\)", lambda: turn(x[:, 0], at.expand(2, 5))),
        (r"got \(2, 1, 5\) for x", lambda: turn(x, at.expand(2, 1, 5))),
        ("at least 1; got 0.5. To go from 4096", lambda: slow.interpolated(0.5)),
        ("at least 1; got 0.5", lambda: slow.ntk(0.5)),
        ("at least 1; got 0.5", lambda: slow.yarn(0.5, 4096)),
        ("at least 1; got 0.5", lambda: slow.llama3(0.5, 1.0, 4.0, 8192)),
        ("at least 1; got nan", lambda: slow.yarn_temperature(float("nan"))),
        ("original_length counts .*; got 0. Use", lambda: slow.yarn(4.0, 0)),
        ("0 < beta_slow < beta_fast; got 2.0 and 1.0", lambda: slow.yarn(4.0, 4096, 1.0, 2.0)),
        ("0 < low_freq_factor < high_freq_factor; got 0 and 4", lambda: slow.llama3(8, 0, 4, 8192)),
        ("2 pairs must turn; got 1. Use interpolated", lambda: slow.ntk(2.0)(one_pair)),
        ("2 pairs must turn; got 1", lambda: slow.yarn(2.0, 4096)(one_pair)),
    )
