"""The variants: what is called, what it is held to, and which simpler thing it must coincide with.

A variant is made from the package under test (which may be a mutant) and from sizes. Its tensors are
float64 and seeded; sizes are pairwise different primes, except where the mechanism forbids it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncourse import spec
from support.cases.oracles import flex


def module(p: Any, name: str) -> ModuleType:
    """A file of the variants: of a private copy, or of the package."""
    return getattr(p, name) if hasattr(p, name) else import_module(f"attncourse.variants.{name}")


class Sizes(NamedTuple):
    """Batch, heads, key heads, queries, keys, width of a key head and of a value head."""

    b: int = 2
    h: int = 3
    g: int = 3
    n: int = 5
    m: int = 7
    d: int = 11
    e: int = 13


def mix(weights, query, key, value, *rest):
    repeated = value.repeat_interleave(weights.size(1) // value.size(1), dim=1)
    return torch.einsum("bhnm,bhme->bhne", weights, repeated)


@dataclass(frozen=True)
class Variant:
    """A property whose field is ``None`` is not defined for the variant.

    Args:
        inputs: what ``run``, ``stored``, ``spec`` and the oracles are given.
        run: the output, by the way that users take.
        spec: output and weights, by loops.
        remake: the output from weights and inputs.
        limit: two tensors that must be equal: this variant at its limit, and something simpler.
        stored: output and weights, of one computation; ``None`` where the weights never exist.
        masked: ``stored`` with a given attn_mask before the inputs.
        dropped: ``stored`` with dropout of one half.
        layer: the module, if it is one; its parameters count as inputs for gradients.
        fused: ``run`` does not store the weights.
        learns: gradients flow back through it.
        leaves_rest: rows of the weights sum to less than 1.
        any_sum: rows of the weights sum to anything.
        more_rows: rows that its largest table has more than one of n queries.
    """

    inputs: tuple[Tensor, ...]
    run: Callable[..., Tensor]
    spec: Callable[..., tuple[Tensor, Tensor]]
    limit: Callable[[], tuple[Tensor, Tensor]]
    remake: Callable[..., Tensor] = mix
    stored: Callable[..., tuple[Tensor, Tensor]] | None = None
    masked: Callable[..., tuple[Tensor, Tensor]] | None = None
    dropped: Callable[..., tuple[Tensor, Tensor]] | None = None
    torch: Callable[..., Tensor] | None = None
    flex: Callable[..., Tensor] | None = None
    layer: nn.Module | None = None
    is_causal: bool = False
    fused: bool = False
    learns: bool = True
    leaves_rest: bool = False
    any_sum: bool = False
    more_rows: int = 0


VARIANTS: dict[str, Callable] = {}


def variant(name: str, **usual):
    """Register ``make(package, sizes)``; ``usual`` are the sizes in which it differs from `Sizes`."""

    def register(make):
        sized = lambda package, **sizes: make(package, Sizes(**usual | sizes))  # noqa: E731
        sized.__module__ = make.__module__
        VARIANTS[name] = sized
        return make

    return register


def draw(*shapes) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def qkv(s: Sizes) -> list[Tensor]:
    return draw((s.b, s.h, s.n, s.d), (s.b, s.g, s.m, s.d), (s.b, s.g, s.m, s.e))


def some_pairs(*shape: int) -> Tensor:
    """A bool mask in which every query may read key 0 at least."""
    visible = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    return visible.index_fill(-1, torch.tensor(0), True)


def weighing(inputs, stored, **own) -> Variant:
    """A variant of a function that returns output and weights, and takes a mask."""
    usual = {
        "run": lambda *inputs: stored(*inputs)[0],
        "masked": lambda mask, *inputs: stored(*inputs, attn_mask=mask),
    }
    return Variant(inputs=tuple(inputs), stored=stored, **usual | own)


def moved(p, s, ours, by_loops, limit, table=()):
    """A variant of `attention` with a score_mod, which the rest of the inputs may define."""
    q, k, v = qkv(s)

    def attend(q, k, v, *table, **options):
        return p.steps.attention(q, k, v, score_mod=ours(*table), **options)

    def loops(q, k, v, *table):
        return spec.scaled_dot_product_attention(q, k, v, score_mod=by_loops(*table))

    return weighing(
        (q, k, v, *table), attend, spec=loops, limit=lambda: limit(q, k, v, attend),
        flex=lambda q, k, v, *table: flex(q, k, v, score_mod=ours(*table)),
    )  # fmt: skip
