"""The forward pass as a ladder: what each idea buys, and what each part of the work costs.

One kernel with flags. A rung of the ladder takes back all improvements above it; a part leaves work out, so
that its result is wrong on purpose and only its time is of interest.
"""

import importlib
import math
from functools import cache, partial

import torch
from torch import Tensor

from attncourse.variants.flash.tiles import Tile
from gpu import card
from gpu.candidates import SETTINGS, Case, gluon, must_agree, reference, tensors, with_lse
from gpu.jobs import each

LENGTH = 8192
# {rung: what it does not do yet}
TRITON = {
    "tiles of 64 x 64": ("larger tiles", "mask_less", "powers_of_2", "loads_ahead"),
    "+ loads ahead": ("larger tiles", "mask_less", "powers_of_2"),
    "+ powers of 2": ("larger tiles", "mask_less"),
    "+ mask on the diagonal only": ("larger tiles",),
    "+ larger tiles": (),
}
SMALL_TILE = {"tile": Tile(64, 64, 4, 1)}
HOPPER = ("+ descriptors", "+ specialized warps")
GLUON = {
    "Gluon: + softmax under products": {"persistent": False},
    "Gluon: + programs that stay": {"persistent": True},
    "Gluon: + groups in turns": {"persistent": True, "take_turns": True},
}
RUNGS = ("five steps in PyTorch", "tiled in PyTorch", *TRITON, *HOPPER, *GLUON)
PARTS = {
    "everything": {},
    "no exponentials": {"exponentials": False},
    "no softmax": {"softmax": False},
    "no second product": {"mix": False},
    "first product alone": {"exponentials": False, "softmax": False, "mix": False},
}


def needs(rung: str) -> str:
    """The candidate that must be right before this rung is climbed; '' for PyTorch alone."""
    kernels = {"tiled in PyTorch": "tiled", HOPPER[0]: "descriptors", HOPPER[1]: "hopper"}
    kernels |= dict.fromkeys(TRITON, "triton") | dict.fromkeys(GLUON, "gluon")
    return kernels.get(rung, "")


def five_steps(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """Attention as its formula says it, every score in memory."""
    scores = query @ key.mT * (1 / math.sqrt(query.size(-1)))
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ value


def kernel():
    """The forward pass with flags; imported late, because it needs Triton."""
    return importlib.import_module("gpu.rungs").forward


def climb(rung: str, is_causal: bool):
    """A rung as a function of query, key and value that returns the output."""
    if rung == RUNGS[0]:
        return partial(five_steps, is_causal=is_causal)
    if rung in TRITON:
        lacking = [flag for flag in TRITON[rung] if flag != "larger tiles"]
        options = SMALL_TILE if len(lacking) < len(TRITON[rung]) else {}
        return partial(kernel(), is_causal=is_causal, **options, **dict.fromkeys(lacking, False))
    if rung not in GLUON:
        return lambda *qkv: with_lse(needs(rung), *qkv, is_causal=is_causal)[0]

    def attend(query, key, value):
        module, d = gluon(), query.size(-1)
        setting = module.SETTINGS[min(w for w in module.SETTINGS if w >= d)]
        setting = setting._replace(**GLUON[rung])
        return module.forward(query, key, value, 1 / math.sqrt(d), is_causal, 0, setting)[0]

    return attend


def entries(names) -> list[tuple]:
    """(table, rung or part, setting) of the candidates that are right."""
    rungs = [rung for rung in RUNGS if not needs(rung) or needs(rung) in names]
    found = [("ladder", rung, setting) for setting in SETTINGS for rung in rungs]
    parts = PARTS if "triton" in names else ()
    return found + [("parts", part, setting) for setting in full() for part in parts]


def full() -> list[tuple]:
    """The settings without a mask, for the parts: where a weight is minus infinity nothing can be left out."""
    return [setting for setting in SETTINGS if not setting[1]]


def goal(entry: tuple) -> tuple:
    return entry


@cache
def problem(head_dim: int, is_causal: bool) -> tuple:
    problem.cache_clear()
    qkv, grad = tensors(Case(head_dim, is_causal, LENGTH).shape)
    expected = reference(qkv, grad, is_causal)[:1]
    return [x.detach() for x in qkv], expected


def measure(entry: tuple):
    table, name, setting = entry
    qkv, expected = problem(*setting)
    is_causal = setting[1]
    if table == "parts":
        run = partial(kernel(), is_causal=is_causal, **PARTS[name])
    else:
        run = climb(name, is_causal)
        must_agree([run(*qkv)], expected)
    yield goal(entry), card.milliseconds(lambda: run(*qkv))


def job(todo: list[tuple]):
    """Yield ((table, rung or part, setting), (milliseconds, 20th and 80th percentile))."""
    yield from each(todo, goal, measure)
