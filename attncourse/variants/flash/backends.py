"""Which rung of the ladder can run here, on these inputs, and what the others lack."""

import importlib.util
import os

import torch
from torch import Tensor

MODULES = {"hopper": "hopper", "triton": "kernels", "tiled": "tiled"}
BACKENDS = tuple(MODULES)
# Tried in this order. "hopper" is used only when asked for, until a measurement shows it to be faster.
AUTOMATIC = ("triton", "tiled")


def choose(backend: str | None, query: Tensor, value: Tensor, attn_mask: Tensor | None) -> str:
    """The backend that will run, after asking each what it lacks."""
    if backend is None:
        candidates = AUTOMATIC if query.is_cuda else ("tiled",)  # the interpreter is for tests
        return next(x for x in candidates if not lacks(x, query, value, attn_mask))
    if backend not in BACKENDS:
        raise ValueError(f"backend must be None or one of {', '.join(BACKENDS)}; got {backend!r}")
    if lack := lacks(backend, query, value, attn_mask):
        raise RuntimeError(
            f"backend={backend!r} needs {lack}. backend=None takes the best that works here, "
            f"backend='tiled' works everywhere"
        )
    return backend


def lacks(backend: str, query: Tensor, value: Tensor, attn_mask: Tensor | None) -> str:
    """What this machine or these inputs lack for a backend, in words; '' if it can run."""
    if backend == "tiled":
        return ""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not importlib.util.find_spec("triton"):
        return "Triton, which is not installed: pip install 'attncourse[gpu]' (Linux only)"
    if not (query.is_cuda or interpreted):
        where = "there is a CUDA GPU: move them with .cuda()"
        if not torch.cuda.is_available():
            where = "no CUDA GPU was found"
        return f"inputs on a GPU; they are on {query.device.type!r}, and {where}"
    if attn_mask is not None:
        return "attn_mask=None: the kernels know is_causal and offset only"
    narrow = (torch.float16, torch.bfloat16)
    dtypes, widest = (narrow, 128) if backend == "hopper" else ((*narrow, torch.float32), 256)
    if query.dtype not in dtypes:
        return f"one of {', '.join(map(str, dtypes))}; the inputs are {query.dtype}"
    widths = (query.size(-1), value.size(-1))
    if not all(16 <= width <= widest for width in widths):
        return f"heads from 16 to {widest} wide; query and value have {widths}"
    if backend == "hopper" and any(width % 8 for width in widths):
        return f"widths that are multiples of 8; query and value have {widths}"
    return "" if interpreted else lacks_card(backend, query.device)


def lacks_card(backend: str, device: torch.device) -> str:
    """What the card lacks for a backend; '' if it can run.

    For cards before Ampere Triton makes no tensor-core instruction, and a tile is larger than their shared memory.
    """
    capability = torch.cuda.get_device_capability(device)
    this = f"this is {torch.cuda.get_device_name(device)}, {'.'.join(map(str, capability))}"
    if backend == "hopper" and capability != (9, 0):
        return f"a Hopper card (compute capability 9.0); {this}"
    if capability < (8, 0):
        return (
            f"an Ampere card or newer (compute capability 8.0), because Triton does not use the tensor cores "
            f"of older ones; {this}. There torch's F.scaled_dot_product_attention is the fast one"
        )
    return ""
