"""The capstone: answers that its exercises do not list."""

import torch
from torch import nn

from attncourse.grading.exercises.capstone._net import Decoder, Net, changed
from attncourse.grading.exercises.capstone.explain_head import Reader
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
wrong("explain_head", "no such head", Reader((0, -1, "previous")))
wrong("explain_head", "another form", Reader((0, 1)))
wrong("explain_head", "look at previous", Reader((0, 1, "spread")))
