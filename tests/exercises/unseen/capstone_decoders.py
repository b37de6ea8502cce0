"""Decoders of the capstone that read what they must not, and what is true of each."""

import torch
from torch import nn

from attncourse.grading.exercises.capstone._decoders import giving, reading, triangle
from attncourse.grading.exercises.capstone._net import Decoder, Net, changed
from attncourse.grading.exercises.capstone.own_attention import Window
from attncourse.grading.exercises.capstone.write import FusedAndRotary, returning
from unseen import right, wrong

ALL, SOME = "there is no causal mask, or it does not act", "where a reshape mixes"
NONE_AT_ALL = "There is no causal mask"


def mixing(weights, base=Decoder):
    """Other weights, made of scores and of what is visible."""

    def mix(self, query, key, value, visible):
        return weights(query @ key.mT / query.size(-1) ** 0.5, visible) @ value

    return changed(base, mix=mix)


LATE = {
    "mask as a factor": lambda s, m: (s * m).softmax(-1),
    "behind the softmax": lambda s, m: s.softmax(-1).tril(),
    "over the queries": lambda s, m: s.masked_fill(~m, -1e9).softmax(-2),
    "over the heads": lambda s, m: s.masked_fill(~m, -1e9).softmax(1),
    "scores set to 0": lambda s, m: s.masked_fill(~m, 0.0).softmax(-1),
}
for late in LATE.values():
    wrong(
        "decoder", ALL, "positions read all later tokens", mixing(late), never=(NONE_AT_ALL, SOME)
    )
for late in list(LATE.values())[:2]:
    wrong("write", ALL, mixing(late, Net), never=NONE_AT_ALL)
wrong("decoder", ALL, giving(lambda x: x - x.mean(1, keepdim=True)), never=(NONE_AT_ALL, SOME))
wrong("decoder", "Let the diagonal be visible", never=ALL)(
    mixing(lambda s, m: s.masked_fill(~m.tril(-1), -1e9).softmax(-1)))  # fmt: skip
wrong("decoder", "positions read later tokens instead of", reading(lambda n: triangle(n, -1).mT | torch.eye(n).bool()))  # fmt: skip
wrong("decoder", "The mask is turned around", never=(ALL, "does not read itself"))(
    mixing(lambda s, m: s.masked_fill(m, -torch.inf).softmax(-1)))  # fmt: skip
wrong("decoder", "some of the next tokens: 2 of them", never=(ALL, NONE_AT_ALL, SOME))(
    reading(lambda n: (torch.arange(n) - torch.arange(n)[:, None]) <= 2))  # fmt: skip


def fused(split, join):
    """Attention of torch, whose mask is right; heads are made and joined by these."""

    def attention(self, block, x, old, start, number):
        key, value = block["kv"](x).chunk(2, -1)
        heads = (split(y, self.heads) for y in (block["q"](x), key, value))
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return block["out"](join(mixed, x)), None

    return changed(Decoder, attention=attention)


def viewed(y, heads):
    return y.reshape(len(y), heads, y.size(1), -1)


def apart(y, heads):
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)


NO_HEADS = ("no causal mask", ALL)
wrong(
    "decoder", SOME, fused(viewed, lambda y, x: y.transpose(1, 2).reshape(x.shape)), never=NO_HEADS
)
wrong("decoder", SOME, fused(apart, lambda y, x: y.reshape(x.shape)), never=NO_HEADS)
wrong("decoder", "a stretch of the text", fused(viewed, lambda y, x: y.reshape(x.shape)), never=(*NO_HEADS, "order of earlier tokens is lost"))  # fmt: skip
right("decoder", fused(apart, lambda y, x: y.transpose(1, 2).reshape(x.shape)))


def places(of, base=Decoder):
    """Other places of n tokens behind ``start``."""
    return changed(base, embed=lambda self, t, start: self.token(t) + of(self, t.size(1), start))


FROM_THE_END = "Are positions counted from the end?"
wrong("decoder", "divided by the number of tokens", never=FROM_THE_END)(
    changed(Decoder, mix=lambda self, q, k, v, m: Decoder.mix(self, q * 2 / k.size(2) ** 0.5, k, v, m)))  # fmt: skip
wrong("decoder", FROM_THE_END, places(lambda self, n, start: self.position.weight[:n].flip(0)))


class RandomPositions(Decoder):
    def make_positions(self, embed_dim, length):
        self.register_buffer("drawn", torch.randn(length, embed_dim))

    def embed(self, tokens, start):
        return self.token(tokens) + self.drawn[: tokens.size(1)]


wrong("decoder", "drawn into a buffer", "another decoder with the same parameters", RandomPositions)


class Exchanged(Decoder):
    def __init__(self, vocab, embed_dim, heads, layers, length):
        super().__init__(vocab, embed_dim, layers, heads, length)


wrong("decoder", "num_heads and layers", Exchanged, never="one block, used again")


class NormedTogether(Decoder):
    """BatchNorm in front of attention, along the samples and positions."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.batch = nn.BatchNorm1d(sizes[1])

    def attention(self, block, x, old, start, number):
        return super().attention(block, self.batch(x.flatten(0, 1)).view_as(x), old, start, number)


wrong("decoder", "nn.BatchNorm1d", "other samples and later tokens are read", NormedTogether)


class LargeHead(Decoder):
    def __init__(self, vocab, embed_dim, *sizes):
        super().__init__(vocab, embed_dim, *sizes)
        self.head = nn.Linear(embed_dim, vocab)
        self.head.weight = nn.Parameter(torch.randn(vocab, embed_dim))


wrong("decoder", "far above log(vocab)", "torch.randn", LargeHead, never="shares the matrix")


class Dropped(Decoder):
    """Right: dropout is for training."""

    def mix(self, *heads):
        return nn.functional.dropout(super().mix(*heads), 0.2, self.training)


right("decoder", Dropped)


AGAIN = "Behind a cache the positions start at 0 again"
NUMBERS = "finds other numbers than in the whole text"
WRONG_PLACES = {
    "one too few": lambda self, n, start: self.position(torch.arange(n) + max(start - 1, 0)),
    "one too many": lambda self, n, start: self.position((torch.arange(n) + start + (start > 0)).clamp(max=self.length - 1)),
}  # fmt: skip
for of in WRONG_PLACES.values():
    wrong("write", NUMBERS, places(of, Net), never=AGAIN)
wrong("write", AGAIN, places(lambda self, n, start: self.position.weight[:n], Net), never=NUMBERS)


class KeysForValues(Net):
    def join(self, old, new):
        return super().join(old and (old[0], old[0]), new)


wrong("write", NUMBERS, KeysForValues, never=AGAIN)


class TurnedByEachStep(FusedAndRotary):
    """The keys of the cache are turned, and turned with the new ones."""

    def join(self, old, new):
        key, value = Net.join(self, old, new)
        self.at = torch.arange(key.size(2)) if old else self.at
        result = self.turned(key), value
        self.at = self.at[-new[0].size(2) :]
        return result


wrong("write", "turned once only", TurnedByEachStep, never=AGAIN)
ONLY_LAST = "Only the last position is answered"
wrong("write", ONLY_LAST, returning(lambda x, kept: (x[:, -1:], kept)), never="reads later tokens")
wrong("decoder", ONLY_LAST, giving(lambda x: x[:, -1:]), never="reads later tokens")
wrong("decoder", "a tuple", giving(lambda x: (x, x)), never="shape ()")
wrong("write", "No gradient comes back", changed(Net, forward=torch.no_grad()(Net.forward)))


class OneBlock(Net):
    def make_blocks(self, embed_dim, layers):
        self.only = self.block(embed_dim)
        return [self.only] * layers


wrong("write", "one block is used again", OneBlock)


class ExchangedWriter(Net):
    def __init__(self, vocab, embed_dim, heads, layers, length):
        super().__init__(vocab, embed_dim, layers, heads, length)


wrong("write", "layers and num_heads are exchanged", ExchangedWriter)


class OtherAxis(Net):
    """Keys are joined along their width."""

    def join(self, old, new):
        return new if old is None else [torch.cat(both, 3) for both in zip(old, new, strict=True)]


wrong("write", "torch.cat along another axis than that of the tokens", OtherAxis)
HALF, FULL = "larger than half of it", "as large as that of multi-head attention"


def longer(more):
    """A window of so many tokens more than half the text."""

    class Longer(Window):
        def keep(self, pair, old, new):
            return (*(x[:, :, -(self.length // 2 + more) :] for x in pair), self.place)

        def visible(self, n, m, start):
            apart = torch.arange(m - n, m)[:, None] - torch.arange(m)
            return (apart >= 0) & (apart < self.length // 2 + more)

    return Longer


for more in (1, 2, 5):
    wrong("own_attention", HALF, longer(more), never=FULL)
right("own_attention", longer(-1))
wrong("own_attention", FULL, longer(16), never=HALF)


class CutFirst(Window):
    """Keys are cut to the window, and then asked."""

    def join(self, old, new):
        return [x[:, :, -self.length // 2 :] for x in super().join(old, new)]

    def visible(self, n, m, start):
        late = self.place - torch.arange(n, 0, -1)[:, None]
        return torch.arange(self.place - m, self.place) <= late


wrong("own_attention", "not the keys of the scores", CutFirst, never=(SOME, ALL))
