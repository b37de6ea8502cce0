"""The text of the capstone, Python's own manual; a model of it by hand, and what its heads do."""

from functools import cache
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn

CHARACTERS, WINDOW = 128, 64
EARLIER = (
    "they are those of an earlier call; run the model first, then collect what its blocks have kept"
)
LESS = (
    "the sums of some are below 1, as behind a mask that comes after the softmax; hide scores "
    "before it, and return the weights that attention has used"
)
HELD_OUT = 10  # the last tenth


@cache
def manual() -> tuple[Tensor, Tensor]:
    """What is read in training, and what is held out, as characters from 0 to 127."""
    text = "\n".join(topics[name] for name in sorted(topics))
    tokens = torch.tensor(list(text.encode("ascii", "ignore")))
    cut = len(tokens) - len(tokens) // HELD_OUT
    return tokens[:cut], tokens[cut:]


@cache
def pairs() -> Tensor:
    """Log-probabilities of each character behind each other one, (128, 128)."""
    text = manual()[0]
    counts = torch.full((CHARACTERS, CHARACTERS), 0.1)
    counts.index_put_((text[:-1], text[1:]), torch.ones(len(text) - 1), accumulate=True)
    return (counts / counts.sum(1, keepdim=True)).log()


def passages(generator: torch.Generator, count: int, held_out: bool = True) -> Tensor:
    """Passages, (count, 65): inputs are all but the last character, targets all but the first."""
    text = manual()[held_out]
    starts = torch.randint(len(text) - WINDOW, (count, 1), generator=generator)
    return text[starts + torch.arange(WINDOW + 1)]


def loss(logits: Tensor, targets: Tensor) -> float:
    """Mean cross-entropy in nats a character."""
    flat = logits.detach().flatten(0, 1).double().cpu()
    return nn.functional.cross_entropy(flat, targets.flatten()).item()


def of_pairs(tokens: Tensor, targets: Tensor) -> float:
    """The loss of the table of pairs."""
    return loss(pairs()[tokens], targets)


class Table(nn.Module):
    """What follows two characters, counted; and what was written before is a little more likely.

    All that it knows sits in parameters, so that it stands for a trained model.
    """

    KINDS = 40  # the most frequent characters; the others are one kind

    def __init__(self, recent: float = 1.0, known: float = 1.0):
        super().__init__()
        text = manual()[0]
        order = torch.bincount(text, minlength=CHARACTERS).argsort(descending=True)
        kinds = torch.full((CHARACTERS,), self.KINDS - 1)
        kinds[order[: self.KINDS - 1]] = torch.arange(self.KINDS - 1)
        self.register_buffer("kinds", kinds)
        k = kinds[text]
        counts = torch.zeros(self.KINDS, self.KINDS, CHARACTERS)
        places, ones = (k[:-2], k[1:-1], text[2:]), torch.ones(len(text) - 2)
        counts.index_put_(places, ones, accumulate=True)
        table = (counts + 2 * counts.sum(0) / counts.sum((0, 2))[:, None] + 1e-3).log()
        table = known * table.log_softmax(-1)
        self.table, self.recent = nn.Parameter(table), nn.Parameter(torch.tensor([recent]))

    def forward(self, tokens):
        k = self.kinds[tokens]
        before = nn.functional.pad(k[:, :-1], (1, 0))
        seen = nn.functional.one_hot(tokens, CHARACTERS).to(self.recent).cumsum(1)
        return self.table[before, k] + self.recent * seen / seen.sum(-1, keepdim=True)


class Reader(Table):
    """The table, and a layer of heads of which each reads so many characters back."""

    def __init__(self, claim):
        super().__init__()
        self.claim, self.back = claim, nn.Parameter(9 * torch.eye(3))  # head, distance

    def forward(self, tokens):
        at = torch.arange(tokens.size(1))
        apart = at[:, None] - at
        scores = (self.back[:, apart.clamp(0, 2)]).masked_fill(apart < 0, -torch.inf)
        weights = scores.softmax(-1).expand(len(tokens), -1, -1, -1)
        return super().forward(tokens), [weights], self.claim


def measured(maps: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """How much each head does of each description, (layers, heads), between 0 and 1.

    The mean over samples and over the positions from 8 on.
    """
    n = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None]) & torch.ones(n, n).tril(-1).bool()
    entropy = -(maps * maps.clamp_min(1e-12).log()).sum(-1)
    found = {
        "previous": nn.functional.pad(maps.diagonal(-1, -2, -1), (1, 0)),
        "start": maps[..., 0],
        "same": (maps * same[:, None]).sum(-1),
        "spread": entropy.exp() / torch.arange(1, n + 1),
    }
    return {what: x[..., 8:].mean((1, 3)) for what, x in found.items()}


def stacked(weights) -> Tensor:
    """Weights of all layers in one tensor, without their gradients."""
    return torch.stack([x.detach().double() for x in weights])


def layers_of(weights: Any, tokens: Tensor) -> bool | str:
    """True where there is a map for each layer, of as many heads in each."""
    several = isinstance(weights, Tensor | tuple | list)
    shapes = {tuple(getattr(x, "shape", ())) for x in (weights if several else ())}
    if len(shapes) != 1:
        return "give a list with a tensor for each layer, all of one shape"
    b, *axes = shapes.pop()
    if len(axes) == 2:
        return "there are 3 axes, as where heads are averaged; return the weights of each head"
    if len(axes) != 3 or axes[1:] != [tokens.size(1)] * 2:
        return f"their shape is {(b, *axes)}"
    return b == len(tokens) or EARLIER


def rows_of(maps: Tensor) -> bool | str:
    """True where the rows are weights of a causal attention."""
    rows, columns = (abs(maps.sum(k) - 1).max() < 1e-3 for k in (-1, -2))
    if not rows and columns:
        return "columns do; a row is a position that reads, a column one that is read"
    if not maps.isfinite().all() or not rows and (maps.min() < 0 or maps.max() > 1 + 1e-3):
        return "some are no shares from 0 to 1; return the weights, behind the softmax"
    if not rows:
        return LESS if maps.sum(-1).max() < 1 + 1e-3 else "the sums are others"
    hidden = maps.triu(1).max() < 1e-6
    return (
        bool(hidden) or "these are weights without the mask; return those that attention has used"
    )
