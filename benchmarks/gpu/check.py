"""Is a backend right? Output, log-sum-exp and gradients against float64, before anything is timed.

The rule: the largest error is at most twice that of the explicit formula computed in the dtype of the
result, plus a tiny floor. Rounding errors cannot be avoided, but nobody has to make more than PyTorch.
"""

import math
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from gpu import card
from gpu.candidates import lacks, trains, with_lse
from gpu.jobs import each

FLOOR = 1e-5
FACTOR = 2.0
RESULTS = ("output", "lse", "dq", "dk", "dv")
DTYPES = ("bfloat16", "float16", "float32")


class Shape(NamedTuple):
    """Sizes of one case; ``sharp`` multiplies the queries, so that few keys take all the weight."""

    name: str
    b: int
    h: int
    g: int
    n: int
    m: int
    d: int
    e: int
    is_causal: bool = False
    offset: int = 0
    sharp: float = 1.0


SHAPES = (
    Shape("one full tile and more", 2, 2, 2, 256, 384, 64, 64),
    Shape("odd lengths", 2, 3, 3, 197, 331, 64, 64),
    Shape("odd lengths, causal", 1, 3, 3, 331, 197, 128, 128, True),
    Shape("8 heads read 2, ends aligned", 2, 8, 2, 129, 257, 128, 128, True, 128),
    Shape("one query", 3, 8, 2, 1, 1000, 128, 128, True, 999),
    Shape("70 empty rows", 1, 2, 1, 200, 150, 64, 64, True, -70),
    Shape("head_dim 80", 1, 4, 2, 300, 300, 80, 80, True),
    Shape("wider values", 1, 2, 2, 145, 290, 64, 128),
    Shape("head_dim 256", 1, 2, 2, 257, 130, 256, 256, True),
    Shape("large scores", 1, 4, 4, 512, 512, 128, 128, True, 0, 6.0),
    Shape("large", 1, 4, 2, 4096, 4096, 128, 128, True),
    Shape("large, full", 1, 4, 4, 2048, 3072, 64, 64),
)
QUICK = tuple(shape for shape in SHAPES if not shape.name.startswith(("head_dim", "one")))
# For Triton's interpreter, which takes a second for what a card does in a microsecond.
SMALL = (
    Shape("odd lengths", 1, 2, 2, 45, 77, 16, 16),
    Shape("odd lengths, causal", 1, 2, 1, 77, 45, 32, 16, True),
    Shape("ends aligned", 1, 2, 1, 33, 65, 16, 32, True, 32),
    Shape("empty rows", 1, 1, 1, 50, 40, 16, 16, True, -20),
    Shape("large scores", 1, 1, 1, 64, 64, 16, 16, True, 0, 6.0),
)


def explicit(query: Tensor, key: Tensor, value: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp by the formula, in the dtype of the inputs."""
    key, value = (x.repeat_interleave(shape.h // shape.g, dim=1) for x in (key, value))
    i, j = (torch.arange(length, device=query.device) for length in (shape.n, shape.m))
    hidden = (j > i[:, None] + shape.offset) & shape.is_causal
    empty = hidden.all(dim=-1)
    scores = (query @ key.mT / math.sqrt(shape.d)).masked_fill(hidden, -math.inf)
    scores = scores.masked_fill(empty[:, None], 0.0)
    weights = scores.softmax(dim=-1).masked_fill(empty[:, None], 0.0)
    return weights @ value, scores.logsumexp(dim=-1).masked_fill(empty, -math.inf)


def all_results(attend, inputs: list[Tensor], grads: list[Tensor]) -> tuple[Tensor, ...]:
    """Output, log-sum-exp, and the gradients of query, key and value, given those of the first two.

    Of a function that is not differentiable there are two results.
    """
    inputs = [x.detach().requires_grad_() for x in inputs]
    outputs = attend(*inputs)
    if not outputs[0].requires_grad:
        return outputs
    grads = [grad.to(x.dtype) for grad, x in zip(grads, outputs, strict=True)]
    gradients = torch.autograd.grad(outputs, inputs, grads)
    return *(x.detach() for x in outputs), *gradients


def draw(shape: Shape, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs, and gradients of output and log-sum-exp."""
    torch.manual_seed(0)
    b, h, g, n, m, d, e = shape[1:8]
    sizes = ((b, h, n, d), (b, g, m, d), (b, g, m, e), (b, h, n, e), (b, h, n))
    query, key, value, do, dlse = (torch.randn(s, device=card.device()).to(dtype) for s in sizes)
    return [query * shape.sharp, key, value], [do, dlse]


def error(found: Tensor, exact: Tensor) -> float:
    """The largest difference; NaN if there is a NaN."""
    found = found.to(exact.dtype)
    return torch.where(found == exact, 0.0, found - exact).abs().max().item()


def excess(found: tuple, plain: tuple, exact: tuple) -> dict[str, float]:
    """The error of each result in units of PyTorch's own; right is what stays at or below `FACTOR`."""
    return {
        name: error(f, x) / (error(p, x) + FLOOR / FACTOR)
        for name, f, p, x in zip(RESULTS, found, plain, exact, strict=False)  # forward only: two
    }


def verdict(ratios: dict[str, float]) -> float | str:
    """The worst ratio if all are right, else the names of those that are not."""
    wrong = [f"{name} {ratio:.3g}" for name, ratio in ratios.items() if not ratio <= FACTOR]
    return f"wrong: {', '.join(wrong)}" if wrong else round(max(ratios.values()), 2)


@contextmanager
def poisoned():
    """Fresh memory is full of NaN, so that a result which nobody wrote is noticed."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def compare(name: str, shape: Shape, dtype: torch.dtype) -> dict[str, float]:
    """What `excess` says of a candidate."""
    inputs, grads = draw(shape, dtype)
    with poisoned():
        found = all_results(
            lambda *x: with_lse(name, *x, is_causal=shape.is_causal, offset=shape.offset),
            inputs,
            grads,
        )
    assert len(found) == (len(RESULTS) if trains(name) else 2)

    def formula(dtype):
        return all_results(
            lambda *x: explicit(*x, shape),
            [x.to(dtype) for x in inputs],
            [x.to(dtype) for x in grads],
        )

    exact, plain = formula(torch.float64), formula(dtype)
    if dtype != torch.float32:  # every candidate returns the log-sum-exp in float32
        plain = plain[:1] + formula(torch.float32)[1:2] + plain[2:]
    return excess(found, plain, exact)


def entries(names, shapes=SHAPES, dtypes=DTYPES) -> list[tuple[str, Shape, str]]:
    return [(name, shape, dtype) for name in names for dtype in dtypes for shape in shapes]


def goal(entry: tuple) -> tuple:
    name, shape, dtype = entry
    return "correctness", (name, shape.name), dtype


def measure(entry: tuple):
    name, shape, dtype = entry
    offered = not lacks(name, shape.d, shape.e, getattr(torch, dtype))
    yield goal(entry), verdict(compare(name, shape, getattr(torch, dtype))) if offered else None


def job(todo: list[tuple]):
    """Yield (("correctness", (candidate, name of the shape), dtype), verdict) for each entry.

    A text is a failure, and `None` is what the candidate says it cannot do.
    """
    torch.set_float32_matmul_precision("highest")
    yield from each(todo, goal, measure)
