"""A small decoder in steps, so that other styles differ from it in one step each; its inputs."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.inputs import seeded

VOCAB = 19
IS_CLASS, IS_MODULE = "it is a class", "it builds a torch.nn.Module"


class Net(nn.Module):
    """Embeddings, blocks of causal attention and feed-forward, a norm, a head; one method a step.

    ``forward(tokens, cache)`` returns (logits of these tokens, cache); the cache is a list of
    (keys, values), one pair a layer, each (b, kv_heads, m, head_dim).
    """

    shares = 1  # query heads that read the same keys and values

    def __init__(self, vocab: int, embed_dim: int, num_heads: int, layers: int, length: int):
        super().__init__()
        self.heads, self.kv_heads, self.length = num_heads, num_heads // self.shares, length
        self.token, self.position = nn.Embedding(vocab, embed_dim), nn.Embedding(length, embed_dim)
        self.blocks = nn.ModuleList(self.block(embed_dim) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(embed_dim), nn.Linear(embed_dim, vocab)

    def block(self, e: int) -> nn.ModuleDict:
        """The parts of one layer."""
        return nn.ModuleDict({
            "first": nn.LayerNorm(e), "second": nn.LayerNorm(e), "q": nn.Linear(e, e),
            "kv": nn.Linear(e, 2 * e // self.shares), "out": nn.Linear(e, e),
            "feed": nn.Sequential(nn.Linear(e, 2 * e), nn.GELU(), nn.Linear(2 * e, e)),
        })  # fmt: skip

    def forward(self, tokens: Tensor, cache=None):
        start, kept = self.start(cache), []
        x = self.embed(tokens, start)
        for block, old in zip(self.blocks, cache or [None] * len(self.blocks), strict=True):
            mixed, new = self.attention(block, block["first"](x), old, start)
            kept.append(new)
            x = x + mixed
            x = x + block["feed"](block["second"](x))
        return self.answer(self.head(self.norm(x)), kept, tokens, cache)

    def start(self, cache) -> int:
        """The position of the first new token."""
        return cache[0][0].size(2) if cache else 0

    def embed(self, tokens: Tensor, start: int) -> Tensor:
        return self.token(tokens) + self.position(torch.arange(start, start + tokens.size(1)))

    def attention(self, block, x, old, start):
        """What attention adds, and the pair (keys, values) that is kept."""
        query = block["q"](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        new = block["kv"](x).unflatten(-1, (2 * self.kv_heads, -1)).transpose(1, 2).chunk(2, 1)
        pair = self.join(old, new)
        key, value = (y.repeat_interleave(self.shares, 1) for y in pair)
        mixed = self.mix(query, key, value, self.visible(query.size(2), key.size(2)))
        return block["out"](mixed.transpose(1, 2).flatten(2)), self.keep(pair, old, new)

    def join(self, old, new):
        """The keys and values that are read."""
        return new if old is None else [torch.cat(both, 2) for both in zip(old, new, strict=True)]

    def keep(self, pair, old, new):
        """Those that are handed on."""
        return tuple(pair)

    def visible(self, n: int, m: int) -> Tensor:
        """Who may read whom, (n, m): the queries are the last n of m tokens."""
        return torch.arange(m) <= torch.arange(m - n, m)[:, None]

    def mix(self, query, key, value, visible):
        scores = query @ key.mT * query.size(-1) ** -0.5
        return scores.masked_fill(~visible, -torch.inf).softmax(-1) @ value

    def answer(self, logits, kept, tokens, cache):
        return logits, kept


class Decoder(Net):
    """The same without a cache: logits alone."""

    def answer(self, logits, kept, tokens, cache):
        return logits


def logits_of(result: Any) -> Tensor:
    """The logits, where a cache may stand beside them."""
    return result[0] if isinstance(result, tuple | list) and result else result


def built(answer: Any) -> Iterator[tuple[str, Any]]:
    """The first two facts of every decoder."""
    callable_class = callable(answer) and not isinstance(answer, nn.Module)
    made = answer(VOCAB, 12, 2, 1, 16) if callable_class else None  # before any fact: is it a stub?
    kind = type(answer).__name__
    yield IS_CLASS, isinstance(answer, type) or f"it is a {kind}; pass the class itself"
    what = f"it builds a {type(made).__name__}; let the class inherit from it"
    yield IS_MODULE, isinstance(made, nn.Module) or what


def drawn_into(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """Random numbers of a size with which every step has an effect; in evaluation mode."""
    for name, p in model.eval().named_parameters():
        x = torch.randn(p.shape, generator=generator)
        wide = 1.5 * p.shape[-1] ** -0.5 if p.dim() > 1 else 0.3
        p.data = (wide * x + (p.dim() < 2 and name.endswith("weight"))).to(p)
    return model


def random_tokens(seed: int, label: str, batch: int, n: int) -> Tensor:
    """Tokens of which none stands beside its like; the first text begins with token 0."""
    steps = torch.randint(1, VOCAB - 1, (batch, n), generator=seeded(seed, label))
    return (steps.cumsum(1) - steps[0, 0]) % VOCAB


def close(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding?"""
    same = a.shape == b.shape and bool(a.isfinite().all()) and bool(b.isfinite().all())
    return same and bool(((a - b).abs() < 3e-4 * b.std() + 1e-5).all())
