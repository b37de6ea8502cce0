"""The text of the capstone, Python's own manual, what a table of pairs knows of it, and a small model by hand."""

from functools import cache
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn

CHARACTERS, WINDOW = 128, 64
HELD_OUT = 10  # the last tenth


@cache
def manual() -> tuple[Tensor, Tensor]:
    """What may be read in training, and the passages that are held out, as characters from 0 to 127."""
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
    """Passages of 65 characters, (count, 65): inputs are all but the last, targets all but the first."""
    text = manual()[held_out]
    starts = torch.randint(len(text) - WINDOW, (count, 1), generator=generator)
    return text[starts + torch.arange(WINDOW + 1)]


def loss(logits: Tensor, targets: Tensor) -> float:
    """Mean cross-entropy in nats a character."""
    flat = logits.detach().flatten(0, 1).double().cpu()
    return nn.functional.cross_entropy(flat, targets.flatten()).item()


def of_pairs(passage: Tensor) -> float:
    """The loss of the table of pairs."""
    return -pairs()[passage[:, :-1], passage[:, 1:]].mean().item()


class Table(nn.Module):
    """What follows two characters, counted; and what was written before is a little more likely.

    All that it knows sits in parameters, so that it stands for a trained model where a check is tested.
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
