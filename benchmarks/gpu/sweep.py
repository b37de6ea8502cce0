"""Tiles of different sizes against each other: what `tiles.TILES` and `hopper.TILES` should hold."""

import importlib
from functools import cache, partial
from typing import NamedTuple

import torch

from attncourse.variants.flash.tiles import Tile, tiles_for
from gpu import card
from gpu.candidates import SETTINGS, Case, gluon, must_agree, tensors
from gpu.jobs import each
from gpu.ladder import LENGTH

ROWS, COLUMNS = "query gradient", "key and value gradient"
KERNELS = {
    "triton": ("forward", ROWS, COLUMNS),
    "descriptors": ("descriptors",),
    "hopper": ("hopper",),
    "gluon": ("gluon",),
}
# (rows, columns, warps, stages); of Gluon (columns, stages, groups of 64 rows). Those in use are added.
TRIED = {
    "forward": ((128, 64, 4, 3), (128, 64, 8, 2), (128, 64, 8, 3), (128, 64, 8, 4), (128, 128, 8, 2),
                (128, 128, 8, 3), (64, 64, 4, 3), (64, 64, 4, 4), (64, 128, 4, 2), (128, 32, 4, 4)),
    ROWS: ((128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (64, 128, 4, 2),
           (128, 32, 8, 4)),
    COLUMNS: ((64, 128, 8, 2), (64, 128, 8, 3), (64, 64, 4, 3), (32, 128, 8, 3), (128, 64, 8, 2),
              (32, 64, 4, 4)),
    "descriptors": ((128, 128, 8, 2), (128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 4, 3), (64, 128, 4, 2)),
    "hopper": ((128, 128, 4, 2), (128, 128, 4, 3), (128, 64, 4, 3), (128, 64, 4, 4)),
    "gluon": ((128, 2, 2), (128, 3, 2), (64, 3, 2), (64, 4, 2), (128, 2, 3), (64, 3, 3), (256, 2, 2)),
}  # fmt: skip


class Trial(NamedTuple):
    """One kernel with one tile, for one width and one rule."""

    kernel: str
    tile: tuple
    head_dim: int
    is_causal: bool


def module(name: str):
    return importlib.import_module(f"attncourse.variants.flash.{name}")


def widest(table: dict, head_dim: int) -> tuple:
    """The entry of a table that is kept by the widest head."""
    return tuple(table[min(width for width in table if width >= head_dim)])


def in_use(kernel: str, head_dim: int, is_causal: bool) -> tuple | None:
    """What is taken for numbers of two bytes on this card if no tile is named; `None` if it is not in use."""
    if kernel == "descriptors":
        return None
    if kernel == "hopper":
        return widest(module("hopper").TILES, head_dim)
    if kernel == "gluon":
        return widest(gluon().SETTINGS, head_dim)[:3]
    query = torch.empty(0, head_dim, dtype=card.narrow(), device=card.device())
    return tuple(tiles_for(query, query, is_causal)[KERNELS["triton"].index(kernel)])


def entries(names) -> list[Trial]:
    """What is tried; settings stay together, because the inputs are kept for one."""
    found = []
    for setting in SETTINGS:
        for kernel in (kernel for name in names for kernel in KERNELS.get(name, ())):
            tiles = dict.fromkeys(filter(None, (in_use(kernel, *setting), *TRIED[kernel])))
            found += [Trial(kernel, tile, *setting) for tile in tiles]
    return found


def goal(trial: Trial) -> tuple:
    return "tiles", trial[:2], trial[2:]


def call(trial: Trial, qkv: list, grad, saved: tuple):
    """A function that runs the kernel with this tile; for a gradient, both kernels of the backward pass.

    Args:
        saved: output and log-sum-exp, which the backward pass needs.
    """
    rule = (trial.head_dim**-0.5, trial.is_causal)
    if trial.kernel == "gluon":
        return partial(gluon().forward, *qkv, *rule, setting=gluon().Setting(*trial.tile))
    tile = Tile(*trial.tile)
    if trial.kernel in ("hopper", "descriptors"):
        specialize = trial.kernel == "hopper"
        return partial(module("hopper").forward, *qkv, *rule, tile=tile, specialize=specialize)
    kernels = module("kernels")
    if trial.kernel == "forward":
        return partial(kernels.forward, *qkv, *rule, tile=tile)
    pair = {kernel: in_use(kernel, *trial[2:]) for kernel in (ROWS, COLUMNS)} | {trial.kernel: tile}
    tiles = tuple(Tile(*x) for x in pair.values())
    grads = (grad, torch.zeros_like(saved[1]))
    return partial(kernels.backward, *grads, *qkv, *saved, *rule, tiles=tiles)


def prepare(case: Case) -> tuple:
    qkv, grad = tensors(case.shape)
    qkv = [x.detach() for x in qkv]
    return qkv, grad, module("kernels").forward(*qkv, case.head_dim**-0.5, case.is_causal)


def compiled(todo: list[Trial]):
    """Yield (("ready", trial, None), True) for what compiles and runs on a small problem.

    Triton keeps what it compiled on the disk, so several processes can compile for the one that times.
    """

    def attempt(trial: Trial):
        small = Case(*trial[2:], length=256, tokens=256, width=trial.head_dim)
        call(trial, *prepare(small))()
        yield ("ready", trial, None), True

    yield from each(todo, goal, attempt)


@cache
def problem(head_dim: int, is_causal: bool) -> tuple:
    """Inputs, and what the kernels are to give: (output, log-sum-exp), and the three gradients."""
    problem.cache_clear()
    data = prepare(Case(head_dim, is_causal, LENGTH))
    usual = Trial(ROWS, in_use(ROWS, head_dim, is_causal), head_dim, is_causal)
    return data, data[2], call(usual, *data)()


def measure(trial: Trial):
    data, forward, gradients = problem(*trial[2:])
    run = call(trial, *data)
    must_agree(run(), gradients if trial.kernel in (ROWS, COLUMNS) else forward)
    yield ("in use", trial.kernel, trial[2:]), in_use(trial.kernel, *trial[2:])
    yield goal(trial), card.milliseconds(run, 15, 60)


def job(todo: list[Trial]):
    """Yield (("tiles", (kernel, tile), setting), milliseconds), and (("in use", kernel, setting), tile)."""
    yield from each(todo, goal, measure)
