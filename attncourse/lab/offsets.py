"""A task in which a token decides how far away another one is read: the one that asks, or the one that answers."""

import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor

from attncourse.lab.data import IGNORE, Batch, random_tokens


def typed_offset(
    generator: Generator,
    batch: int = 64,
    length: int = 16,
    letters: int = 16,
    types: int = 3,
    calling: float = 0.0,
) -> Batch:
    """Report a letter 1, 2 or 3 places back: the type of a token says how many, or that of the letter does.

    A token is letter + letters * (type - 1), so there are letters * types tokens that *look back*: each reports the
    letter that stands type places before it. As many more *call*: a calling token wants to be read type places
    later, and reports the letter that calls it. The answers are letters.

    Args:
        calling: share of the tokens that call. 0: the query's type decides. 1: the type of the key decides.

    Nobody knows the answer, and it is ignored, where nothing stands so far back, or where not exactly one token calls.
    """
    letter = random_tokens(generator, batch, length, letters)
    kind = torch.randint(types, (batch, length), generator=generator)
    calls = torch.rand(batch, length, generator=generator) < calling
    tokens = letter + letters * (kind + types * calls)
    read = typed_offset_map(tokens, letters, types)
    targets = letter.gather(1, read.int().argmax(-1)).masked_fill(~read.any(-1), IGNORE)
    return Batch((tokens,), targets)


def typed_offset_map(
    tokens: Int[Tensor, "b n"], letters: int = 16, types: int = 3
) -> Bool[Tensor, "b n m"]:
    """``True`` where `typed_offset` must look; rows whose answer is ignored have none."""
    kind = tokens // letters
    offset, calls = kind % types + 1, kind >= types
    at = torch.arange(tokens.size(1))
    distance = at[:, None] - at
    back = distance == offset[:, :, None]
    called = (distance == offset[:, None]) & calls[:, None]
    read = torch.where(calls[:, :, None], called, back)
    return read & (read.sum(-1, keepdim=True) == 1)


def spelled(tokens: Int[Tensor, " n"], letters: int = 16, types: int = 3) -> list[str]:
    """Tokens of `typed_offset` as they are read: ``c2`` looks 2 places back, ``C2`` calls 2 places on."""
    return [
        chr((97 if t < letters * types else 65) + t % letters) + str(t // letters % types + 1)
        for t in tokens.tolist()
    ]
