"""Time and memory by the length of the sequence: what grows with its square, and what does not."""

from functools import partial

import torch

from gpu import card
from gpu.candidates import FUSED, attend, must_agree, reference, tensors
from gpu.jobs import each
from gpu.ladder import five_steps

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
QUICK = (1024, 4096)
HEADS, HEAD_DIM = 16, 128
PLAIN = "five steps in PyTorch"
NAMES = (PLAIN, "tiled", "triton", *FUSED, "MATH")


def entries(names, lengths=LENGTHS) -> list[tuple[str, int]]:
    """Where every score is kept, several matrices of n x n numbers are alive at once."""
    nbytes = {PLAIN: 5 * 2, "MATH": 6 * 4}
    fits = lambda name, n: card.fits(nbytes.get(name, 0) * HEADS * n * n)  # noqa: E731
    return [(name, n) for n in lengths for name in names if fits(name, n)]


def goal(entry: tuple) -> tuple:
    name, length = entry
    return "memory_by_length", length, name


def measure(entry: tuple):
    """One sample, causal: the forward pass alone, both passes, and the most memory that both hold."""
    name, n = entry
    qkv, grad = tensors((1, HEADS, n, HEAD_DIM))
    run = partial(five_steps, is_causal=True) if name == PLAIN else attend(name, n, True)
    both = lambda: torch.autograd.grad(run(*qkv), qkv, grad)  # noqa: E731
    must_agree([run(*qkv).detach(), *both()], reference(qkv, grad, True))
    yield ("speed_by_length", n, name), card.milliseconds(lambda: run(*qkv), 15, 60)
    yield ("time_by_length", n, name), card.milliseconds(both, 15, 60)
    yield goal(entry), round(card.peak_mib(both), 1)


def job(todo: list[tuple]):
    """Yield the three measurements of each entry (candidate, length)."""
    yield from each(todo, goal, measure)
