"""The variants: what is called, what it is held to, and which simpler thing it must coincide with.

A variant is made from the package under test (which may be a mutant) and from sizes. Its tensors are
float64 and seeded; sizes are pairwise different primes, except where the mechanism forbids it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse import spec
from support.cases.oracles import flex


class Sizes(NamedTuple):
    """Batch, heads, key heads, queries, keys, width of a key head and of a value head."""

    b: int = 2
    h: int = 3
    g: int = 3
    n: int = 5
    m: int = 7
    d: int = 11
    e: int = 13


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
    remake: Callable[..., Tensor]
    limit: Callable[[], tuple[Tensor, Tensor]]
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


def minus_infinity(visible: Tensor) -> Tensor:
    """The same mask in its float form, with other numbers than 0 where it lets pass."""
    return draw(visible.shape)[0].masked_fill(~visible, -torch.inf)


def mix(weights, query, key, value, *rest):
    repeated = value.repeat_interleave(weights.size(1) // value.size(1), dim=1)
    return torch.einsum("bhnm,bhme->bhne", weights, repeated)


@variant("scaled_dot_product_attention")
def plain(p, s):
    run, stored = p.steps.scaled_dot_product_attention, p.steps.attention
    q, k, v = qkv(s)
    return Variant(
        inputs=(q, k, v),
        run=run,
        stored=stored,
        spec=spec.scaled_dot_product_attention,
        remake=mix,
        limit=lambda: (
            run(q, k, v, scale=0.0),
            v.mean(-2, keepdim=True).expand(s.b, s.h, s.n, s.e),
        ),
        masked=lambda mask, q, k, v: stored(q, k, v, attn_mask=mask),
        dropped=partial(stored, dropout_p=0.5),
        torch=F.scaled_dot_product_attention,
        flex=flex,
    )


@variant("scaled_dot_product_attention, causal")
def causal(p, s):
    run = partial(p.steps.scaled_dot_product_attention, is_causal=True)
    visible = p.masks.dense(p.masks.causal, 1, 1, s.n, s.m)
    q, k, v = qkv(s)
    return Variant(
        inputs=(q, k, v),
        run=run,
        stored=partial(p.steps.attention, attn_mask=visible),
        spec=partial(spec.scaled_dot_product_attention, is_causal=True),
        remake=mix,
        # The last of n queries may read n keys: there it is the plain function.
        limit=lambda: (
            run(q, k, v)[:, :, -1:],
            F.scaled_dot_product_attention(q[:, :, -1:], k[:, :, : s.n], v[:, :, : s.n]),
        ),
        masked=lambda mask, q, k, v: p.steps.attention(
            q, k, v, attn_mask=p.steps.add_causal(mask, s.n, s.m, q.device)
        ),
        torch=partial(F.scaled_dot_product_attention, is_causal=True),
        flex=partial(flex, mask_mod=p.masks.causal),
        is_causal=True,
    )


@variant("scaled_dot_product_attention, bool mask")
def bool_mask(p, s):
    run, stored = p.steps.scaled_dot_product_attention, p.steps.attention
    q, k, v = qkv(s)
    visible = some_pairs(s.b, 1, s.n, s.m)
    return Variant(
        inputs=(q, k, v, visible),
        run=run,
        stored=lambda q, k, v, mask: stored(q, k, v, attn_mask=mask),
        spec=spec.scaled_dot_product_attention,
        remake=mix,
        limit=lambda: (run(q, k, v, torch.ones_like(visible)), run(q, k, v)),
        masked=lambda mask, q, k, v, _: stored(q, k, v, attn_mask=mask),
        torch=F.scaled_dot_product_attention,
        flex=lambda q, k, v, mask: flex(q, k, v, mask_mod=lambda b, h, i, j: mask[b, 0, i, j]),
    )


@variant("scaled_dot_product_attention, float mask")
def float_mask(p, s):
    run, stored = p.steps.scaled_dot_product_attention, p.steps.attention
    q, k, v = qkv(s)
    added = minus_infinity(some_pairs(s.b, s.h, s.n, s.m))
    return Variant(
        inputs=(q, k, v, added),
        run=run,
        stored=lambda q, k, v, mask: stored(q, k, v, attn_mask=mask),
        spec=spec.scaled_dot_product_attention,
        remake=mix,
        limit=lambda: (run(q, k, v, torch.zeros_like(added)), run(q, k, v)),
        masked=lambda mask, q, k, v, _: stored(q, k, v, attn_mask=mask),
        torch=F.scaled_dot_product_attention,
        flex=lambda q, k, v, mask: flex(
            q, k, v, score_mod=lambda score, b, h, i, j: score + mask[b, h, i, j]
        ),
    )


@variant("scaled_dot_product_attention, causal and float mask")
def causal_float_mask(p, s):
    run = partial(p.steps.scaled_dot_product_attention, is_causal=True)
    visible = spec.causal(s.n, s.m)
    q, k, v = qkv(s)
    added = minus_infinity(some_pairs(s.n, s.m))
    return Variant(
        inputs=(q, k, v, added),
        run=run,
        stored=lambda q, k, v, mask: p.steps.attention(
            q, k, v, attn_mask=p.steps.add_causal(mask, s.n, s.m, q.device)
        ),
        spec=partial(spec.scaled_dot_product_attention, is_causal=True),
        remake=mix,
        limit=lambda: (run(q, k, v, torch.zeros_like(added)), run(q, k, v)),
        torch=lambda q, k, v, mask: F.scaled_dot_product_attention(
            q, k, v, mask.masked_fill(~visible, -torch.inf)
        ),
        is_causal=True,
    )


@variant("scaled_dot_product_attention, enable_gqa", b=5, h=6, g=2, n=7, m=3)
def grouped(p, s):
    run = partial(p.steps.scaled_dot_product_attention, enable_gqa=True)
    q, k, v = qkv(s)

    def repeated(x):  # head h reads key head h // (h / g)
        return torch.stack([x[:, h // (s.h // s.g)] for h in range(s.h)], dim=1)

    return Variant(
        inputs=(q, k, v),
        run=run,
        stored=lambda q, k, v: p.steps.attention(q, repeated(k), repeated(v)),
        spec=lambda q, k, v: spec.scaled_dot_product_attention(q, repeated(k), repeated(v)),
        remake=mix,
        limit=lambda: (run(q[:, : s.g], k, v), F.scaled_dot_product_attention(q[:, : s.g], k, v)),
        torch=partial(F.scaled_dot_product_attention, enable_gqa=True),
        flex=partial(flex, enable_gqa=True),
    )


def moved(p, s, ours, by_loops, limit, table=()):
    """A variant of `attention` with a score_mod, which the rest of the inputs may define."""
    q, k, v = qkv(s)

    def attend(q, k, v, *table, **options):
        return p.steps.attention(q, k, v, score_mod=ours(*table), **options)

    return Variant(
        inputs=(q, k, v, *table),
        run=lambda *inputs: attend(*inputs)[0],
        stored=attend,
        spec=lambda q, k, v, *table: spec.scaled_dot_product_attention(
            q, k, v, score_mod=by_loops(*table)
        ),
        remake=mix,
        limit=lambda: limit(q, k, v, attend),
        masked=lambda mask, *inputs: attend(*inputs, attn_mask=mask),
        flex=lambda q, k, v, *table: flex(q, k, v, score_mod=ours(*table)),
    )


@variant("attention, softcap")
def softcap(p, s):
    def limit(q, k, v, attend):
        uncapped = p.steps.attention(q, k, v, score_mod=p.scores.softcap(1e9))
        return uncapped[0], F.scaled_dot_product_attention(q, k, v)

    return moved(p, s, partial(p.scores.softcap, 2.0), partial(spec.softcap, 2.0), limit)


@variant("attention, alibi", b=3, h=2, g=2)
def alibi(p, s):
    def limit(q, k, v, attend):  # a bias that is added, one slope a head
        distance = (torch.arange(s.n)[:, None] - torch.arange(s.m)).abs().double()
        bias = torch.stack([-distance * 2.0 ** (-8 * (h + 1) / s.h) for h in range(s.h)])
        return attend(q, k, v)[0], F.scaled_dot_product_attention(q, k, v, bias)

    return moved(p, s, partial(p.scores.alibi, s.h), partial(spec.alibi, s.h), limit)


@variant("attention, relative_bias")
def relative_bias(p, s):
    def limit(q, k, v, attend):  # softmax ignores a constant
        return attend(q, k, v, torch.ones(s.h, 5))[0], F.scaled_dot_product_attention(q, k, v)

    # Distances reach further than 2, so that the clipping is seen on both sides.
    return moved(p, s, p.scores.relative_bias, spec.relative_bias, limit, draw((s.h, 5)))
