"""The capstone: decoders, and what is true of each."""

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercises.capstone._net import Decoder, Net
from unseen import right, wrong
from unseen.capstone import changed, corner, returning, seeing

ALL, SOME = "there is no causal mask, or it does not act", "where a reshape mixes"


def mixing(weights, base=Decoder):
    """Other weights, made of scores and of what is visible."""

    def mix(self, query, key, value, visible):
        return weights(query @ key.mT / query.size(-1) ** 0.5, visible) @ value

    return changed(base, mix=mix)


def reading(rule):
    """Another mask."""
    return seeing(lambda n, m: rule(n), Decoder)


def giving(change):
    """Something else instead of the logits."""
    return returning(lambda logits, kept: change(logits), Decoder)


LATE = {
    "mask as a factor": lambda s, m: (s * m).softmax(-1),
    "behind the softmax": lambda s, m: s.softmax(-1).tril(),
    "over the queries": lambda s, m: s.masked_fill(~m, -1e9).softmax(-2),
    "over the heads": lambda s, m: s.masked_fill(~m, -1e9).softmax(1),
    "scores set to 0": lambda s, m: s.masked_fill(~m, 0.0).softmax(-1),
}
for late in (*map(mixing, LATE.values()), giving(lambda x: x - x.mean(1, keepdim=True))):
    wrong("decoder", ALL, "positions read all later tokens", late, never=SOME)
for late in list(LATE.values())[:2]:
    wrong("write", ALL, mixing(late, Net))


def fused(split, join):
    """Attention of torch, whose mask is right; heads are made and joined by these."""

    def attention(self, block, x, old, start):
        key, value = block["kv"](x).chunk(2, -1)
        heads = (split(y, self.heads) for y in (block["q"](x), key, value))
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        return block["out"](join(mixed, x)), None

    return changed(Decoder, attention=attention)


def viewed(y, heads):
    return y.reshape(len(y), heads, y.size(1), -1)


def apart(y, heads):
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)


def back(y, x):
    return y.transpose(1, 2).reshape(x.shape)


def not_back(y, x):
    return y.reshape(x.shape)


right("decoder", fused(apart, back))
for answer in (fused(viewed, back), fused(apart, not_back)):
    wrong("decoder", SOME, answer, never=ALL)
wrong("decoder", "a stretch of text", fused(viewed, not_back), never=(SOME, ALL))


def places(of):
    """Other places of n tokens."""
    return changed(Decoder, embed=lambda self, t, start: self.token(t) + of(self, t.size(1)))


def built(then):
    """Something else is done when it is built, with the model and the sizes."""

    def make(self, *sizes):
        Decoder.__init__(self, *sizes)
        then(self, *sizes)

    return changed(Decoder, __init__=make)


def random_places(self, vocab, embed_dim, heads, layers, length):
    del self.position
    self.register_buffer("drawn", torch.randn(length, embed_dim))
    self.position = lambda at: self.drawn[at]


def one_block(self, *sizes):
    self.blocks = nn.ModuleList([self.blocks[0]] * sizes[3])


def plain_list(self, *sizes):
    blocks = list(self.blocks)
    del self.blocks
    self.blocks = blocks


def large_head(self, *sizes):
    nn.init.normal_(self.head.weight)


def tied(self, *sizes):
    self.head.weight = self.token.weight


class Exchanged(Decoder):
    def __init__(self, vocab, embed_dim, heads, layers, length):
        super().__init__(vocab, embed_dim, layers, heads, length)


class NormedTogether(Decoder):
    """BatchNorm in front of attention, along the samples and positions."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.batch = nn.BatchNorm1d(sizes[1])

    def attention(self, block, x, old, start):
        return super().attention(block, self.batch(x.flatten(0, 1)).view_as(x), old, start)


class Dropped(Decoder):
    """Right: dropout is for training."""

    def mix(self, *heads):
        return F.dropout(super().mix(*heads), 0.2, self.training)


class Summed(nn.Module):
    """No attention and no positions: sums of all that came before."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        super().__init__()
        self.token, self.head = nn.Embedding(vocab, embed_dim), nn.Linear(embed_dim, vocab)

    def forward(self, tokens):
        return self.head(self.token(tokens).cumsum(1))


def one_head(self, query, key, value, visible):
    """All heads at once, as if there were one."""
    query, key, value = (x.transpose(1, 2).flatten(2)[:, None] for x in (query, key, value))
    return apart(Net.mix(self, query, key, value, visible)[:, 0], self.heads)


def over_batch(self, query, key, value, visible):
    """As a layer does that takes the batch for the sequence."""
    heads = (x.transpose(0, 2) for x in (query, key, value))
    return Net.mix(self, *heads, corner(len(query), len(query))).transpose(0, 2)


def by_length(self, query, key, value, visible):
    """Scores are divided by the root of the number of keys."""
    return Net.mix(self, query * 2 / key.size(2) ** 0.5, key, value, visible)


TURNED, FROM_THE_END = "The mask is turned around", "Are positions counted from the end?"
right("decoder", Dropped)
for says, answer in (
    ("it is an instance", Decoder(19, 12, 2, 1, 16)),
    ("it is a class: a function", lambda *sizes: 3),
    ("(b, vocab, n)", giving(lambda x: x.mT)),
    ("return the first of it alone", giving(lambda x: (x, x))),
    ("Only the last position is answered", giving(lambda x: x[:, -1:])),
    ("let the loss take the softmax", giving(lambda x: x.softmax(-1))),
    ("random is left in evaluation mode", giving(lambda x: F.dropout(x, 0.3))),
    ("or a norm over samples", giving(lambda x: x - x.mean(0, keepdim=True))),
    ("attention run over the batch", changed(Decoder, mix=over_batch)),
    ("does not read itself", reading(lambda n: corner(n, n, -1))),
    ("the mask is turned around and leaves it nothing", reading(lambda n: ~corner(n, n))),
    (TURNED, reading(lambda n: corner(n, n).mT)),
    (TURNED, mixing(lambda s, m: s.masked_fill(m, -1e9).softmax(-1))),
    ("Let the diagonal be visible", mixing(lambda s, m: s.masked_fill(~m.tril(-1), -1e9).softmax(-1))),
    ("The mask is one place off", reading(lambda n: corner(n, n, 1))),
    ("some of the next tokens: 2 of them", reading(lambda n: corner(n, n, 2))),
    ("reads one token only", reading(lambda n: torch.eye(n).bool())),
    ("it does not read [0, 1", reading(lambda n: corner(n, n).triu(-2))),
    ("Add positions to the vectors", places(lambda self, n: 0 * self.position.weight[:n])),
    ("Add positions to the vectors", Summed),
    (FROM_THE_END, places(lambda self, n: self.position.weight[:n].flip(0))),
    ("divided by the number of tokens", changed(Decoder, mix=by_length)),
    ("a table of positions that is longer than the text", places(lambda self, n: self.position.weight)),
    ("reach as far as length says", places(lambda self, n: self.position.weight[:12][torch.arange(n)])),
    ("those drawn into a buffer", built(random_places)),
    ("in a plain list", built(plain_list)),
    ("one block is used again and again", built(one_block)),
    ("are num_heads and layers exchanged", Exchanged),
    ("num_heads changes nothing", changed(Decoder, mix=one_head)),
    ("nn.BatchNorm1d", NormedTogether),
    ("all is computed under torch.no_grad()", changed(Decoder, forward=torch.no_grad()(Decoder.forward))),
    ("never used: token.weight",
     changed(Decoder, embed=lambda self, t, start: self.token(t).detach() + self.position.weight[: t.size(1)])),
    ("embedding and head are one matrix", built(tied)),
    ("torch.randn needs a factor", built(large_head)),
):  # fmt: skip
    wrong("decoder", says, answer, never=(ALL, SOME))
