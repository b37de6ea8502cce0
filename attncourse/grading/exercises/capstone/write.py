"""Exercise write: the decoder with a cache, judged in pieces of every size."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from attncourse.grading.compare import Described
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.capstone._net import Net, changed, not_back, torn
from attncourse.grading.exercises.capstone._properties import (
    IS_CLASS,
    IS_MODULE,
    NO_MASK,
    RESHAPED,
    VOCAB,
    built,
    no_class,
    random_tokens,
    reads_all,
)
from attncourse.grading.exercises.capstone._writing import (
    STEP,
    WRITES,
    numbers_in,
    one_step,
    writes,
    written,
)
from attncourse.grading.inputs import seeded

LENGTH, WIDTH, LAYERS = 16, 12, 2
READS = "the last position reads every token"
SIZE = "the cache holds a key and a value of each token, and no more"
NAMES = IS_CLASS, IS_MODULE, *WRITES[:4], READS, *WRITES[4:], SIZE, STEP


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What a decoder writes with random parameters."""
    yield from built(answer)
    if no_class(answer):
        return
    tokens, g = random_tokens(seed, "tokens", 3, LENGTH), seeded(seed, "parameters")

    def make(layers):
        return answer(VOCAB, WIDTH, 2, layers, LENGTH)

    yield from writes(make, tokens, g, lambda moves: [(READS, reads_all(moves))])
    yield SIZE, size(make(LAYERS), tokens[:1])
    yield STEP, one_step(answer, seed)


@torch.no_grad()
def size(model, tokens) -> bool | Described:
    """True where the cache of a whole text is no larger than keys and values, but for a few numbers."""
    found = numbers_in(written(model, tokens, [LENGTH - 1, 1])[1])
    most = 2 * LAYERS * LENGTH * WIDTH
    return found <= most + 4 * LENGTH or Described(f"too many numbers: {found} instead of {most}")


ACCEPTED = Accepted(keys_and_values_joined=Net)


@ACCEPTED.add
class InADict(Net):
    """One tensor for all layers, and the place in the text as a number."""

    def start(self, cache):
        return cache[0][2] if cache else 0

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


@ACCEPTED.add
class Reserved(Net):
    """Room for the whole text is made with the first piece, and filled."""

    def start(self, cache):
        return cache[0][2] if cache else 0

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


@ACCEPTED.add
class FusedAndRotary(Net):
    """Turned keys are cached; attention is that of torch."""

    def make_positions(self, embed_dim, length):
        pass

    def embed(self, tokens, start):
        return self.token(tokens)

    def attention(self, block, x, old, start, number):
        self.at = torch.arange(start, start + x.size(1))
        return super().attention(block, x, old, start, number)

    def turned(self, x):
        angle = self.at[:, None] / 30 ** torch.linspace(0, 1, x.size(-1) // 2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def join(self, old, new):
        return super().join(old, (self.turned(new[0]), new[1]))

    def mix(self, query, key, value, visible):
        return scaled_dot_product_attention(self.turned(query), key, value, attn_mask=visible)


@ACCEPTED.add
class Inputs(Net):
    """What a layer reads is cached, and keys and values are made of it again: half the size, more work."""

    def attention(self, block, x, old, start, number):
        whole = x if old is None else torch.cat([old[0][:, 0], x], 1)
        query = block["q"](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        pair = block["kv"](whole).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, 1)
        mixed = self.mix(query, *pair, self.visible(x.size(1), whole.size(1), start))
        return block["out"](mixed.transpose(1, 2).flatten(2)), (whole[:, None],)


def joined(join=None, keep=None, base=Net):
    """Another cache."""
    steps = {"join": join and (lambda self, old, new: join(old, new)),
             "keep": keep and (lambda self, pair, old, new: keep(pair, old, new))}  # fmt: skip
    return changed(base, **{name: step for name, step in steps.items() if step})


def appended(old, new):
    return Net.join(None, old, new)


def seeing(rule, base=Net):
    """Another mask behind a cache: of the n new tokens, the m keys and the start."""
    return changed(base, visible=lambda self, n, m, start: rule(n, m))


def corner(n: int, m: int, shift: int = 0) -> Tensor:
    return torch.ones(n, m).tril(shift).bool()


def square(n: int, m: int) -> Tensor:
    return corner(m, m)[m - n :]


class Remembers(Net):
    """The cache is in the model, and what is handed over does not count."""

    def forward(self, tokens, cache=None):
        result = super().forward(tokens, cache and self.mine)
        self.mine = [tuple(x.detach() for x in pair) for pair in result[1]]
        return result


class RunsAgain(Net):
    """The cache is the text."""

    def forward(self, tokens, cache=None):
        whole = tokens if cache is None else torch.cat([cache[0], tokens], 1)
        logits, _ = super().forward(whole)
        return logits[:, -tokens.size(1) :], (whole,)


class AnswersAll(Net):
    """Logits of the whole text each time."""

    def forward(self, tokens, cache=None):
        whole = tokens if cache is None else torch.cat([cache[0], tokens], 1)
        return super().forward(whole)[0], (whole,)


class OneForAll(Net):
    """All layers read the cache of the first."""

    def forward(self, tokens, cache=None):
        return super().forward(tokens, cache and [cache[0]] * len(self.blocks))


class Box:
    """A cache that is an object."""

    def __init__(self, kept):
        self.kept = kept


def turned_again(self, old, new):
    """The cached keys, which are turned, are turned with the new ones."""
    key, value = appended(old, new)
    now, self.at = self.at, torch.arange(key.size(2))
    pair, self.at = (self.turned(key), value), now
    return pair


def returning(answer, base=Net):
    """Something else is returned."""
    return changed(base, answer=lambda self, logits, kept, tokens, cache: answer(logits, kept))


OTHER_NUMBERS = (
    "Behind a cache a new token reads every token that it should, but finds other numbers than in the whole text. Does the "
    "first new token stand right behind the cached ones, at place m after m of them? Do old keys stay with keys and old values "
    "with values? Is a key that is turned by its place turned once only, before it is cached?"
)


def slips(base: type[Net]) -> list[Mistake]:
    """What goes wrong in a cache, whatever the attention."""
    return [Mistake(says, answer) for says, answer in (
        ("This is an instance; pass the class.", base(VOCAB, WIDTH, 2, 1, LENGTH)),
        ("It builds no torch.nn.Module; let the class inherit from it.", dict),
        ("Only the logits are returned; return (logits, cache).", returning(lambda x, kept: x, base)),
        ("The order is (cache, logits); return the logits first.", returning(lambda x, kept: (kept, x), base)),
        ("The cache is an object of a class of yours; hand on plain tensors, in tuples, lists or dicts.",
         returning(lambda x, kept: (x, Box(kept)), base)),
        ("Behind a cache the positions start at 0 again: written one by one, the tokens have no order. A new token stands "
         "behind all that were written.",
         changed(base, embed=lambda self, tokens, start: Net.embed(self, tokens, 0))),
        *((OTHER_NUMBERS, changed(base, **steps)) for steps in (
            {"start": lambda self, cache: max(Net.start(self, cache) - 1, 0)},
            {"join": lambda self, old, new: Net.join(None, old and [old[0], old[0]], new)})),
        ("Behind a cache the mask is aligned to the first key; new token i may read the past and new tokens up to "
         "itself.", seeing(corner, base)),
        ("Behind a cache there is no mask; within a piece a token still reads no later one.",
         seeing(lambda n, m: corner(n, m) if n == m else corner(n, m, m), base)),
        (NO_MASK, seeing(lambda n, m: corner(n, m, m), base)),
        *((RESHAPED, changed(base, attention=how)) for how in (torn, not_back)),
        ("The cached tokens are hidden: a new token reads only new ones.",
         seeing(lambda n, m: corner(n, m, m - n) & (torch.arange(m) >= m - n), base)),
        ("The cache is not handed on with the new tokens in it; it stays as it was after the first piece.",
         joined(keep=lambda pair, old, new: tuple(old or pair), base=base)),
        ("Only the keys and values of the new tokens are handed on; the older ones belong into the cache, too.",
         joined(keep=lambda pair, old, new: tuple(new), base=base)),
        ("The new keys stand before the old ones.",
         joined(lambda old, new: new if old is None else appended(new, old), base=base)),
        ("The prompt is run again for every token, because the cache holds the text alone. Keep what attention reads of "
         "it in every layer.", type("RunsAgain", (RunsAgain, base), {})),
        ("Each call answers the whole text; return logits for the new tokens only.",
         type("AnswersAll", (AnswersAll, base), {})),
        ("All layers read the cache of the first; each has its own.", type("OneForAll", (OneForAll, base), {})),
        ("No gradient comes back at all: it is computed under torch.no_grad() or behind detach(), so nothing could be learned.",
         changed(base, forward=torch.no_grad()(base.forward))),
        ("More layers add no parameters: one block is used again and again, or layers and num_heads are exchanged in a call. "
         "Build a block for each layer.",
         changed(base, make_blocks=lambda self, e, k: nn.ModuleList([self.block(e)] * k))),
        ("The model keeps the cache itself, so two texts get mixed; use the one that is handed over.",
         type("Remembers", (Remembers, base), {})),
    )]  # fmt: skip


MISTAKES = Mistakes([
    *slips(Net),
    Mistake("For one token a mask of all n x n pairs is made, and one row of it used; make that row.",
            seeing(square)),
    Mistake("The cache is larger than the keys and values of the text: it holds something twice.",
            changed(joined(lambda old, new: appended(old and old[:2], new)),
                    answer=lambda self, x, kept, *rest: (x, [(*pair, torch.cat(pair)) for pair in kept]))),
    *(Mistake("Only the last position is answered; return logits for all new tokens, (b, n, vocab).", returning(last))
      for last in (lambda logits, kept: (logits[:, -1], kept), lambda logits, kept: (logits[:, -1:], kept))),
    Mistake(OTHER_NUMBERS, changed(FusedAndRotary, join=turned_again)),
])  # fmt: skip

EXERCISE = Exercise(
    name="write", answer="Writer", judge=Facts(facts, NAMES), accepted=ACCEPTED, mistakes=MISTAKES
)
