"""A small decoder in steps, so that right styles and mistakes differ from it in one step each."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """Embeddings, blocks of causal attention and feed-forward, a norm, a head; one method a step.

    ``forward(tokens, cache)`` returns (logits of these tokens, cache); the cache is a list of (keys,
    values), one pair a layer, each (b, kv_heads, m, head_dim).

    Args:
        vocab, embed_dim, num_heads, layers, length: as every decoder of the capstone takes them.
    """

    mixes = "qkv"  # what a block projects together
    kv_heads = 0  # 0 for as many as query heads

    def __init__(self, vocab: int, embed_dim: int, num_heads: int, layers: int, length: int):
        super().__init__()
        self.heads, self.head_dim, self.length = num_heads, embed_dim // num_heads, length
        self.shared = self.kv_heads or num_heads
        self.token = nn.Embedding(vocab, embed_dim)
        self.make_positions(embed_dim, length)
        self.blocks = self.make_blocks(embed_dim, layers)
        self.norm, self.head = nn.LayerNorm(embed_dim), nn.Linear(embed_dim, vocab)

    def make_positions(self, embed_dim: int, length: int) -> None:
        self.position = nn.Embedding(length, embed_dim)

    def make_blocks(self, embed_dim: int, layers: int) -> nn.Module:
        return nn.ModuleList(self.block(embed_dim) for _ in range(layers))

    def block(self, e: int) -> nn.ModuleDict:
        """The parts of one layer."""
        kept = 2 * self.shared * self.head_dim
        return nn.ModuleDict({
            "first": nn.LayerNorm(e), "q": nn.Linear(e, e), "kv": nn.Linear(e, kept),
            "out": nn.Linear(e, e), "second": nn.LayerNorm(e),
            "feed": nn.Sequential(nn.Linear(e, 2 * e), nn.GELU(), nn.Linear(2 * e, e)),
        })  # fmt: skip

    def forward(self, tokens: Tensor, cache=None):
        past = cache or [None] * len(self.blocks)
        start, kept = self.start(cache), []
        x = self.embed(tokens, start)
        for number, (block, old) in enumerate(zip(self.blocks, past, strict=True)):
            mixed, new = self.attention(block, block["first"](x), old, start, number)
            kept.append(new)
            x = x + mixed
            x = x + block["feed"](block["second"](x))
        return self.answer(self.head(self.norm(x)), kept, tokens, cache)

    def start(self, cache) -> int:
        """The position of the first new token."""
        return cache[0][0].size(2) if cache else 0

    def embed(self, tokens: Tensor, start: int) -> Tensor:
        return self.token(tokens) + self.position(torch.arange(start, start + tokens.size(1)))

    def attention(self, block, x, old, start, number):
        """What attention adds, and the pair (keys, values) that is kept."""
        query = block["q"](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        new = block["kv"](x).unflatten(-1, (2 * self.shared, -1)).transpose(1, 2).chunk(2, 1)
        key, value = pair = self.join(old, new)
        visible = self.visible(query.size(2), key.size(2), start)
        mixed = self.mix(query, *self.spread(key, value), visible)
        return block["out"](mixed.transpose(1, 2).flatten(2)), self.keep(pair, old, new)

    def join(self, old, new):
        """The keys and values that are read."""
        return new if old is None else [torch.cat(both, 2) for both in zip(old, new, strict=True)]

    def keep(self, pair, old, new):
        """Those that are handed on."""
        return tuple(pair)

    def spread(self, *pair):
        """Each shared head for every query head that reads it."""
        return (x.repeat_interleave(self.heads // x.size(1), 1) for x in pair)

    def visible(self, n: int, m: int, start: int) -> Tensor:
        """Who may read whom, (n, m)."""
        return torch.arange(m) <= torch.arange(m - n, m)[:, None]

    def mix(self, query, key, value, visible):
        scores = query @ key.mT * query.size(-1) ** -0.5
        return scores.masked_fill(~visible, -torch.inf).softmax(-1) @ value

    def answer(self, logits, kept, tokens, cache):
        return logits, kept


class Decoder(Net):
    """The same without a cache: logits alone."""

    def forward(self, tokens):
        return super().forward(tokens)

    def answer(self, logits, kept, tokens, cache):
        return logits


def changed(base: type[Net], **steps) -> type[Net]:
    """The class with other steps."""
    return type(base.__name__, (base,), steps)


def torn(self, block, x, old, start, number):
    """Split into heads without a transpose: a head has a stretch of the text."""
    b, n, e = x.shape
    new = [y.reshape(b, self.shared, n, -1) for y in block["kv"](x).chunk(2, -1)]
    key, value = pair = self.join(old, new)
    visible = self.visible(n, key.size(2), start)
    query = block["q"](x).reshape(b, self.heads, n, -1)
    mixed = self.mix(query, *self.spread(key, value), visible)
    return block["out"](mixed.transpose(1, 2).flatten(2)), self.keep(pair, old, new)


def torn_twice(self, block, x, old, start, number):
    """The same, and joined without a transpose."""
    mixed, kept = torn(self, {**block, "out": nn.Identity()}, x, old, start, number)
    return block["out"](
        mixed.unflatten(-1, (self.heads, -1)).transpose(1, 2).reshape(x.shape)
    ), kept


def not_back(self, block, x, old, start, number):
    """Joined without a transpose: heads are read as positions."""
    mixed = Net.attention(self, {**block, "out": nn.Identity()}, x, old, start, number)
    heads = mixed[0].unflatten(-1, (self.heads, -1)).transpose(1, 2)
    return block["out"](heads.reshape(x.shape)), mixed[1]
