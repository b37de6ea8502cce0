"""All variants side by side: what a layer of each costs, computed for any size."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from attncourse.factory import get_attention


@dataclass(frozen=True)
class Size:
    """The layer and the text for which costs are computed.

    Args:
        embed_dim, num_heads: as in `attncourse.layers.MultiHeadAttention`.
        length: tokens of the text.
        groups: key/value heads of grouped-query attention.
        window: keys that a window holds, the reader's own among them.
        latent, rotary: widths of latent attention.
        span: distances with a row of their own, on each side, in disentangled attention.
        kernel: queries and keys under the kernel of multi-token attention.
    """

    embed_dim: int = 4096
    num_heads: int = 32
    length: int = 32_768
    groups: int = 8
    window: int = 4096
    latent: int = 512
    rotary: int = 64
    span: int = 256
    kernel: tuple[int, int] = (6, 11)

    @property
    def head_dim(self) -> int:
        return self.embed_dim // self.num_heads


@dataclass(frozen=True)
class Variant:
    """One attention among the others.

    Args:
        attention_type: its name in `attncourse.factory.get_attention`.
        reads: keys that a query meets, in multiplications of `multi-head attention` with one key: what a layer
            does beside its projections, a query.
        keeps: numbers that a layer keeps of the text while it writes; ``None`` if it does not write.
        hops: layers until the last token can have heard of the first.
        options: of `get_attention`.
        some_rows: what it has beyond the parameters of multi-head attention is multiplied with few rows only, of
            a table of distances.
    """

    attention_type: str
    reads: Callable[[Size], float]
    keeps: Callable[[Size], int] | None
    hops: Callable[[Size], int]
    options: Callable[[Size], dict] = field(default=lambda size: {})
    some_rows: bool = False

    def parameters(self, size: Size) -> int:
        """Counted in the layer itself, which is made without memory."""
        options = self.options(size)
        with torch.device("meta"):
            layer = get_attention(self.attention_type, size.embed_dim, size.num_heads, **options)
        return sum(x.numel() for x in layer.parameters())

    def flops(self, size: Size) -> float:
        """FLOPs of projections, 2 for each of their parameters and token, and of what follows.

        Nothing is halved because a text is read causally.
        """
        return self.projecting(size) + 4 * size.length * self.reads(size) * size.embed_dim

    def projecting(self, size: Size) -> float:
        """FLOPs of the projections alone."""
        used = self.parameters(size)
        if self.some_rows:
            used = min(used, VARIANTS["multi-head"].parameters(size))
        return 2 * size.length * used

    def kept_bytes(self, size: Size, bytes_per_number: int = 2) -> int | None:
        """What is kept of the text, in a layer; ``None`` if it does not write."""
        return None if self.keeps is None else bytes_per_number * self.keeps(size)


def _all(size: Size) -> int:
    return size.length


def _all_heads(size: Size) -> int:
    return 2 * size.length * size.embed_dim


def _window(size: Size) -> int:
    return min(size.window, size.length)


def _windows(size: Size) -> int:
    """Each layer reaches window - 1 tokens further back."""
    return -(-(size.length - 1) // (size.window - 1))


def _states(size: Size) -> int:
    return size.embed_dim * size.head_dim


def _one(size: Size) -> int:
    return 1


VARIANTS = {
    "multi-head": Variant("mha", _all, _all_heads, _one),
    "grouped-query": Variant(
        "gqa", _all, lambda s: 2 * s.length * s.groups * s.head_dim, _one, lambda s: {"num_groups": s.groups}
    ),
    "multi-query": Variant("mqa", _all, lambda s: 2 * s.length * s.head_dim, _one),
    "latent": Variant(
        "mla",
        # Its queries and keys are wider by the rotary part, its values are not.
        lambda s: s.length * (1 + s.rotary / (2 * s.head_dim)),
        lambda s: s.length * (s.latent + s.rotary),
        _one,
        lambda s: {"latent_dim": s.latent, "rotary_dim": s.rotary},
    ),
    "sliding window": Variant(
        "sliding_window",
        _window,
        lambda s: 2 * _window(s) * s.embed_dim,
        _windows,
        lambda s: {"window_size": (s.window - 1, 0)},
    ),
    "window and global tokens": Variant(
        "longformer", lambda s: _window(s) + 2, None, lambda s: min(2, _windows(s)),
        lambda s: {"window_size": s.window},
    ),
    "learned sink": Variant("sinks", _all, _all_heads, _one),
    "gated": Variant("gated", _all, _all_heads, _one),
    "disentangled": Variant(
        # Each query meets the 2 span rows of the table, and each key does.
        "disentangled", lambda s: s.length + 2 * s.span, None, _one, lambda s: {"span": s.span},
        some_rows=True,
    ),
    "multi-token": Variant(
        "multi_token",
        lambda s: s.length * (1 + s.kernel[0] * s.kernel[1] / (2 * s.head_dim)),
        _all_heads,
        _one,
        lambda s: {"kernel_size": s.kernel},
    ),
    "differential": Variant("differential", _all, _all_heads, _one),
    # A state is written once and read once for each token: d e multiplications each, as for d keys.
    "linear": Variant("linear", lambda s: s.head_dim, _states, _one),
    "gated linear": Variant("gated_linear", lambda s: 1.5 * s.head_dim, _states, _one, lambda s: {"per_channel": False}),
    "gated delta": Variant("gated_delta", lambda s: 2 * s.head_dim, _states, _one),
}  # fmt: skip


def table(
    size: Size, names: tuple[str, ...] = tuple(VARIANTS)
) -> list[tuple[str, int, float, int | None, int]]:
    """A row for each variant: name, parameters, FLOPs relative to multi-head attention, bytes kept, hops."""
    whole = VARIANTS["multi-head"].flops(size)
    found = [(name, VARIANTS[name]) for name in names]
    return [
        (name, x.parameters(size), x.flops(size) / whole, x.kept_bytes(size), x.hops(size))
        for name, x in found
    ]
