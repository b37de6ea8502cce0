"""The race: our kernels against torch's, forward and backward, at three lengths."""

from functools import cache, partial

import torch

from gpu import card
from gpu.candidates import FLEX, SETTINGS, Case, attend, must_agree, reference, tensors, trains
from gpu.jobs import each

LENGTHS = (2048, 8192, 16384)
KEY_LENGTHS = (2048, 8192)  # those of the ratios


def entries(names, lengths=LENGTHS) -> list[tuple[str, Case]]:
    """Who runs what; cases stay together, because the inputs and the expected results are kept for one."""
    cases = [Case(*setting, n) for n in lengths for setting in SETTINGS]
    return [(name, case) for case in cases for name in names if takes_part(name, case)]


def takes_part(name: str, case: Case) -> bool:
    """Compiling FlexAttention costs seconds a case, and MATH stores the scores, in float32, six times."""
    if name == FLEX:
        return case.length in KEY_LENGTHS
    b, h, n, _ = case.shape
    return name != "MATH" or card.fits(6 * 4 * b * h * n * n)


def goal(entry: tuple) -> tuple:
    name, case = entry
    return "backward" if trains(name) else "forward", case, name


@cache
def problem(case: Case) -> tuple:
    problem.cache_clear()  # of the case before, whose tensors fill the card
    qkv, grad = tensors(case.shape)
    return qkv, grad, reference(qkv, grad, case.is_causal)


def measure(entry: tuple):
    """Forward as in training, keeping what backward needs; then backward alone."""
    name, case = entry
    qkv, grad, expected = problem(case)
    run = attend(name, case.length, case.is_causal)
    output = run(*qkv)
    must_agree([output.detach()], expected[:1])
    yield ("forward", case, name), card.milliseconds(lambda: run(*qkv))
    if trains(name):
        backward = partial(torch.autograd.grad, output, qkv, grad, retain_graph=True)
        must_agree(backward(), expected[1:])
        yield ("backward", case, name), card.milliseconds(backward)


def job(todo: list[tuple]):
    """Yield ((table, case, name), (milliseconds, 20th and 80th percentile)) of "forward" and "backward"."""
    yield from each(todo, goal, measure)
