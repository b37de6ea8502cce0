"""Who takes part: our kernels, and what torch offers, each as a function of query, key and value."""

import importlib
import math
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attncourse.masks import causal
from attncourse.variants.flash import flash_attention
from attncourse.variants.flash.backends import BACKENDS, MODULES
from attncourse.variants.flash.backends import lacks as backend_lacks
from attncourse.variants.flash.tiles import Tile
from gpu import card

FUSED = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")
FLEX = "flex_attention"
THEIRS = (*FUSED, "MATH", FLEX)
# Without a backward pass of their own: {name: (module, options of its `forward`)}.
FORWARD_ONLY = {
    "descriptors": ("hopper", {"specialize": False, "tile": Tile(128, 128, 8, 3)}),
    "gluon": ("", {}),
}
OURS = ("tiled", "triton", "descriptors", "hopper", "gluon")
NAMES = (*OURS, *THEIRS)

# What every table measures: (head_dim, is_causal).
SETTINGS = tuple(product((64, 128), (False, True)))


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


def tensors(shape: tuple, dtype: torch.dtype | None = None) -> tuple[list[Tensor], Tensor]:
    """Query, key and value, which want gradients, and the gradient of the output."""
    torch.manual_seed(0)
    draw = partial(torch.randn, shape, device=card.device())
    *qkv, grad = (draw().to(dtype or card.narrow()) for _ in range(4))
    return [x.requires_grad_() for x in qkv], grad


def lacks(name: str, head_dim: int, value_dim: int, dtype: torch.dtype) -> str:
    """What a candidate of ours lacks for such inputs on this machine, in words; '' if it can run."""
    query, value = (
        torch.empty(0, w, dtype=dtype, device=card.device()) for w in (head_dim, value_dim)
    )
    return backend_lacks("hopper" if name in FORWARD_ONLY else name, query, value, None)


def trains(name: str) -> bool:
    return name not in FORWARD_ONLY


def with_lse(name: str, query: Tensor, key: Tensor, value: Tensor, is_causal=False, offset=0):
    """Output and log-sum-exp by a candidate of ours; differentiable if it `trains`."""
    if name in BACKENDS:
        output, aux = flash_attention(
            query, key, value, is_causal=is_causal, enable_gqa=True, offset=offset, backend=name, return_aux=True,
        )  # fmt: skip
        return output, aux.lse
    inputs = (x.detach() for x in (query, key, value))
    return forward_of(name)(*inputs, 1 / math.sqrt(query.size(-1)), is_causal, offset)


def forward_of(name: str):
    """The `forward` of a candidate of ours, of (query, key, value, scale, is_causal, offset)."""
    module, options = FORWARD_ONLY.get(name) or (MODULES[name], {})
    if name == "gluon":
        return gluon().forward
    return partial(
        importlib.import_module(f"attncourse.variants.flash.{module}").forward, **options
    )


@cache
def gluon():
    """The Gluon kernel; Gluon has no interpreter, so that on the CPU a model of the card runs it."""
    if card.interpreted():
        return importlib.import_module("gpu.gluon_names").load()
    return importlib.import_module("gpu.gluon_forward")


def fused(name: str, query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
    """torch's attention, with one of its implementations forced."""
    with sdpa_kernel(getattr(SDPBackend, name)):
        return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)


def flex(length: int, is_causal: bool):
    """FlexAttention, compiled for this very case."""
    from torch._functorch import config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    config.donated_buffer = False  # or a kept graph cannot run backward twice
    block_mask = None
    if is_causal:
        block_mask = create_block_mask(causal, None, None, length, length, device=card.device())
    return partial(torch.compile(flex_attention, dynamic=False), block_mask=block_mask)


def attend(name: str, length: int, is_causal: bool):
    """A candidate as a function of query, key and value, all of this length, that returns the output."""
    if name == FLEX:
        return flex(length, is_causal)
    if name in THEIRS:
        return partial(fused, name, is_causal=is_causal)
    return lambda *qkv: with_lse(name, *qkv, is_causal=is_causal)[0]


def reference(qkv: list[Tensor], grad: Tensor, is_causal: bool) -> list[Tensor]:
    """Output and gradients by torch, whichever of its implementations it takes."""
    output = F.scaled_dot_product_attention(*qkv, is_causal=is_causal)
    return [output.detach(), *torch.autograd.grad(output, qkv, grad)]


def must_agree(found, expected) -> None:
    """Coarse: what is timed must be the computation that was asked for, at the size that is timed."""
    for a, b in zip(found, expected, strict=True):
        distance = ((a.float() - b.float()).norm() / b.float().norm()).item()
        if not distance < 0.02:
            raise ValueError(f"a result is off by {distance:.2g} of its norm")
