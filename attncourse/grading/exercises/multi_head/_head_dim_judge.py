"""The judge of head_dim: which pairs are refused, and what is built from the others?"""

import warnings
from functools import lru_cache

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.compare import NotAttempted, Raised, is_stub

REFUSED = [(10, 3), (512, 7), (7, 2), (8, 3), (6, 4), (4, 8), (9, 0), (12, -3), (12, -5), (100, 64)]
BUILT = [(6, 1), (6, 2), (6, 3), (6, 6), (15, 5), (1, 1), (16, 8), (32, 16), (48, 4)]
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


class AsFound(nn.Module):
    """The layer of the statement: nothing stops a head_dim that was rounded down."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(embed_dim, embed_dim))

    def forward(self, x):
        batch = x.size(0)
        q, k, v = (
            p(x).view(batch, -1, self.num_heads, self.head_dim).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / self.head_dim**0.5, dim=-1)
        out = (weights @ v).transpose(1, 2).contiguous().view(batch, -1, self.embed_dim)
        return self.out_proj(out)


def facts(layer, seed: int) -> dict:
    """Which pairs the constructor refuses, and what the layers that it builds compute."""
    if isinstance(layer, nn.Module):
        return {NAMES[0]: "an instance"}
    seen = [refusal(layer, *pair) for pair in REFUSED]
    seen += [attends(layer, *pair, seed) for pair in BUILT]
    seen += [learns(layer, *BUILT[-1])]
    num_heads, head_dim, more = drawn(seed)
    seen += [refusal(layer, num_heads * head_dim + more, num_heads)]
    seen += [attends(layer, num_heads * head_dim, num_heads, seed)]
    return dict(zip(NAMES, (True, *seen), strict=True))


NAMES = (
    "it is a class",
    *(f"embed_dim={e}, num_heads={h} is refused with a ValueError" for e, h in REFUSED),
    *(f"embed_dim={e}, num_heads={h} is built and attends" for e, h in BUILT),
    "what it builds has parameters that can learn",
    "a pair drawn at random that does not divide is refused with a ValueError",
    "a pair drawn at random that divides is built and attends",
)


def drawn(seed: int) -> tuple[int, int, int]:
    """num_heads, head_dim, and how far another embed_dim is from their product: no list knows them."""
    g = torch.Generator().manual_seed(seed)
    num_heads, head_dim, more = (int(torch.randint(2**31, (), generator=g)) for _ in range(3))
    num_heads, head_dim = 3 + num_heads % 9, 13 + head_dim % 16  # the lists stop at 12
    return num_heads, head_dim, 1 + more % (num_heads - 1)


def refusal(layer, embed_dim: int, num_heads: int):
    """True, or what happened instead of a ValueError in the constructor."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            module = layer(embed_dim, num_heads)
        except (Exception, SystemExit) as error:
            kind = type(error).__name__
            if isinstance(error, NotImplementedError):
                if is_stub(error):
                    raise NotAttempted from None
                return f"raises {kind}; the statement asks for a ValueError"
            return isinstance(error, ValueError) or f"{kind} in the constructor"
    answer = "it is built, with a warning" if said else "it is built"
    if embed_dim < 100:
        answer += (
            f", runs on {sum(_runs(module, n, embed_dim) for n in (5, embed_dim - 1))} of 2 inputs"
        )
    started = "_parameters" in getattr(module, "__dict__", {})
    numbers = [p.numel() for p in module.parameters()] if started else []
    return f"{answer} and learns {sum(numbers)} numbers"


def _runs(module, n: int, embed_dim: int) -> bool:
    try:
        module(torch.zeros(1, n, embed_dim))
    except Exception:
        return False
    return True


@lru_cache(maxsize=256)
def situation(embed_dim: int, num_heads: int, seed: int):
    """Input, parameters and right output of a small layer."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, embed_dim, generator=g)
    params = {}
    for name in PROJECTIONS:
        params[f"{name}.weight"] = torch.randn(embed_dim, embed_dim, generator=g) / embed_dim**0.5
        params[f"{name}.bias"] = torch.randn(embed_dim, generator=g)
    return x, params, spec.multi_head_attention(x, x, x, params, num_heads)[0]


def attends(layer, embed_dim: int, num_heads: int, seed: int):
    """True, or how the layer differs from multi-head attention."""
    x, params, expected = situation(embed_dim, num_heads, seed)
    try:
        module = layer(embed_dim, num_heads)
        module.load_state_dict(params, strict=False)
        return (
            torch.allclose(module(x.clone()).to(expected), expected, rtol=1e-3, atol=1e-3)
            or "another output"
        )
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and is_stub(error):
            raise NotAttempted from None
        return Raised.by(error)


def learns(layer, embed_dim: int, num_heads: int):
    """True, or what is wrong with the parameters of a layer that was just built."""
    try:
        module = layer(embed_dim, num_heads)
        frozen = [n for n in PROJECTIONS if not getattr(module, n).weight.requires_grad]
        empty = [n for n in PROJECTIONS if not getattr(module, n).weight.any()]
    except (Exception, SystemExit) as error:
        return Raised.by(error)
    if frozen:
        return f"frozen: {', '.join(frozen)}"
    return f"all 0: {', '.join(empty)}" if empty else True
