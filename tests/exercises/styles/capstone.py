"""The capstone: right decoders in other styles, and models that stand for trained ones."""

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercises.capstone._net import Decoder, Net
from attncourse.grading.exercises.capstone._text import Table
from styles import style


@style("decoder")
class Sinusoids(Decoder):
    """Positions without parameters, in a buffer."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        super().__init__(vocab, embed_dim, num_heads, layers, length)
        del self.position
        angle = torch.arange(length)[:, None] / 50 ** (torch.arange(0, embed_dim, 2) / embed_dim)
        waves = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :embed_dim]
        self.register_buffer("places", waves)

    def embed(self, tokens, start):
        return self.token(tokens) + self.places[start : start + tokens.size(1)]


def turned(x, at, base):
    """Pairs of features, turned by the place of their token."""
    angle = at[:, None] / base ** torch.linspace(0, 1, x.size(-1) // 2)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


@style("decoder")
class Rotary(Decoder):
    """Queries and keys are turned."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.position

    def embed(self, tokens, start):
        return self.token(tokens)

    def mix(self, query, key, value, visible):
        at = torch.arange(query.size(2))
        query, key = turned(query, at, 20), turned(key, at, 20)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


@style("decoder")
class OfTorch(nn.Module):
    """Encoder layers of torch with a causal mask."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, embed_dim), nn.Embedding(length, embed_dim)
        layer = {"batch_first": True, "norm_first": True}
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(embed_dim, num_heads, 4 * embed_dim, **layer)
            for _ in range(layers)
        )
        self.head = nn.Linear(embed_dim, vocab, bias=False)

    def forward(self, tokens):
        n = tokens.size(1)
        x = self.token(tokens) + self.position.weight[:n]
        hidden = torch.ones(n, n).triu(1).bool()
        for layer in self.layers:
            x = layer(x, src_mask=hidden)
        return self.head(x)


@style("decoder")
class HeadByHead(Decoder):
    """A head at a time; the last matrix is that of the embedding, which starts small."""

    def __init__(self, vocab, embed_dim, *sizes):
        super().__init__(vocab, embed_dim, *sizes)
        nn.init.normal_(self.token.weight, std=0.05)
        self.head = nn.Linear(embed_dim, vocab, bias=False)
        self.head.weight = self.token.weight

    def mix(self, query, key, value, visible):
        heads = zip(query.unbind(1), key.unbind(1), value.unbind(1), strict=True)
        return torch.stack([super(HeadByHead, self).mix(*head, visible) for head in heads], 1)


class WithPlace(Net):
    """The third part of what a layer keeps is the place in the text."""

    def start(self, cache):
        return cache[0][2] if cache else 0


@style("write")
class InADict(WithPlace):
    """One tensor for all layers, and the place in the text as a number."""

    def forward(self, tokens, cache=None):
        if cache:
            cache = [(*pair, cache["place"]) for pair in cache["kept"].unbind(1)]
        return super().forward(tokens, cache)

    def join(self, old, new):
        return super().join(old and old[:2], new)

    def answer(self, logits, kept, tokens, cache):
        place = self.start(cache) + tokens.size(1)
        kept = torch.stack([torch.stack(pair) for pair in kept], 1)  # 2, layers, b, heads, m, d
        return logits, {"kept": kept, "place": place}


@style("write")
class Reserved(WithPlace):
    """Room for the whole text is made with the first piece, and filled."""

    def join(self, old, new):
        key, value = new
        room = old[:2] if old else [x.new_zeros(*x.shape[:2], self.length, x.size(3)) for x in new]
        place, n = old[2] if old else 0, key.size(2)
        for x, y in zip(room, (key, value), strict=True):
            x[:, :, place : place + n] = y
        self.room = room, place + n
        return [x[:, :, : place + n] for x in room]

    def keep(self, pair, old, new):
        room, place = self.room
        return (*room, place)


@style("write")
class FusedAndRotary(Net):
    """Turned keys are cached; attention is that of torch."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.position

    def embed(self, tokens, start):
        self.at = torch.arange(start, start + tokens.size(1))
        return self.token(tokens)

    def join(self, old, new):
        return super().join(old, (turned(new[0], self.at, 30), new[1]))

    def mix(self, query, key, value, visible):
        query = turned(query, self.at, 30)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


@style("own_attention", name="cached_inputs")
@style("write", name="cached_inputs")
class Inputs(Net):
    """What a layer reads is cached, and keys and values are made of it again: half the size."""

    def attention(self, block, x, old, start):
        whole = x if old is None else torch.cat([old[0][:, 0], x], 1)
        query = block["q"](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        pair = block["kv"](whole).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, 1)
        mixed = self.mix(query, *pair, self.visible(x.size(1), whole.size(1)))
        return block["out"](mixed.transpose(1, 2).flatten(2)), (whole[:, None],)


@style("own_attention")
class MultiQuery(Net):
    """One key and one value for all heads."""

    def __init__(self, vocab, embed_dim, num_heads, *sizes):
        self.shares = num_heads
        super().__init__(vocab, embed_dim, num_heads, *sizes)


@style("own_attention")
class Window(WithPlace):
    """A token reads itself and those before it, half the text in all."""

    more = 0  # tokens beyond that half

    def join(self, old, new):
        self.place = (old[2] if old else 0) + new[0].size(2)
        return super().join(old and old[:2], new)

    def keep(self, pair, old, new):
        return (*(x[:, :, -(self.length // 2 + self.more) :] for x in pair), self.place)

    def visible(self, n, m):
        apart = torch.arange(m - n, m)[:, None] - torch.arange(m)
        return (apart >= 0) & (apart < self.length // 2 + self.more)


@style("own_attention")
class Latent(Net):
    """Keys and values are made of a vector of half the width, which is cached."""

    def block(self, e):
        block = super().block(e)
        block["down"], block["kv"] = nn.Linear(e, e // 2), nn.Linear(e // 2, 2 * e)
        return block

    def start(self, cache):
        return cache[0].size(1) if cache else 0

    def attention(self, block, x, old, start):
        latent = block["down"](x)
        latent = latent if old is None else torch.cat([old, latent], 1)
        query = block["q"](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        pair = block["kv"](latent).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, 1)
        mixed = self.mix(query, *pair, self.visible(x.size(1), latent.size(1)))
        return block["out"](mixed.transpose(1, 2).flatten(2)), latent


@style("own_attention")
class Linear(WithPlace):
    """Without a softmax: what was read is a matrix and a vector, whatever the length of the text."""

    def attention(self, block, x, old, start):
        query = block["q"](x).unflatten(-1, (self.heads, -1)).transpose(1, 2).exp()
        key, value = block["kv"](x).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, 1)
        key = key.exp()
        state = torch.einsum("bhnd,bhne->bhnde", key, value).cumsum(2)
        total = key.cumsum(2)
        if old:
            state, total = state + old[0][:, :, None], total + old[1][:, :, None]
        mixed = torch.einsum("bhnd,bhnde->bhne", query, state)
        mixed = mixed / torch.einsum("bhnd,bhnd->bhn", query, total)[..., None]
        kept = state[:, :, -1], total[:, :, -1], start + x.size(1)
        return block["out"](mixed.transpose(1, 2).flatten(2)), kept


class Twice(Table):
    """With a cache of some kind beside the logits."""

    def forward(self, tokens):
        return super().forward(tokens), [tokens]


style("trained", Twice(), name="logits_and_cache")
style("trained", Table().double(), name="double_precision")
style("trained", Table(recent=2.0), name="recent_counts_more")


class Heads(Table):
    """The table, and two layers of heads whose scores are made of features by parameters.

    Args:
        claim: what is said of a head.
        known: how much the table knows, from 0 to 1.
        give: what is returned, from the logits, the weights and the claim.
    """

    SIZES = {(0, 1): (0, 9.0), (1, 0): (1, 8.0), (1, 2): (2, 6.0), (0, 2): (3, 1.0)}

    def __init__(self, claim, known=1.0, give=lambda logits, maps, claim: (logits, maps, claim)):
        super().__init__(known=known)
        self.claim, self.give, own = claim, give, torch.zeros(2, 3, 5)
        own[..., 4] = 4.0  # the other heads read what they have just read
        for head, (feature, size) in self.SIZES.items():
            own[head] = size * torch.eye(5)[feature]
        self.own = nn.Parameter(own)

    def forward(self, tokens):
        n = tokens.size(1)
        one = torch.eye(n).expand(len(tokens), n, n)
        start = torch.eye(n)[0].expand_as(one)
        same = (tokens[:, :, None] == tokens[:, None]) & torch.ones(n, n).tril(-1).bool()
        features = one.roll(-1, 2), start, same.float(), torch.zeros_like(one), one
        scores = torch.einsum("bnmf,lhf->lbhnm", torch.stack(features, -1), self.own)
        maps = scores.masked_fill(~torch.ones(n, n).tril().bool(), -torch.inf).softmax(-1)
        return self.give(super().forward(tokens), list(maps), self.claim)


style("explain_head", Heads((1, 0, "start")), name="two_layers")
style("explain_head", Heads([1, 2, "same"]), name="claim_in_a_list")
style(
    "explain_head",
    Heads(
        (torch.tensor(0), torch.tensor(2), "spread"),
        give=lambda x, maps, claim: (x, torch.stack(maps), claim),
    ),
    name="one_tensor",
)
