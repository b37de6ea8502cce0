"""The text of the capstone, Python's own manual; a model of it by hand, and what its heads do."""

from functools import cache
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.compare import plain
from attncourse.grading.inputs import seeded
from attncourse.grading.trained import Unlike, kind_of

CHARACTERS, WINDOW, MOST = 128, 64, 400_000
EARLIER = "are they of an earlier call? Run the model first, then collect what its blocks have kept"
USED = "return those that attention has used, behind mask and softmax"


@cache
def manual() -> tuple[Tensor, Tensor]:
    """What is read in training, and what is held out, as characters from 0 to 127."""
    text = "\n".join(topics[name] for name in sorted(topics))
    tokens = torch.tensor(list(text.encode("ascii", "ignore")))
    cut = len(tokens) - len(tokens) // 10
    return tokens[:cut], tokens[cut:]


@cache
def pairs() -> Tensor:
    """Log-probabilities of each character behind each other one, (128, 128)."""
    text = manual()[0]
    counts = torch.full((CHARACTERS, CHARACTERS), 0.1)
    counts.index_put_((text[:-1], text[1:]), torch.ones(len(text) - 1), accumulate=True)
    return (counts / counts.sum(1, keepdim=True)).log()


def passages(seed: int, count: int = 24, learned: bool = False) -> Tensor:
    """What is held out, (count, 65): inputs but for the last character, targets from the second.

    With ``learned``, what is to be learned from instead.
    """
    text = manual()[not learned]
    starts = torch.randint(len(text) - WINDOW, (count, 1), generator=seeded(seed))
    return text[starts + torch.arange(WINDOW + 1)]


def characters(seed: int) -> Tensor:
    """The inputs of these passages."""
    return passages(seed)[:, :-1]


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

    KINDS = 24  # of the first character: so many remainders

    def __init__(self, recent: float = 1.0, known: float = 1.0):
        super().__init__()
        text, counts = manual()[0], torch.zeros(self.KINDS, CHARACTERS, CHARACTERS)
        places, ones = (text[:-2] % self.KINDS, text[1:-1], text[2:]), torch.ones(len(text) - 2)
        counts.index_put_(places, ones, accumulate=True)
        logs = (counts + 2 * pairs().exp() + 1e-3).log()
        self.table = nn.Parameter(known * logs.log_softmax(-1))
        self.recent = nn.Parameter(torch.tensor([recent]))

    def forward(self, tokens):
        before = nn.functional.pad(tokens[:, :-1], (1, 0)) % self.KINDS
        seen = nn.functional.one_hot(tokens, CHARACTERS).to(self.recent).cumsum(1)
        return self.table[before, tokens] + self.recent * seen / seen.sum(-1, keepdim=True)


class Reader(Table):
    """The table, and a layer of heads of which each reads so many characters back."""

    def __init__(self, claim):
        super().__init__()
        self.claim, self.back = claim, nn.Parameter(9 * torch.eye(3))  # head, distance

    def forward(self, tokens):
        at = torch.arange(tokens.size(1))
        apart = at[:, None] - at
        scores = self.back[:, apart.clamp(0, 2)].masked_fill(apart < 0, -torch.inf)
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


def maps_of(result: Any, tokens: Tensor) -> Tensor:
    """The weights of all layers in one tensor, (layers, b, heads, n, n).

    Raises:
        Unlike: there is no map for each layer and sample, of as many heads in each layer.
    """
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Unlike(f"another call returns {kind_of(result)}")
    weights, (b, n) = result[1], tokens.shape
    several = weights if isinstance(weights, Tensor | tuple | list) else ()
    shapes = {tuple(x.shape) if plain(x) else kind_of(x) for x in several}
    if len(shapes) != 1 or isinstance(next(iter(shapes)), str):
        came = ", ".join(map(kind_of, several)) or kind_of(weights)
        told = f"give a list with a tensor for each layer, all of one shape; it holds {came:.80}"
        raise Unlike(told + f"; {EARLIER}" * (len(shapes) > 1))
    (shape,) = shapes
    if len(shape) != 4 or shape[2:] != (n, n):
        mean = "; is it the mean of the heads?" * (shape == (b, n, n))
        raise Unlike(f"their shape is {shape}, with b = {b} and n = {n}{mean}")
    if shape[0] != b:
        raise Unlike(f"their shape is {shape}, with b = {b}; {EARLIER}")
    return torch.stack([x.detach().double() for x in several])


def own_maps(maps: Tensor) -> bool | str:
    """True where no head has the mean of the others of its layer, and no layer is there twice."""
    for i, layer in enumerate(maps):
        if any((layer - other).abs().max() < 1e-6 for other in maps[:i]):
            return f"those of layer {i} are there twice"
    rest = (maps.sum(2, keepdim=True) - maps) / (maps.size(2) - 1)  # NaN where there is one head
    if len(same := ((maps - rest).abs().amax((1, 3, 4)) < 1e-6).nonzero()):
        i, h = same[0].tolist()
        return f"no; head {h} of layer {i} has the mean of the other heads of its layer"
    return True


def rows_of(maps: Tensor) -> bool | str:
    """True where the rows are weights of a causal attention."""
    sums, columns = maps.sum(-1), maps.sum(-2)
    if (abs(sums - 1) < 1e-3).all():
        return bool(maps.triu(1).max() < 1e-6) or f"later characters have some; {USED}"
    if (abs(columns - 1) < 1e-3).all():
        return "columns do; a row is a position that reads, a column one that is read"
    return f"the sums go from {sums.min():.3g} to {sums.max():.3g}; {USED}"
