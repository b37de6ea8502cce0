"""Inputs that find mistakes: ordinary numbers, and scores that are too large for a careless softmax."""

import hashlib
import zlib
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from attncourse.grading.observe import Case

TWISTER = slice(3, 627)  # where the state of a torch.Generator holds its 624 words


def seeded(seed: int, *labels: object) -> torch.Generator:
    """A generator for these labels; from one label nothing follows about another.

    torch takes 64 bits of a seed at most, and its numbers come from 32 of them: all of these can be tried in
    a minute. A seed of 64 bits or more, as the grader of a class draws it, therefore fills the whole state of
    the Mersenne Twister, by SHAKE-256. A smaller one, as in `check`, is for repeating, not for hiding.
    """
    generator, name = torch.Generator(), "\n".join(map(str, labels))
    if seed.bit_length() < 64:
        return generator.manual_seed(seed + zlib.crc32(name.encode()))
    state = generator.manual_seed(0).get_state()
    words = state.view(torch.int64)[TWISTER]
    drawn = hashlib.shake_256(f"{seed}\n{name}".encode()).digest(4 * len(words))
    words.copy_(torch.frombuffer(bytearray(drawn), dtype=torch.uint32))
    return generator.set_state(state)


def normal(generator: torch.Generator, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Normal numbers of these shapes."""
    return [torch.randn(shape, generator=generator) for shape in shapes]


def sized_cases(seed: int, letters: str, shapes: str, calls: Iterable[tuple]) -> list[Case]:
    """Cases from a table of sizes.

        sized_cases(seed, "b n m d", "b n d, b m d", [("large scores", (2, 3, 5, 4), 900, True)])

    Args:
        seed: of all numbers.
        letters: of the sizes, in the order of the table.
        shapes: of the tensors, in letters; the first two are query and key.
        calls: (what is special, the sizes, how loud, further arguments ...). Loud is a factor on the
            query, or a function that changes query and key. float32 rounds large scores, and the
            gradients with them: unless loud is 1 only the results are compared.
    """
    generator, names = seeded(seed), letters.split()
    axes = [shape.split() for shape in shapes.split(",")]

    def arguments(sizes: tuple[int, ...], loud: float | Callable, rest: list) -> tuple:
        size = dict(zip(names, sizes, strict=True))
        query, key, *others = normal(generator, *(tuple(size[x] for x in one) for one in axes))
        if callable(loud):
            loud(query, key)
        else:
            query *= loud
        return query, key, *others, *rest

    return [
        Case(what, arguments(sizes, loud, rest), gradients=loud == 1)
        for what, sizes, loud, *rest in calls
    ]


def alternating(query: Tensor, key: Tensor) -> None:
    """Make the scores of the queries about 768 and -768 in turn (head_dim 4): exp has no number for them."""
    query[..., 0] = 24.0 * (-1.0) ** torch.arange(query.size(-2))
    key[..., 0] = 64.0


def far_below_zero(query: Tensor, key: Tensor) -> None:
    """Make score (i, j) -(2**27 + 2**10 j) (head_dim 16), exactly: below -1e8, and people hide with less.

    The first key takes all weight, so that what float32 rounds of such scores makes no difference.
    """
    query.fill_(-(2.0**13))
    key.fill_(2.0**12)
    key[..., 0] += 0.5 * torch.arange(key.size(-2))


def far_from_zero(query: Tensor, key: Tensor) -> None:
    """The scores of `far_below_zero`, and every other query has them above zero."""
    far_below_zero(query, key)
    query[..., 1::2, :] *= -1
