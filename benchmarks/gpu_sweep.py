"""Tiles of different sizes against each other: what `tiles.TILES` and `hopper.TILES` should hold."""

import importlib
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from gpu_apart import in_short
from gpu_speed import HEAD_DIMS, Case, milliseconds, must_agree, tensors

from attncourse.variants.flash.tiles import Tile, tiles_for

LENGTH = 8192
SETTINGS = tuple(product(HEAD_DIMS, (False, True)))  # (head_dim, is_causal)
ROWS, COLUMNS = "query gradient", "key and value gradient"
ALIKE = "hopper unspecialized forward"
# (rows, columns, warps, stages); those in use are added.
TRIED = {
    "triton": {
        "forward": ((128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (128, 128, 8, 3),
                    (64, 64, 4, 3), (64, 128, 4, 2)),
        ROWS: ((128, 64, 8, 2), (128, 64, 8, 3), (128, 64, 4, 2), (64, 64, 4, 3), (64, 128, 8, 2)),
        COLUMNS: ((64, 128, 8, 2), (64, 128, 8, 3), (64, 128, 4, 2), (64, 64, 4, 3), (128, 64, 8, 2)),
    },
    "hopper": {
        "hopper forward": ((128, 128, 4, 2), (128, 128, 4, 3), (128, 64, 4, 3), (128, 64, 4, 4),
                           (64, 128, 4, 2)),
        ALIKE: ((128, 128, 8, 2), (128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 4, 3)),
    },
}  # fmt: skip


class Trial(NamedTuple):
    """One kernel with one tile, for one width and one rule."""

    kernel: str
    tile: tuple
    head_dim: int
    is_causal: bool


def module(name: str):
    return importlib.import_module(f"attncourse.variants.flash.{name}")


def in_use(kernel: str, head_dim: int, is_causal: bool, device: str = "cuda") -> tuple | None:
    """What the package takes by itself for numbers of two bytes on this card."""
    if kernel == ALIKE:
        return None
    if kernel == "hopper forward":
        tiles = module("hopper").TILES
        return tuple(tiles[min(width for width in tiles if width >= head_dim)])
    query = torch.empty(0, head_dim, dtype=torch.bfloat16, device=device)
    tiles = tiles_for(query, query, is_causal)
    return tuple(tiles[("forward", ROWS, COLUMNS).index(kernel)])


def trials(backend: str, device: str = "cuda") -> list[Trial]:
    found = []
    for kernel, tried in TRIED[backend].items():
        used = (in_use(kernel, *setting, device) for setting in SETTINGS)
        for tile in dict.fromkeys(filter(None, (*used, *tried))):
            found += [Trial(kernel, tile, *setting) for setting in SETTINGS]
    return found


def call(trial: Trial, qkv: list, grad, saved: tuple):
    """A function that runs the kernel with this tile; for a gradient, both kernels of the backward pass.

    Args:
        saved: output and log-sum-exp, which the backward pass needs.
    """
    kernels = module("kernels")
    tile, rule = Tile(*trial.tile), (trial.head_dim**-0.5, trial.is_causal)
    if trial.kernel.startswith("hopper"):
        specialize = trial.kernel != ALIKE
        return partial(module("hopper").forward, *qkv, *rule, tile=tile, specialize=specialize)
    if trial.kernel == "forward":
        return partial(kernels.forward, *qkv, *rule, tile=tile)
    pair = {kernel: in_use(kernel, *trial[2:], grad.device) for kernel in (ROWS, COLUMNS)}
    pair[trial.kernel] = tile
    tiles = tuple(Tile(*x) for x in pair.values())
    grads = (grad, torch.zeros_like(saved[1]))
    return partial(kernels.backward, *grads, *qkv, *saved, *rule, tiles=tiles)


def prepare(case: Case, device: str, dtype: torch.dtype) -> tuple:
    qkv, grad = tensors(case, device, dtype)
    qkv = [x.detach() for x in qkv]
    saved = module("kernels").forward(*qkv, case.head_dim**-0.5, case.is_causal)
    return qkv, grad, saved


def compiled(todo: list[Trial], device: str = "cuda", dtype: torch.dtype = torch.bfloat16):
    """Yield (("ready", trial, None), True) for what compiles and runs on a small problem.

    Triton keeps what it compiled on the disk, so several processes can compile for the one that times.
    """
    for trial in todo:
        small = Case(*trial[2:], length=256, tokens=256, width=trial.head_dim)
        data = prepare(small, device, dtype)
        try:
            call(trial, *data)()
            result = ("ready", trial, None), True
        except Exception as problem:
            result = ("failed", trial, "tile"), in_short(problem)
        if device == "cuda":
            torch.cuda.synchronize()  # raises if the device is spoiled
        yield result


def sweep(todo: list[Trial], length=LENGTH, timer=None, device="cuda", dtype=torch.bfloat16):
    """Yield (("tiles", (kernel, tile), setting), milliseconds), and (("in use", kernel, setting), tile)."""
    timer = timer or partial(milliseconds, warmup=25, rep=100)
    for setting in SETTINGS:
        mine = [trial for trial in todo if trial[2:] == setting]
        if not mine:
            continue
        data = prepare(Case(*setting, length), device, dtype)
        usual = Trial(ROWS, in_use(ROWS, *setting, device), *setting)
        expected = {"forward": data[2], "gradient": call(usual, *data)()}
        for kernel in dict.fromkeys(trial.kernel for trial in mine):
            yield ("in use", kernel, setting), in_use(kernel, *setting, device)
        for trial in mine:
            yield timed(trial, data, expected[trial.kernel.split()[-1]], timer)
            if device == "cuda":
                torch.cuda.synchronize()  # raises if the device is spoiled


def timed(trial: Trial, data: tuple, expected: tuple, timer) -> tuple:
    """What `sweep` yields for one trial; a tile that gives another result is no candidate."""
    try:
        function = call(trial, *data)
        must_agree(function(), expected)
        return ("tiles", trial[:2], trial[2:]), timer(function)
    except Exception as problem:
        return ("failed", trial, "tile"), in_short(problem)
