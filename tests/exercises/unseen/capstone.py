"""The capstone: answers that its exercises do not list."""

import torch
from torch import nn

from attncourse.grading.exercises.capstone._net import Decoder, Net, changed
from attncourse.grading.exercises.capstone.explain_head import Reader, Stale
from attncourse.grading.exercises.capstone.trained import Table
from unseen import right, wrong


class Summed(nn.Module):
    """No attention: the mean of all that came before, with recurrent sums; order by decay."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        super().__init__()
        self.token, self.head = nn.Embedding(vocab, embed_dim), nn.Linear(embed_dim, vocab)

    def forward(self, tokens):
        return self.head(self.token(tokens).cumsum(1))


wrong("decoder", "the order of earlier tokens matters: no", Summed, never=("a mask is missing",))
wrong(
    "decoder",
    "raised IndexError",
    changed(Decoder, make_positions=lambda self, e, n: Decoder.make_positions(self, e, n // 2)),
)
wrong("decoder", "it builds a int", lambda *sizes: 3)


class PlaceInTheModel(Net):
    """The position is counted by the model, the keys by the cache."""

    def start(self, cache):
        return self.place if cache else 0

    def answer(self, logits, kept, tokens, cache):
        self.place = self.start(cache) + tokens.size(1)
        return logits, kept


class Tuples(Net):
    """Keys and values of a layer in a dict, and all of it in a tuple."""

    def forward(self, tokens, cache=None):
        old = cache and [(x["k"], x["v"]) for x in cache]
        logits, kept = super().forward(tokens, old)
        return logits, tuple({"k": k, "v": v} for k, v in kept)


right("write", Tuples)
wrong("write", "two texts can be written in turns: ", type("Counted", (PlaceInTheModel,), {
    "embed": lambda self, tokens, start: self.token(tokens) + self.position(
        (torch.arange(start, start + tokens.size(1))) % self.length)}))  # fmt: skip
wrong(
    "write",
    "it holds a method",
    changed(Net, answer=lambda self, x, kept, tokens, cache: (x, [*kept, self.start])),
)


class WholeTable(Decoder):
    """All places of the table are added, however short the text is."""

    def embed(self, tokens, start):
        return self.token(tokens) + self.position.weight


wrong("decoder", "a table of positions that is longer than the text", WholeTable)
wrong("trained", "is needed", "on these passages the table has", Table(known=0.3))


def handing(give):
    """A right claim, and something else beside it."""
    return Reader((0, 1, "previous"), give)


ORDER, SCORES = "The order is (weights", "These are scores"
STANDS_OUT = "does not do it more than the others"
wrong("explain_head", "model(tokens)[0]", handing(lambda x, w, c: ((x, {}), w, c)), never=ORDER)
wrong(
    "explain_head",
    "they have another: a dict",
    handing(lambda x, w, c: ({"x": x}, w, c)),
    never=ORDER,
)
wrong(
    "explain_head",
    "two heads or more",
    handing(lambda x, w, c: (x, [w[0][:, :1]], (0, 0, "start"))),
    never=STANDS_OUT,
)
for share in (0.5, torch.linspace(0.2, 1, 64)[:, None]):
    wrong("explain_head", "sum to less than 1", never=SCORES)(
        handing(lambda x, w, c, share=share: (x, [share * y for y in w], c)))  # fmt: skip
wrong("explain_head", SCORES, handing(lambda x, w, c: (x, [3 * y.log() for y in w], c)))
for claim in (("previous", 0, 1), (0, "1", "previous"), (0, "previous", 1)):
    wrong("explain_head", "it is (layer, head, what)", Reader(claim), never="cannot be interpreted")
wrong("explain_head", "of some heads do not come from", "(1, 0), (1, 1), (1, 2)")(
    handing(lambda x, w, c: (x, [w[0], 0 * w[1] + torch.eye(64)[0]], c)))  # fmt: skip
OLD = "those of an earlier call"
wrong("explain_head", OLD, Stale((0, 1, "previous"), 16), never=STANDS_OUT)
wrong("explain_head", OLD, Stale((0, 1, "previous"), 8), never="the axes are others")
wrong("explain_head", "no such head", Reader((0, -1, "previous")))
wrong("explain_head", "another form", Reader((0, 1)))
wrong("explain_head", "look at previous", Reader((0, 1, "spread")))

wrong(
    "write",
    "it holds something twice",
    "1152 instead of 768",
    changed(
        Net,
        answer=lambda self, x, kept, *rest: (x, [(*pair, pair[0]) for pair in kept]),
        join=lambda self, old, new: Net.join(self, old and old[:2], new),
    ),
)
wrong(
    "write",
    "raised ValueError",
    changed(Net, answer=lambda self, x, kept, *rest: (x, kept[-1:])),
    never="twice",
)


class Narrow(Net):
    """Multi-head attention at half the width."""

    def __init__(self, vocab, embed_dim, num_heads, layers, length):
        super().__init__(vocab, embed_dim // 2, num_heads // 2, layers, length)


wrong("own_attention", "narrower than embed_dim", "they are 12 and not 24", Narrow)
