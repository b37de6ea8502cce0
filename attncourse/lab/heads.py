"""What a head does, read from its maps: where its weight lies, and what is lost without it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from attncourse.layers import MultiHeadAttention

CLOSES = {")": "(", "]": "[", "}": "{", '"': '"'}


def share(weights: Float[Tensor, "b h n m"], target: Bool[Tensor, "*b n m"]) -> Float[Tensor, " h"]:
    """The share of each head's weight that lies on the targets, over the queries that have one.

        share(h) = mean of sum_j weights(b, h, i, j) target(b, i, j)     over (b, i) with a target

    Args:
        weights: maps of one layer; rows sum to 1.
        target: where a head of this kind looks; other queries do not count. Without any: NaN.

    Cost: b h n m products.
    Chapter: 03_multi_head.
    """
    target = target.expand(weights.size(0), *weights.shape[2:])
    asked = target.any(-1)
    return (weights * target[:, None]).sum(-1).transpose(1, 2)[asked].mean(0)


def even(target: Bool[Tensor, "*b n n"]) -> float:
    """`share` of a causal head that spreads its weight evenly: what comes without any skill."""
    n = target.size(-1)
    spread = torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None]
    target = target.reshape(-1, n, n)
    return share(spread.expand(len(target), 1, n, n), target).item()


def previous(n: int) -> Bool[Tensor, "n n"]:
    """``True`` on the token before the query."""
    return torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1)


def start(n: int) -> Bool[Tensor, "n n"]:
    """``True`` on position 0, for every query but that at 0, which can read nothing else."""
    target = torch.zeros(n, n, dtype=torch.bool)
    target[1:, 0] = True
    return target


def copies(tokens: Int[Tensor, "b n"]) -> Bool[Tensor, "b n n"]:
    """``True`` on earlier copies of the query's own token."""
    return (tokens[:, :, None] == tokens[:, None]).tril(-1)


def followers(tokens: Int[Tensor, "b n"]) -> Bool[Tensor, "b n n"]:
    """``True`` on the tokens that came right after an earlier copy: where an induction head looks.

    A follower that is the query itself does not count: to read oneself takes no search.
    """
    return copies(tokens).roll(1, -1).tril(-1)


def openings(labels: list[str]) -> Bool[Tensor, "n n"]:
    """``True`` on the bracket or quote that encloses the query and is still open; the innermost."""
    target = torch.zeros(len(labels), len(labels), dtype=torch.bool)
    opened: list[int] = []
    for i, label in enumerate(labels):
        if opened and labels[opened[-1]] == CLOSES.get(label):
            opened.pop()
            continue
        if opened:
            target[i, opened[-1]] = True
        if label in CLOSES.values():
            opened.append(i)
    return target


def twice(generator: Generator, batch: int, length: int, vocab: int) -> Int[Tensor, "b n"]:
    """Passages that begin with token 0, then ``length`` different random tokens, and the same again."""
    drawn = torch.stack([torch.randperm(vocab - 1, generator=generator) for _ in range(batch)])
    block = 1 + drawn[:, :length]
    return torch.cat([torch.zeros(batch, 1, dtype=torch.long), block, block], dim=1)


@contextmanager
def silenced(layer: MultiHeadAttention, head: int) -> Iterator[None]:
    """Without one head: inside ``with``, its columns of W^O are 0, so what it says reaches nothing."""
    weight = layer.out_proj.weight.data
    head_dim = weight.size(1) // layer.num_heads
    columns = weight[:, head * head_dim : (head + 1) * head_dim]
    own = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(own)
