"""Steps of decoders that are right in another style, and of wrong ones."""

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercises.capstone._net import Decoder, Net, changed


def sinusoids(length: int, width: int):
    """Sines and cosines of places, (length, width)."""
    angle = torch.arange(length)[:, None] / 50 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


class Sinusoids(Decoder):
    """Positions without parameters, in a buffer."""

    def make_positions(self, embed_dim, length):
        self.register_buffer("position", sinusoids(length, embed_dim))

    def embed(self, tokens, start):
        return self.token(tokens) + self.position[start : start + tokens.size(1)]


class Rotary(Decoder):
    """Queries and keys are turned."""

    def make_positions(self, embed_dim, length):
        pass

    def embed(self, tokens, start):
        return self.token(tokens)

    def mix(self, query, key, value, visible):
        at = torch.arange(query.size(2))[:, None] / 20 ** (torch.arange(query.size(-1) // 2) / 3)
        turned = [torch.cat([a * at.cos() - b * at.sin(), a * at.sin() + b * at.cos()], -1)
                  for a, b in (x.chunk(2, -1) for x in (query, key))]  # fmt: skip
        return F.scaled_dot_product_attention(*turned, value, is_causal=True)


class OfTorch(nn.Module):
    """Encoder layers of torch with a causal mask."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, embed_dim), nn.Embedding(length, embed_dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(embed_dim, num_heads, 4 * embed_dim, batch_first=True, norm_first=True)
            for _ in range(layers)
        )  # fmt: skip
        self.head = nn.Linear(embed_dim, vocab, bias=False)

    def forward(self, tokens):
        n = tokens.size(1)
        x = self.token(tokens) + self.position.weight[:n]
        hidden = torch.ones(n, n).triu(1).bool()
        for layer in self.layers:
            x = layer(x, src_mask=hidden)
        return self.head(x)


class HeadByHead(Decoder):
    """A head at a time, and a head that shares its matrix with the embedding, which starts small."""

    def __init__(self, vocab, embed_dim, *sizes):
        super().__init__(vocab, embed_dim, *sizes)
        nn.init.normal_(self.token.weight, std=0.05)
        self.head = nn.Linear(embed_dim, vocab, bias=False)
        self.head.weight = self.token.weight

    def mix(self, query, key, value, visible):
        heads = zip(query.unbind(1), key.unbind(1), value.unbind(1), strict=True)
        one = super().mix
        return torch.stack([one(q, k, v, visible) for q, k, v in heads], 1)


def reading(visible):
    """Another mask."""
    return changed(Decoder, visible=lambda self, n, m, start: visible(n))


def giving(answer):
    """Something else instead of the logits."""
    return changed(Decoder, answer=lambda self, logits, kept, tokens, cache: answer(logits))


def triangle(n, shift=0):
    """A mask: the keys up to a query, and so many more."""
    return torch.ones(n, n).tril(shift).bool()


def one_head(self, query, key, value, visible):
    """All heads at once, as if there were one."""
    query, key, value = (x.transpose(1, 2).flatten(2)[:, None] for x in (query, key, value))
    mixed = Decoder.mix(self, query, key, value, visible)
    return mixed[:, 0].unflatten(-1, (self.heads, -1)).transpose(1, 2)


def over_batch(self, query, key, value, visible):
    """As a layer does that takes the batch for the sequence."""
    turned = (x.transpose(0, 2) for x in (query, key, value))
    return Decoder.mix(self, *turned, triangle(len(query))).transpose(0, 2)


def masked_late(self, query, key, value, visible):
    """Behind the softmax, which has counted the later tokens."""
    return ((query @ key.mT * query.size(-1) ** -0.5).softmax(-1) * visible) @ value


def over_queries(self, query, key, value, visible):
    """A softmax over the wrong axis."""
    scores = query @ key.mT * query.size(-1) ** -0.5
    return scores.masked_fill(~visible, -torch.inf).softmax(-2) @ value


def hidden_past(self, query, key, value, visible):
    """The mask is read the other way round, with a number instead of infinity."""
    return (query @ key.mT).masked_fill(visible, -1e9).softmax(-1) @ value


def low_diagonal(self, query, key, value, visible):
    """A position is hidden from itself, with a number instead of infinity."""
    return (query @ key.mT).masked_fill(~visible.tril(-1), -1e9).softmax(-1) @ value


def scaled_by_length(self, query, key, value, visible):
    """Scores are divided by the root of the number of keys."""
    return Decoder.mix(self, query * (self.head_dim / key.size(2)) ** 0.5, key, value, visible)


def exchanged(self, vocab, embed_dim, num_heads, layers, length):
    """The numbers of heads and of layers change places."""
    Net.__init__(self, vocab, embed_dim, layers, num_heads, length)


def drawn_once(self, embed_dim, length):
    """Positions in a buffer, in place of the parameters."""
    self.register_buffer("drawn", torch.randn(length, embed_dim))
    self.position = lambda places: self.drawn[places]


class OverAll(nn.BatchNorm1d):
    """For vectors in the last axis."""

    def forward(self, x):
        return super().forward(x.mT).mT


def batch_norm(self, vocab, embed_dim, *sizes):
    """The last norm reads all samples and positions."""
    Net.__init__(self, vocab, embed_dim, *sizes)
    self.norm = OverAll(embed_dim)


def large_head(self, *sizes):
    """The last matrix starts with numbers near 1."""
    Net.__init__(self, *sizes)
    nn.init.normal_(self.head.weight)


class Tied(Decoder):
    """The last matrix is that of the embedding, which starts with numbers near 1."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head.weight = self.token.weight


class Listed(Decoder):
    """Its blocks stand in a plain list."""

    def make_blocks(self, embed_dim, layers):
        return [self.block(embed_dim) for _ in range(layers)]


def embedding(place):
    """Other vectors for the tokens."""
    return changed(Decoder, embed=lambda self, tokens, start: place(self, tokens))


def at(tokens):
    """The places of tokens, from 0."""
    return torch.arange(tokens.size(1))
