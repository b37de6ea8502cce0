"""Models that copy what stood three places back, weights set by hand, so that a check stays quick."""

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

VOCAB, SPAN = 16, 8


def hot(tokens: Tensor) -> Tensor:
    """Tokens as rows of 0 and a single 1."""
    return one_hot(tokens, VOCAB).float()


class Copier(nn.Module):
    """One attention layer over one-hot tokens, in steps; a mistake replaces one of them.

    Args:
        scores: (tokens (b, n), numbers) -> scores, (n, m) or (b, n, m). ``numbers`` is a parameter.
        numbers: the parameter of the scores.
        before, after: what happens to the tokens, and to the logits.
        learned: the numbers and the two tables of tokens are parameters; else buffers.
    """

    def __init__(self, scores, numbers, before=lambda t: t, after=lambda y, t: y, learned=True):
        super().__init__()
        for name, x in (
            ("numbers", numbers),
            ("say", 9 * torch.eye(VOCAB)),
            ("token", torch.eye(VOCAB)),
        ):
            self.register_parameter(
                name, nn.Parameter(x.clone())
            ) if learned else self.register_buffer(name, x.clone())
        self.scores, self.before, self.after = scores, before, after

    def forward(self, tokens):
        seen = self.before(tokens)
        weights = self.scores(seen, self.numbers).softmax(-1)
        return self.after(weights @ self.token[seen] @ self.say, tokens)


def distance(n: int) -> Tensor:
    """i - j for all pairs."""
    return torch.arange(n)[:, None] - torch.arange(n)


def by_bias(tokens: Tensor, table: Tensor, span: int = SPAN) -> Tensor:
    """A number for each clipped distance."""
    return table[distance(tokens.size(1)).clamp(-span, span) + span]


def by_table(tokens: Tensor, table: Tensor) -> Tensor:
    """Queries and a table of positions, (vocabulary, 2 span + 1): the query's product with the row of the distance."""
    index = distance(tokens.size(1)).clamp(-SPAN, SPAN) + SPAN
    return table[tokens].gather(2, index.expand(len(tokens), -1, -1))


def by_hill(tokens: Tensor, where: Tensor) -> Tensor:
    """The nearer a distance is to the one that is learned, the more."""
    return -where[1].square() * (distance(tokens.size(1)) - where[0]).square()


def by_waves(tokens: Tensor, turn: Tensor) -> Tensor:
    """Sines and cosines of the places, those of the query turned by learned angles."""
    speed = 0.05 + torch.arange(24) / 8
    angle = torch.arange(tokens.size(1))[:, None] * speed
    query = torch.cat([(angle + turn).cos(), (angle + turn).sin()], -1)
    return 3 * query @ torch.cat([angle.cos(), angle.sin()], -1).T


WAVES = -3 * (0.05 + torch.arange(24) / 8)


def by_rows(tokens: Tensor, rows: Tensor, place=lambda i: i) -> Tensor:
    """Absolute positions: a learned row for each place, and the row of the place three back asks for it."""
    i = place(torch.arange(tokens.size(1)))
    return rows[i] @ torch.eye(rows.size(0))[:, i]


def bias_at(back: int, strength: float = 20.0, span: int = SPAN) -> Tensor:
    """A table that prefers one distance."""
    return strength * (torch.arange(-span, span + 1) == back).float()


def rows_of(places: int, known: int | None = None) -> Tensor:
    """Place i asks for place i - 3, in those that were trained; the others are as they were drawn."""
    rows = 20 * torch.diag(torch.ones(places - 3), -3)
    if known is not None:
        rows[known:] = torch.randn(
            places - known, places, generator=torch.Generator().manual_seed(1)
        )
    return rows


class Convolution(nn.Module):
    """A convolution that is four wide is relative, too."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Conv1d(VOCAB, VOCAB, 4, bias=False)
        self.kernel.weight.data = 9 * torch.eye(VOCAB)[..., None] * torch.tensor([1.0, 0, 0, 0])

    def forward(self, tokens):
        return self.kernel(pad(hot(tokens).mT, (3, 0))).mT


class Rows(nn.Module):
    """Embeddings of tokens and of 16 absolute places, as everybody writes it first."""

    def __init__(self, places=16):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCAB, VOCAB), nn.Embedding(places, places)
        self.token.weight.data, self.place.weight.data = 9 * torch.eye(VOCAB), torch.eye(places)
        self.ask = nn.Parameter(rows_of(places))

    def forward(self, tokens):
        place = self.place(torch.arange(tokens.size(1)))
        return (place @ self.ask @ place.T).softmax(-1) @ self.token(tokens)
