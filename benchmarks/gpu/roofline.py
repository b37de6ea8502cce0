"""Operations per byte that must move, the speed that is reached, and what the card can do at most."""

from typing import NamedTuple

import torch

from gpu import card
from gpu.candidates import attend
from gpu.jobs import each
from gpu.ladder import five_steps

HEADS, HEAD_DIM = 16, 128
SIDE, NUMBERS = 8192, 2**28  # of the matrices that are multiplied; of the vector that is copied
PEAKS = ("product, TFLOP/s", "copy, TB/s", "softmax, TB/s")
PLAIN = "five steps in PyTorch"


class Load(NamedTuple):
    """b samples ask n queries of m keys."""

    name: str
    b: int
    n: int
    m: int


LOADS = (
    Load("prefill of 8192", 1, 8192, 8192),
    Load("prefill of 1024", 1, 1024, 1024),
    Load("128 tokens after 8192", 8, 128, 8192),
    Load("one token after 8192", 64, 1, 8192),
)


def entries(names) -> list[tuple]:
    return [("peaks", peak) for peak in PEAKS] + [(x, load) for load in LOADS for x in names]


def goal(entry: tuple) -> tuple:
    name, what = entry
    return (
        ("peaks", what, "value") if name == "peaks" else ("roofline", (what.name, name), "reached")
    )


def peak(what: str) -> float:
    """The speed of an operation that does one thing only."""
    draw = lambda *shape: torch.randn(shape, device=card.device()).to(card.narrow())  # noqa: E731
    if what == "product, TFLOP/s":
        a, b = draw(SIDE, SIDE), draw(SIDE, SIDE)
        return 2 * SIDE**3 / card.milliseconds(lambda: a @ b)[0] / 1e9
    x = draw(NUMBERS // SIDE, SIDE)
    y = torch.empty_like(x)
    run = (lambda: y.copy_(x)) if what == "copy, TB/s" else (lambda: x.softmax(-1))
    return 2 * x.nbytes / card.milliseconds(run)[0] / 1e9


def counted(load: Load, name: str) -> tuple[float, float]:
    """Operations, and bytes to and from memory: inputs and output once, and all scores where they are kept.

    Scores are then written and read, scaled, written and read, and written and read as weights.
    """
    heads = load.b * HEADS
    moved = 2 * heads * (2 * load.n + 2 * load.m) * HEAD_DIM
    kept = 2 * heads * load.n * load.m * 6 if name == PLAIN else 0
    return 4 * heads * load.n * load.m * HEAD_DIM, moved + kept


def measure(entry: tuple):
    name, what = entry
    if name == "peaks":
        yield goal(entry), round(peak(what), 3)
        return
    sizes = ((what.b, HEADS, length, HEAD_DIM) for length in (what.n, what.m, what.m))
    qkv = [torch.randn(size, device=card.device()).to(card.narrow()) for size in sizes]
    run = five_steps if name == PLAIN else attend(name, what.m, False)
    (work, moved), ms = counted(what, name), card.milliseconds(lambda: run(*qkv))[0]
    yield (
        goal(entry),
        (round(work / moved, 1), round(work / ms / 1e9, 2), round(moved / ms / 1e9, 3)),
    )


def job(todo: list[tuple]):
    """Yield ("peaks", what, "value") and, of ("roofline", (load, candidate), "reached"), three numbers:
    operations per byte, TFLOP/s, TB/s.
    """
    yield from each(todo, goal, measure)
