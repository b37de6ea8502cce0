"""Exercise own_attention: another attention in the decoder, with a cache of at most half the size."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from attncourse.grading.compare import Described
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.capstone._net import Net, changed
from attncourse.grading.exercises.capstone._properties import (
    IS_CLASS,
    IS_MODULE,
    VOCAB,
    built,
    no_class,
    random_tokens,
)
from attncourse.grading.exercises.capstone._writing import (
    STEP,
    WRITES,
    numbers_in,
    one_step,
    writes,
    written,
)
from attncourse.grading.exercises.capstone.write import Inputs, joined, slips
from attncourse.grading.inputs import seeded

LENGTH, WIDTH, HEADS, LAYERS = 32, 24, 4, 2
READS = "the last position reads the tokens before it"
WIDE = "the vectors of tokens are embed_dim wide"
SIZE = "the cache is at most half of that of multi-head attention"
NAMES = IS_CLASS, IS_MODULE, *WRITES[:4], READS, *WRITES[4:], SIZE, WIDE, STEP


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What a decoder with any attention writes with random parameters."""
    yield from built(answer)
    if no_class(answer):
        return
    tokens, g = random_tokens(seed, "tokens", 3, LENGTH), seeded(seed, "parameters")

    def make(layers):
        return answer(VOCAB, WIDTH, HEADS, layers, LENGTH)

    yield from writes(make, tokens, g, lambda moves: [(READS, bool((moves[-3:, -1] > 1e-6).all()))])
    yield SIZE, size(make(LAYERS), tokens[:1])
    yield WIDE, wide(make(LAYERS))
    yield STEP, one_step(answer, seed)


@torch.no_grad()
def size(model, tokens) -> bool | Described:
    """True where the cache of a whole text has half as many numbers as its keys and values, or fewer."""
    found = numbers_in(written(model, tokens, [LENGTH - 1, 1])[1])
    most = LAYERS * LENGTH * WIDTH
    if found <= most + LAYERS * LENGTH:  # a place for each token and layer
        return True
    how = "as many numbers as in multi-head attention" if found >= 2 * most else "too many numbers"
    return Described(f"{how}: {found}, and {most} are half")


def wide(model) -> bool | Described:
    """True where embeddings or the last layer know embed_dim: multi-head attention in a narrower model is no other one."""
    tables = [tuple(p.shape) for p in model.parameters() if p.dim() == 2 and VOCAB in p.shape]
    widths = {w for table in tables for w in table if w != VOCAB}
    return not widths or WIDTH in widths or Described(f"they are {max(widths)} and not {WIDTH}")


class Grouped(Net):
    """Two query heads share a key and a value."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        self.kv_heads = num_heads // 2
        super().__init__(vocab, embed_dim, num_heads, layers, length)


class OneForAllHeads(Net):
    """Multi-query attention."""

    kv_heads = 1


class Window(Net):
    """A token reads itself and those before it, ``length // 2`` in all; with a place in each pair."""

    def start(self, cache):
        return cache[0][2] if cache else 0

    def join(self, old, new):
        self.place = (old[2] if old else 0) + new[0].size(2)
        return super().join(old and old[:2], new)

    def keep(self, pair, old, new):
        return (*(x[:, :, -(self.length // 2) :] for x in pair), self.place)

    def visible(self, n, m, start):
        apart = torch.arange(m - n, m)[:, None] - torch.arange(m)
        return (apart >= 0) & (apart < self.length // 2)


class Latent(Net):
    """Keys and values are made of a vector of half the width, which is cached."""

    def block(self, e):
        block = super().block(e)
        block["down"], block["kv"] = nn.Linear(e, e // 2), nn.Linear(e // 2, 2 * e)
        return block

    def start(self, cache):
        return cache[0].size(1) if cache else 0

    def attention(self, block, x, old, start, number):
        latent = block["down"](x)
        latent = latent if old is None else torch.cat([old, latent], 1)
        query = block["q"](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        pair = block["kv"](latent).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, 1)
        mixed = self.mix(query, *pair, self.visible(x.size(1), latent.size(1), start))
        return block["out"](mixed.transpose(1, 2).flatten(2)), latent


class Linear(Net):
    """Without a softmax: what was read is a matrix and a vector, whatever the length of the text."""

    def start(self, cache):
        return cache[0][2] if cache else 0

    def attention(self, block, x, old, start, number):
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


ACCEPTED = Accepted(
    {x.__name__: x for x in (Grouped, OneForAllHeads, Window, Latent, Linear, Inputs)}
)


def trimmed(**steps):
    """The window with other steps."""
    return changed(Window, **steps)


def window(more: int) -> dict:
    """Steps of a window that is longer by so many tokens."""

    def keep(self, pair, old, new):
        return (*(x[:, :, -(self.length // 2 + more) :] for x in pair), self.place)

    def visible(self, n, m, start):
        apart = torch.arange(m - n, m)[:, None] - torch.arange(m)
        return (apart >= 0) & (apart < self.length // 2 + more)

    return {"keep": keep, "visible": visible}


def cut_first(self, old, new):
    """The keys that are read are those of the last token."""
    return [x[:, :, -(self.length // 2) :] for x in Window.join(self, old, new)]


def by_place(self, n, m, start):
    """Who may read whom, by the places of both in the text."""
    return (
        torch.arange(self.place - m, self.place)
        <= torch.arange(self.place - n, self.place)[:, None]
    )


MISTAKES = Mistakes([
    *slips(Grouped),
    *(Mistake("The cache is as large as that of multi-head attention, or larger; heads that share keys and values "
              "are repeated after the cache, not before it.", answer)
      for answer in (Net, joined(keep=lambda pair, old, new: tuple(x.repeat_interleave(2, 1) for x in pair),
                                 join=lambda old, new: Net.join(None, old and [x[:, ::2] for x in old], new),
                                 base=Grouped))),
    Mistake("The whole model is narrower than embed_dim, and its attention is multi-head again; change the attention, not the width.",
            changed(Net, __init__=lambda self, vocab, e, heads, *sizes: Net.__init__(self, vocab, e // 2, heads // 2, *sizes))),
    Mistake("The cache is smaller than that of multi-head attention, but larger than half of it, layers * length * embed_dim "
            "numbers: keep fewer tokens of a window, fewer shared heads, or a smaller vector.", changed(Window, **window(2))),
    Mistake("The first positions of a text find no key that they may read, and become NaN. Cut what is handed on, not the keys "
            "of the scores; the mask makes the window, and a token reads itself.", trimmed(join=cut_first, visible=by_place)),
    Mistake("The cache is cut to a window, but with the whole text at once every token reads everything; both need the "
            "same window.", trimmed(visible=Net.visible)),
    Mistake("The cache is cut shorter than the window that the mask allows.",
            trimmed(keep=lambda self, pair, old, new: (*(x[:, :, -4:] for x in pair), self.place))),
    Mistake("Positions are counted by what is left in the cache; once it is cut, they stand still. Hand on the place in "
            "the text, too.", trimmed(start=lambda self, cache: cache[0][0].size(2) if cache else 0)),
    Mistake("A token reads only itself; a window holds those before it, too.",
            trimmed(visible=lambda self, n, m, start: torch.eye(m).bool()[m - n :])),
])  # fmt: skip

EXERCISE = Exercise(
    name="own_attention",
    answer="Slim",
    judge=Facts(facts, NAMES),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
