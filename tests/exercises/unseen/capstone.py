"""The capstone: writers and models that its exercises do not list."""

import torch
from styles.capstone import FusedAndRotary, Heads, Window, WithPlace, turned

from attncourse.grading.exercises.capstone._net import Net
from attncourse.grading.exercises.capstone._text import Table, pairs
from unseen import right, wrong


def changed(base, **steps):
    """The class with other steps."""
    return type(base.__name__, (base,), steps)


def keeping(keep, base=Net):
    """Another cache, from (keys, values) so far, the old ones and the new ones."""
    return changed(base, keep=lambda self, pair, old, new: keep(pair, old, new))


def joining(join, base=Net):
    """Other keys and values are read."""
    return changed(base, join=lambda self, old, new: join(self, old, new))


def seeing(rule, base=Net):
    """Another mask behind a cache: of the n new tokens and the m keys."""
    return changed(base, visible=lambda self, n, m: rule(n, m))


def returning(answer, base=Net):
    """Something else is returned."""
    return changed(base, answer=lambda self, logits, kept, tokens, cache: answer(logits, kept))


def corner(n, m, shift=0):
    return torch.ones(n, m).tril(shift).bool()


class Tuples(Net):
    """Keys and values of a layer in a dict, and all of it in a tuple."""

    def forward(self, tokens, cache=None):
        old = cache and [(x["k"], x["v"]) for x in cache]
        logits, kept = super().forward(tokens, old)
        return logits, tuple({"k": k, "v": v} for k, v in kept)


class OneForAll(Net):
    """All layers read the cache of the first."""

    def forward(self, tokens, cache=None):
        return super().forward(tokens, cache and [cache[0]] * len(self.blocks))


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
        return super().forward(whole)[0][:, -tokens.size(1) :], (whole,)


class AnswersAll(Net):
    """Logits of the whole text each time."""

    def forward(self, tokens, cache=None):
        whole = tokens if cache is None else torch.cat([cache[0], tokens], 1)
        return super().forward(whole)[0], (whole,)


class KeepsBoth(WithPlace):
    """Keys, values, and both once more."""

    def join(self, old, new):
        return super().join(old and old[:2], new)

    def start(self, cache):
        return cache[0][0].size(2) if cache else 0

    def keep(self, pair, old, new):
        return (*pair, pair[0])


class TurnedAgain(FusedAndRotary):
    """The keys of the cache, which are turned, are turned with the new ones."""

    def join(self, old, new):
        key, value = Net.join(self, old, new)
        return turned(key, torch.arange(key.size(2)), 30), value


def embedding(place, base=Net):
    return changed(base, embed=lambda self, t, start: self.token(t) + place(self, t.size(1), start))


AGAIN = "Behind a cache the positions start at 0 again"
NUMBERS = "finds other numbers than in the whole text"
NEW_ONLY, STAYS = "the older ones belong into the cache", "stays as it was after the first piece"
right("write", Tuples)
for says, writer in (
    ("(logits, cache): a Tensor", returning(lambda x, kept: x)),
    ("return (logits, cache), the logits first", returning(lambda x, kept: (kept, x))),
    ("hand on plain tensors", returning(lambda x, kept: (x, [*kept, x.sum]))),
    ("Only the last position is answered", returning(lambda x, kept: (x[:, -1:], kept))),
    ("answer each new one, and no others", AnswersAll),
    ("raised ValueError", returning(lambda x, kept: (x, kept[-1:]))),
    ("aligned to the first key", seeing(corner)),
    ("Behind a cache there is no mask", seeing(lambda n, m: corner(n, m, 0 if n == m else m))),
    ("there is no causal mask", seeing(lambda n, m: corner(n, m, m))),
    ("a new token reads only new ones", seeing(lambda n, m: corner(n, m, m - n) & (torch.arange(m) >= m - n))),
    (STAYS, keeping(lambda pair, old, new: tuple(old or pair))),
    (NEW_ONLY, keeping(lambda pair, old, new: tuple(new))),
    ("Do new keys stand before the old ones",
     joining(lambda self, old, new: Net.join(self, new, old) if old else new)),
    ("torch.cat joins along dim",
     joining(lambda self, old, new: [torch.cat(x, 3) for x in zip(old, new, strict=True)] if old else new)),
    ("does each layer find its own", OneForAll),
    ("The model keeps something of a text itself", Remembers),
    ("the prompt is run again for each token", RunsAgain),
    ("1152 numbers instead of 768", KeepsBoth),
    ("make a row, not a table", seeing(lambda n, m: corner(m, m)[m - n :])),
):  # fmt: skip
    wrong("write", says, writer)
for place in (
    lambda self, n, start: self.position(torch.arange(n) + max(start - 1, 0)),
    lambda self, n, start: self.position((torch.arange(n) + start + (start > 0)).clamp(max=15)),
):
    wrong("write", NUMBERS, embedding(place), never=AGAIN)
wrong("write", AGAIN, embedding(lambda self, n, start: self.position.weight[:n]), never=NUMBERS)
swapped = joining(lambda self, old, new: Net.join(self, old and (old[0], old[0]), new))
wrong("write", NUMBERS, swapped, never=AGAIN)
wrong("write", "turned once only", TurnedAgain, never=AGAIN)


class Narrow(Net):
    """Multi-head attention at half the width."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        super().__init__(vocab, embed_dim // 2, num_heads // 2, layers, length)


class CutFirst(Window):
    """Keys are cut to the window, and then asked."""

    def join(self, old, new):
        return [x[:, :, -self.length // 2 :] for x in super().join(old, new)]

    def visible(self, n, m):
        late = self.place - torch.arange(n, 0, -1)[:, None]
        return torch.arange(self.place - m, self.place) <= late


HALF, FULL = "larger than half of it", "as large as that of multi-head attention"
for more in (1, 2, 5):
    wrong("own_attention", HALF, changed(Window, more=more), never=FULL)
right("own_attention", changed(Window, more=-1))
for says, steps in (
    (FULL, {"more": 16}),
    ("cut to a window", {"visible": Net.visible}),
    ("cut to a window",
     {"keep": lambda self, pair, old, new: (*(x[:, :, -4:] for x in pair), self.place)}),
    ("or they stand still", {"start": lambda self, cache: cache[0][0].size(2) if cache else 0}),
    ("does not read both tokens before it",
     {"visible": lambda self, n, m: torch.eye(m).bool()[m - n :]}),
):  # fmt: skip
    wrong("own_attention", says, changed(Window, **steps), never=HALF)
wrong("own_attention", FULL, Net, never=HALF)
wrong("own_attention", "narrower than embed_dim", "they are 12 and not 24", Narrow)
wrong("own_attention", "not the keys of the scores", CutFirst, never="causal mask")


class Changed(Table):
    """The table, and what is done to its logits."""

    def __init__(self, change, **options):
        super().__init__(**options)
        self.change = change

    def forward(self, tokens):
        return self.change(super().forward(tokens), tokens)


class Pairs(torch.nn.Module):
    """A table of pairs, learned."""

    def __init__(self, table):
        super().__init__()
        self.table = torch.nn.Parameter(table)

    def forward(self, tokens):
        return self.table[tokens]


class Hidden(Table):
    """The table where parameters() does not see it."""

    def __init__(self):
        super().__init__()
        for name in ("table", "recent"):
            value = getattr(self, name).detach()
            delattr(self, name)
            self.register_buffer(name, value)
        self.scale = torch.nn.Parameter(torch.ones(3))


def one_hot(tokens):
    return torch.nn.functional.one_hot(tokens, 128).float()


for says, model in (
    ("This is the class", Table),
    ("This is a function", one_hot),
    ("that of a guess", Pairs(0.01 * torch.ones(128, 128))),
    ("was the character itself", Changed(lambda x, t: x + 20 * one_hot(t))),
    ("was the character before", Changed(lambda x, t: x + 20 * one_hot(torch.nn.functional.pad(t[:, :-1], (1, 0))))),
    ("is a mask missing", Changed(lambda x, t: x + 5 * one_hot(t.roll(-1, 1)))),
    ("no more than which character follows which", Pairs(pairs().clone())),
    ("on these passages the table has", Table(known=0.3)),
    ("Only the last position is answered", Changed(lambda x, t: x[:, -1])),
    ("Has the training diverged?", Changed(lambda x, t: x.masked_fill(t[..., None] == 32, torch.nan))),
    ("stands in forward, or where model.parameters() does not see it", Hidden()),
    ("too many parameters", torch.nn.Sequential(Table(), *(torch.nn.Linear(128, 128) for _ in range(20)))),
    ("in place; work on a copy", Changed(lambda x, t: (x, t.zero_())[0])),
    ("depends on the others in its batch", Changed(lambda x, t: x - x.mean(0))),
):  # fmt: skip
    wrong("trained", says, model)


class Stale(Heads):
    """The weights are collected before the model is run; first those of ``count`` other passages."""

    def __init__(self, claim, count):
        super().__init__(claim)
        self.before = super().forward(torch.arange(64 * count).view(count, 64) % 128)[1]

    def forward(self, tokens):
        logits, maps, claim = super().forward(tokens)
        before, self.before = self.before, [x.detach() for x in maps]
        return logits, before, claim


RIGHT = 0, 1, "previous"


def handing(give):
    """A right claim, and something else beside it."""
    return Heads(RIGHT, give=give)


def mapping(change):
    """Other weights."""
    return handing(lambda x, maps, claim: (x, [change(y) for y in maps], claim))


SHARES, FORM = (
    "behind the softmax",
    "(layer, head, what), such as (0, 2, 'previous'): it has another",
)
OTHERS = "not of these heads (layer, head): (1, 0), (1, 1), (1, 2)"
for says, model in (
    ("This is the class", Heads),
    ("(logits, weights, claim): a Tensor", handing(lambda x, w, c: x)),
    ("(logits, weights, claim): a tuple", handing(lambda x, w, c: (x, w))),
    ("wrap the model that you have trained", Heads(RIGHT, known=0.1)),
    ("no tensor but a tuple; return the first of it alone", handing(lambda x, w, c: ((x, {}), w, c))),
    ("no tensor but a dict", handing(lambda x, w, c: ({"x": x}, w, c))),
    ("the second result has it", handing(lambda x, w, c: (torch.stack(w), x, c))),
    ("return the weights of each head", mapping(lambda y: y.mean(1))),
    (SHARES, mapping(lambda y: 9 * y)),
    (SHARES, mapping(lambda y: 3 * y.log())),
    ("sums of some are below 1", mapping(lambda y: 0.5 * y)),
    ("sums of some are below 1", mapping(lambda y: torch.linspace(0.2, 1, 64)[:, None] * y)),
    ("a row is a position that reads", mapping(lambda y: y.mT)),
    ("weights without the mask", mapping(lambda y: torch.full_like(y, 1 / 64))),
    ("two heads or more", handing(lambda x, w, c: (x, [w[0][:, :1]], (0, 0, "start")))),
    ("there is no such head", Heads((2, 1, "previous"))),
    ("there is no such head", Heads((0, -1, "previous"))),
    ("none of the four", Heads((0, 1, "the character before"))),
    *((FORM, Heads(claim)) for claim in ("previous", (0, 1), ("previous", 0, 1), (0, "1", "same"))),
    ("look at previous", Heads((0, 1, "spread"))),
    ("it does not stand out", Heads((0, 0, "previous"))),
    (OTHERS, handing(lambda x, w, c: (x, [w[0], 0 * w[1] + torch.eye(64)], c))),
    *(("those of an earlier call", Stale(RIGHT, count)) for count in (8, 16)),
):  # fmt: skip
    wrong("explain_head", says, model, never="reads later")
