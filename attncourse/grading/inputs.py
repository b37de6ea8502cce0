"""Random inputs: ordinary numbers, and scores that are too large for a careless softmax."""

import hashlib
import zlib
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from attncourse.grading.observe import Case

TWISTER = slice(3, 627)  # where the state of a torch.Generator holds its 624 words


def seeded(seed: int, *labels: object) -> torch.Generator:
    """A generator for these labels; the numbers of one label reveal nothing about those of another.

    torch takes at most 64 bits of a seed and uses 32 of them, which can all be tried in a minute.
    So a seed of 64 bits or more, as the grader of a class draws it, fills the whole state of the
    Mersenne Twister by SHAKE-256. A smaller seed, as in `check`, is repeatable and hides nothing.
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
        seed: seed of all numbers.
        letters: names of the sizes, in the order of the table.
        shapes: shapes of the tensors, in letters; the first two are query and key.
        calls: (title, sizes, loud, further arguments ...). ``loud`` is a factor on the query, or a
            function that changes query and key. float32 rounds large scores and their gradients, so
            gradients are compared only where ``loud`` is 1.
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
    """Scores of about 384 and -384 in turn (head_dim 4), for which exp overflows or is 0."""
    query[..., 0] = 12.0 * (-1.0) ** torch.arange(query.size(-2))
    key[..., 0] = 64.0


def far_below_zero(query: Tensor, key: Tensor) -> None:
    """Scores of exactly -(2**27 + 2**14 j) (head_dim 16): below -1e8, which often masks.

    They are more than 10,000 apart, which is added where a mask is weak. The first key takes all
    weight, so rounding of such scores in float32 makes no difference.
    """
    query.fill_(-(2.0**13))
    key.fill_(2.0**12)
    key[..., 0] += 8.0 * torch.arange(key.size(-2))


def far_from_zero(query: Tensor, key: Tensor) -> None:
    """The scores of `far_below_zero`; for every other query with the opposite sign."""
    far_below_zero(query, key)
    query[..., 1::2, :] *= -1
