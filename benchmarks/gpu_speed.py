"""Time and memory on a GPU: ours against torch's, and tiles of different sizes against each other."""

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gpu_apart import in_short
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attncourse.masks import causal
from attncourse.variants.flash import flash_attention

HEAD_DIMS = (64, 128)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
KEY_LENGTHS = (2048, 8192)  # those of the ratios
OURS = ("triton", "hopper")


class Case(NamedTuple):
    """One problem: as many tokens and as much width in every case, so only the length changes the work."""

    head_dim: int
    is_causal: bool
    length: int
    tokens: int = 16384
    width: int = 2048

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.tokens // self.length, self.width // self.head_dim, self.length, self.head_dim

    def flops(self, table: str = "forward") -> float:
        """4 b h n^2 d, half of it if causal; the backward pass counts 2.5 times as much."""
        b, h, n, d = self.shape
        full = 4 * b * h * n * n * d
        return full / (2 if self.is_causal else 1) * (2.5 if table == "backward" else 1)


def cases(lengths=LENGTHS) -> list[Case]:
    return [Case(d, rule, n) for d in HEAD_DIMS for rule in (False, True) for n in lengths]


def tensors(case: Case, device: str, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """Query, key and value, which want gradients, and the gradient of the output."""
    torch.manual_seed(0)
    *qkv, grad = (torch.randn(case.shape, device=device).to(dtype) for _ in range(4))
    return [x.requires_grad_() for x in qkv], grad


def ours(backend: str, case: Case):
    return partial(flash_attention, is_causal=case.is_causal, backend=backend)


def fused(backend: SDPBackend, case: Case):
    """torch's attention, with one of its implementations forced."""

    def attend(query, key, value):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(query, key, value, is_causal=case.is_causal)

    return attend


def flex(case: Case):
    """FlexAttention, compiled for this very case."""
    from torch._functorch import config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    config.donated_buffer = False  # or a kept graph cannot run backward twice
    n, block_mask = case.length, None
    if case.is_causal:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        block_mask = create_block_mask(causal, None, None, n, n, device=device)
    return partial(torch.compile(flex_attention, dynamic=False), block_mask=block_mask)


CANDIDATES = {
    **{name: partial(ours, name) for name in OURS},
    **{
        name: partial(fused, getattr(SDPBackend, name))
        for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
    },
    "flex_attention": flex,
}
RIVALS = tuple(name for name in CANDIDATES if name not in OURS)


def takes_part(name: str, case: Case) -> bool:
    """Compiling FlexAttention costs seconds a case, and MATH stores the scores, in float32, six times."""
    if name == "flex_attention":
        return case.length in KEY_LENGTHS
    if name == "MATH" and torch.cuda.is_available():
        b, h, n, _ = case.shape
        return 6 * 4 * b * h * n * n < torch.cuda.mem_get_info()[0]
    return True


def milliseconds(function, warmup: int = 50, rep: int = 200) -> float:
    """The median time on the GPU, the cache emptied before each call."""
    from triton.testing import do_bench

    return do_bench(function, warmup=warmup, rep=rep, return_mode="median")


def peak_mib(function) -> float:
    """The most memory that a call holds at any time, beyond what was there before it."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = function()  # noqa: F841 (the result counts as well)
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def must_agree(found, expected) -> None:
    """Coarse: what is timed must be the computation that was asked for, at the size that is timed."""
    for a, b in zip(found, expected, strict=True):
        distance = ((a.float() - b.float()).norm() / b.float().norm()).item()
        if not distance < 0.02:
            raise ValueError(f"a result is off by {distance:.2g} of its norm")


def race(names, cases, timer=milliseconds, meter=peak_mib, device="cuda", dtype=torch.bfloat16):
    """Yield ((table, case, name), milliseconds or MiB), or (("failed", case, name), why)."""
    for case in cases:
        qkv, grad = tensors(case, device, dtype)
        output = F.scaled_dot_product_attention(*qkv, is_causal=case.is_causal)
        expected = [output.detach(), *torch.autograd.grad(output, qkv, grad)]
        del output
        for name in names:
            if takes_part(name, case):
                yield from one(name, case, qkv, grad, expected, timer, meter)
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.synchronize()  # raises if the device is spoiled


def one(name, case, qkv, grad, expected, timer, meter):
    """Forward as in training, keeping what backward needs; backward alone; the memory of both."""
    try:
        attend = CANDIDATES[name](case)
        output = attend(*qkv)
        backward = partial(torch.autograd.grad, output, qkv, grad, retain_graph=True)
        must_agree([output.detach(), *backward()], expected)
        yield ("forward", case, name), timer(lambda: attend(*qkv))
        yield ("backward", case, name), timer(backward)
        del output, backward
        yield ("memory", case, name), meter(lambda: torch.autograd.grad(attend(*qkv), qkv, grad))
    except Exception as problem:
        yield ("failed", case, name), in_short(problem)
