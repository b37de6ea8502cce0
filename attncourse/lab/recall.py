"""Associative recall: pairs of a key and a value are read, then keys alone, and their values are asked for."""

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from attncourse.lab.data import IGNORE, Batch


def recall(
    generator: Generator,
    batch: int = 64,
    pairs: int = 16,
    writes: int | None = None,
    keys: int = 128,
    values: int = 32,
) -> Batch:
    """Read pairs of a key and a value, one pair a token; then say the value of each key.

        (c 4) (a 2) (f 4) : (a ?) (f ?) (c ?)  ->  2 4 4

    A token is key * (values + 1) + value, and the value ``values`` asks. There are ``writes`` + ``pairs`` tokens;
    the targets of the pairs are ignored. Who remembers nothing is right once in ``values`` times.

    Args:
        pairs: different keys of a sample, each asked for once, in an order of its own.
        writes: pairs that are read; ``None`` means ``pairs``, every key once. More: keys come again with
            another value drawn, anywhere, and the last value counts.
        keys: different keys there are, at least ``pairs``; only some occur in a sample.
        values: different values there are, any of them several times.

    Source: arora2024, multi-query associative recall; there a pair is two tokens.
    Chapter: 18_linear, 19_gated_delta.
    """
    writes = pairs if writes is None else writes
    own_keys = torch.rand(batch, keys, generator=generator).argsort(-1)[:, :pairs]
    again = torch.randint(pairs, (batch, writes - pairs), generator=generator)
    written = torch.cat([torch.arange(pairs).expand(batch, -1), again], dim=1)
    written = written.gather(1, torch.rand(batch, writes, generator=generator).argsort(-1))
    value = torch.randint(values, (batch, writes), generator=generator)
    read = own_keys.gather(1, written) * (values + 1) + value
    asked = own_keys * (values + 1) + values
    # The last write of pair p is the one with the largest time among those that write p.
    time = (written[:, None] == torch.arange(pairs)[:, None]) * torch.arange(1, writes + 1)
    targets = torch.full((batch, writes + pairs), IGNORE)
    targets[:, writes:] = value.gather(1, time.argmax(-1))
    return Batch((torch.cat([read, asked], dim=1),), targets)


def written_times(tokens: Int[Tensor, "b n"], values: int = 32) -> Int[Tensor, "b n"]:
    """How many pairs before a token have its key: for a question of `recall`, how often its key was written."""
    key, is_pair = tokens // (values + 1), tokens % (values + 1) < values
    same = (key[:, :, None] == key[:, None]) & is_pair[:, None]
    return same.tril(-1).sum(-1)
