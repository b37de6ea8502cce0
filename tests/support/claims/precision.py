"""What must hold of half precision: sums and states are wide, whatever comes in, on the CPU and under autocast."""

from functools import partial

import torch
import torch.nn.functional as F

from support.cases import module

LIMITS = {torch.float16: 2e-3, torch.bfloat16: 2e-2}


def calls(p, n: int = 4096):
    """Name -> (function, float32 inputs); every function with a state."""
    linear, gated = module(p, "linear").linear_attention, module(p, "gated").gated_linear_attention
    delta = module(p, "delta").delta_rule
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, n, 32, generator=generator)
    beta, fading = torch.rand(2, 1, 2, n, generator=generator)
    fading = -fading / 50
    unit = F.normalize(k, dim=-1)
    return {
        "linear": (linear, (q, k, v)),
        "linear, causal": (partial(linear, is_causal=True), (q, k, v)),
        "gated": (gated, (q, k, v, fading)),
        "gated, channels": (gated, (q, k, v, fading[..., None].expand_as(q))),
        "delta": (lambda *x, **o: delta(*x[:4], log_decay=x[4], **o), (q, unit, v, beta, fading)),
    }


def thousands_of_tokens_in_half_precision(p):
    """Relative errors against float64 of what was rounded; no row is silently 0, and the state stays wide."""
    for name, (call, inputs) in calls(p).items():
        for dtype, most in LIMITS.items():
            narrow = [x.to(dtype) for x in inputs]
            output, state = call(*narrow, return_state=True)
            exact = call(*(x.double() for x in narrow))
            assert output.dtype == dtype, name
            assert state.dtype == torch.float32, name
            error = (output.double() - exact).norm() / exact.norm()
            assert error <= most, f"{name} {dtype}: {error:.1e}"
            assert output.any(dim=-1).all(), f"{name} {dtype}: a row is 0"


def autocast_narrows_no_sum(p):
    for name, (call, inputs) in calls(p, 1024).items():
        exact = call(*(x.double() for x in inputs))
        with torch.autocast("cpu", torch.bfloat16):
            output = call(*inputs)
        assert output.dtype == torch.float32
        error = (output.double() - exact).norm() / exact.norm()
        assert error < 1e-5, f"{name}: {error:.1e}"


def layers_run_in_half_precision(p):
    """Alone, behind padding and behind a cache; also with a learned map of features."""
    linear, gated, delta = (module(p, name) for name in ("linear", "gated", "delta"))

    class Learned(torch.nn.Linear):
        def forward(self, x):
            return linear.elu_plus_one(super().forward(x))

    makes = [
        partial(linear.LinearAttention, feature_map=Learned(8, 6)),
        partial(gated.GatedLinearAttention, conv_size=3, gate="silu"),
        partial(delta.GatedDeltaAttention, per_channel=True),
        delta.DeltaAttention,
    ]
    x = torch.randn(2, 70, 16, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(70).expand(2, 1, 1, 70) > 3
    for make in makes:
        for dtype in LIMITS:
            torch.manual_seed(0)
            layer = make(16, 2).to(dtype)
            rounded = x.to(dtype)
            output = layer(rounded, is_causal=True, attn_mask=mask)
            exact = layer.double()(rounded.double(), is_causal=True, attn_mask=mask)
            error = (output.double() - exact)[:, 4:].norm() / exact[:, 4:].norm()
            assert output.dtype == dtype
            assert error < 3e-2, error
            cache = linear.LinearCache(layer.to(dtype))
            cache.advance(rounded)
            state = cache.state[0] if isinstance(cache.state, tuple) else cache.state
            assert state.dtype == torch.float32


def mixed_dtypes_meet_in_the_widest(p):
    for call, inputs in calls(p, 9).values():
        first, *rest = inputs
        output = call(first.double(), *rest)
        assert output.dtype == torch.float64
        torch.testing.assert_close(output, call(*(x.double() for x in inputs)), rtol=0, atol=1e-12)
        assert call(first.half(), *rest).dtype == torch.float16
    assert module(p, "precision").wide(torch.ones(2).half()).dtype == torch.float32
