"""The Triton kernels, interpreted on the CPU, against the five steps in float64; and wrong versions of them."""

import importlib.util
import math
import os
import sys
import warnings
import weakref
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import torch
from support.mutants.kernels import MUTANTS

from attncourse import spec
from attncourse.steps import attention
from attncourse.variants.flash import flash_attention

if not importlib.util.find_spec("triton") and os.environ.get("CI") != "true":
    pytest.skip("Triton is not installed", allow_module_level=True)

from attncourse.variants.flash import hopper, kernels, tiles
from attncourse.variants.flash.tiles import Tile, heads_at_a_time, tiles_for

FLASH = Path(kernels.__file__).parent


@pytest.fixture(autouse=True)
def _small_cache(monkeypatch):
    """So small that the four key/value heads of "causal, ragged, grouped" are worked on in two sections."""
    monkeypatch.setattr(tiles, "CACHE", 30_000)


class Shape(NamedTuple):
    """Sizes as in `cases.Sizes`; the rule; and the tile, small enough that every loop has many turns."""

    b: int
    h: int
    g: int
    n: int
    m: int
    d: int
    e: int
    is_causal: bool = False
    offset: int = 0
    scale: float | None = None


# The interpreter is slow: as few heads and tiles as show a border, three turns or two of each loop.
SHAPES = {
    "whole tiles, grouped": Shape(1, 2, 1, 64, 64, 32, 32),
    "ragged, unequal, wider values": Shape(2, 3, 3, 35, 51, 16, 24),
    "causal, whole tiles": Shape(1, 1, 1, 64, 64, 16, 16, True),
    "causal, ragged, grouped": Shape(2, 4, 2, 37, 35, 24, 40, True),
    "causal, more keys than queries": Shape(1, 2, 1, 35, 69, 16, 16, True),
    "causal, the ends aligned": Shape(1, 2, 1, 35, 52, 16, 16, True, 17),
    "causal, empty rows": Shape(1, 2, 1, 68, 34, 16, 16, True, -34),
    "everything hidden": Shape(1, 1, 1, 7, 5, 16, 16, True, -50),
    "single token": Shape(1, 1, 1, 1, 1, 16, 16, True),
    "one query, many keys": Shape(1, 2, 1, 1, 70, 32, 32),
    "large scale": Shape(1, 1, 1, 35, 51, 16, 16, True, 0, 30.0),
    "widest head": Shape(1, 1, 1, 33, 33, 256, 256, True),
}
TABLES = {  # a border of the tiles in use, which are larger
    "causal, ragged, grouped": Shape(1, 2, 1, 71, 67, 24, 40, True),
    "causal, empty rows": Shape(1, 2, 1, 97, 35, 16, 16, True, -62),
}
SMALL = Tile(32, 16, 4, 2)  # rows and columns differ, so that confusing them shows
TALL = Tile(16, 32, 4, 2)


def draw(shape: Shape, dtype: torch.dtype):
    """Query, key, value, and gradients to send back through output and log-sum-exp."""
    b, h, g, n, m, d, e = shape[:7]
    generator = torch.Generator().manual_seed(0)
    sizes = ((b, h, n, d), (b, g, m, d), (b, g, m, e), (b, h, n, e), (b, h, n))
    *tensors, dlse = (torch.randn(size, generator=generator) for size in sizes)
    return *(x.to(dtype) for x in tensors), dlse


def explicit(shape: Shape, dtype, query, key, value, grad_output, grad_lse):
    """Output, log-sum-exp and gradients by way of the weights, computed in ``dtype``."""
    q, k, v = (x.to(dtype).requires_grad_() for x in (query, key, value))
    scale = shape.scale or 1 / math.sqrt(shape.d)
    repeated_k, repeated_v = (x.repeat_interleave(shape.h // shape.g, 1) for x in (k, v))
    visible = torch.ones(shape.n, shape.m, dtype=torch.bool)
    if shape.is_causal and shape.n and shape.m:
        visible = spec.causal(shape.n, shape.m, shape.offset)
    output, _ = attention(q, repeated_k, repeated_v, attn_mask=visible, scale=scale)
    scores = (q @ repeated_k.mT * scale).masked_fill(~visible, -math.inf)
    lse = scores.logsumexp(-1)
    seen = visible.any(-1).expand(lse.shape)
    total = (output * grad_output.to(dtype)).sum() + (lse * grad_lse.to(dtype))[seen].sum()
    return output, lse, *torch.autograd.grad(total, (q, k, v))


def ours(module, shape: Shape, query, key, value, grad_output, grad_lse, card: str = "hopper"):
    """The same from a module of kernels. On Hopper they compare where something is hidden, on Ampere always."""
    rule = (shape.scale or 1 / math.sqrt(shape.d), shape.is_causal, shape.offset)
    with mock.patch.object(module, "generation", return_value=card, create=True):
        output, lse = module.forward(query, key, value, *rule, tile=SMALL)
        saved = (query, key, value, output, lse)
        gradients = module.backward(grad_output, grad_lse, *saved, *rule, tiles=(SMALL, TALL))
    return output, lse, *gradients


def agrees(results, shape: Shape, inputs) -> None:
    """No further from float64 than twice what PyTorch is in the same dtype, and a few roundings.

    The weights are computed again from lse, so a rounding of lse is an error of all weights.
    """
    dtype = inputs[0].dtype
    exact = explicit(shape, torch.float64, *inputs)
    torchs = explicit(shape, dtype, *inputs)
    largest = max([1.0, *exact[1].nan_to_num(neginf=0.0).abs().flatten().tolist()])
    names = ("output", "lse", "dq", "dk", "dv")
    for name, mine, theirs, right in zip(names, results, torchs, exact, strict=True):
        assert mine.dtype == (torch.float32 if name == "lse" else dtype)
        assert mine.shape == right.shape
        finite = right.isfinite()
        assert mine[~finite].equal(right[~finite].to(mine.dtype)), name
        if finite.any():
            error, usual = ((x.double() - right)[finite].abs().max() for x in (mine, theirs))
            magnitude = right[finite].abs().max().clamp(1)
            roundings = 4 * torch.finfo(torch.float32).eps * largest * magnitude
            assert error <= 2 * usual + roundings, f"{name}: {error:.1e}, PyTorch's {usual:.1e}"


@pytest.mark.parametrize("card", ["hopper", "ampere"])
@pytest.mark.parametrize("name", SHAPES)
def test_kernels_agree_with_the_five_steps(name, card):
    dtype = torch.float32 if card == "hopper" else torch.float16
    inputs = draw(SHAPES[name], dtype)
    agrees(ours(kernels, SHAPES[name], *inputs, card), SHAPES[name], inputs)


@pytest.mark.parametrize("name", SHAPES)
def test_hopper_kernel_agrees_with_the_five_steps(name):
    inputs = draw(SHAPES[name], torch.float16)
    agrees(ours(hopper, SHAPES[name], *inputs), SHAPES[name], inputs)


@pytest.mark.parametrize("name", TABLES)
def test_the_sizes_of_the_tables_agree_too(name):
    shape = TABLES[name]
    inputs = draw(shape, torch.float32)
    rule = (1 / math.sqrt(shape.d), shape.is_causal, shape.offset)
    output, lse = kernels.forward(*inputs[:3], *rule)
    gradients = kernels.backward(*inputs[3:], *inputs[:3], output, lse, *rule)
    agrees((output, lse, *gradients), shape, inputs)


def test_inputs_need_not_be_contiguous():
    shape = SHAPES["ragged, unequal, wider values"]
    query, key, value, *_ = draw(shape, torch.float32)
    views = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key, value)]
    assert not views[0].is_contiguous()
    expected, _ = kernels.forward(query, key, value, 0.25)
    torch.testing.assert_close(kernels.forward(*views, 0.25)[0], expected, rtol=0, atol=0)


@pytest.mark.parametrize("scale", [-0.5, 0.0, None])
@pytest.mark.parametrize("backend", ["triton", "hopper"])
def test_one_function_reaches_the_kernels(backend, scale):
    """A scale that is not positive goes into the queries, because the kernels rely on its sign."""
    shape = SHAPES["causal, ragged, grouped"]
    q, k, v = (x.requires_grad_() for x in draw(shape, torch.float16)[:3])
    rule = {"is_causal": True, "scale": scale, "enable_gqa": True, "offset": -3}
    ours, aux = flash_attention(q, k, v, backend=backend, return_aux=True, **rule)
    theirs = flash_attention(q, k, v, backend="tiled", **rule)
    assert aux.backend == backend
    torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-3)
    gradients = (torch.autograd.grad(x.float().square().sum(), (q, k, v)) for x in (ours, theirs))
    torch.testing.assert_close(*gradients, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("backend", ["tiled", "triton", "hopper"])
def test_gradients_that_are_one_number_posing_as_a_tensor(backend):
    """The gradient of a sum has strides of 0; a kernel that walks over its memory leaves it."""
    shape = SHAPES["causal, ragged, grouped"]
    inputs = draw(shape, torch.float32)[:3]
    ones = (torch.ones(shape.b, shape.h, shape.n, shape.e), torch.ones(shape.b, shape.h, shape.n))
    *_, dq, dk, dv = explicit(shape, torch.float64, *inputs, *ones)
    narrow = torch.float16 if backend == "hopper" else torch.float32
    q, k, v = (x.to(narrow).requires_grad_() for x in inputs)
    rule = {"is_causal": True, "enable_gqa": True, "backend": backend, "return_aux": True}
    output, aux = flash_attention(q, k, v, **rule)
    (output.sum() + aux.lse.sum()).backward()
    error = 2e-2 if backend == "hopper" else 1e-5
    for name, mine, right in (("dq", q.grad, dq), ("dk", k.grad, dk), ("dv", v.grad, dv)):
        torch.testing.assert_close(mine.double(), right, rtol=error, atol=error, msg=name)


def test_tiles_for_every_width_and_dtype():
    widths, dtypes = (16, 64, 65, 128, 200, 256), (torch.float16, torch.float32)
    for width, dtype, is_causal in product(widths, dtypes, (False, True)):
        x = torch.empty(1, 1, 1, width, dtype=dtype)
        for tile in tiles_for(x, x, is_causal):
            assert min(tile.rows, tile.columns) >= 16, "tl.dot needs 16 of each"


def test_what_all_programs_read_stays_in_the_cache():
    x = torch.empty(2, 4, 100, 16)  # 6,400 bytes a head
    assert heads_at_a_time(x, x, is_causal=True) == 2
    assert heads_at_a_time(x[:, :, :0], x[:, :, :0], is_causal=True) == 8
    assert heads_at_a_time(x.repeat(1, 1, 9, 1), x, is_causal=True) == 1
    assert heads_at_a_time(x, x, is_causal=False) == 1


def test_hopper_takes_a_view_at_any_address_and_keeps_no_tensor():
    """A descriptor holds multiples of 16 bytes; the function that Triton keeps must not keep the queries."""
    numbers = torch.randn(3 * 2 * 40 * 16 + 1, dtype=torch.float32).half()[1:]
    query, key, value = numbers.view(3, 1, 2, 40, 16)
    assert query.data_ptr() % 16
    output, _ = hopper.forward(query.clone(), key, value, 0.25)
    expected = attention(*(x.double() for x in (query, key, value)), scale=0.25)[0]
    torch.testing.assert_close(output.double(), expected, rtol=2e-3, atol=2e-3)
    query = query.clone()
    gone = weakref.ref(query)
    hopper.forward(query, key, value, 0.25)
    del query
    assert gone() is None


SHOWN_BY = (  # the quickest first
    "large scale",
    "causal, the ends aligned",
    "causal, empty rows",
    "causal, ragged, grouped",
)


def load(folder: Path, old: str = "", new: str = ""):
    """The kernels, with one slip, as a module of its own; Triton reads their source back from the files."""
    sources = {name: (FLASH / f"{name}.py").read_text("utf-8") for name in ("blocks", "kernels")}
    found = sum(text.count(old) for text in sources.values() if old)
    assert found == (1 if old else 0), f"blocks.py and kernels.py hold {found} times: {old}"
    for name, text in sources.items():
        (folder / f"{name}.py").write_text(text.replace(old, new) if old else text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name in sources:
            known_as = f"{hopper.__package__}.{name}"
            module_spec = importlib.util.spec_from_file_location(known_as, folder / f"{name}.py")
            module = importlib.util.module_from_spec(module_spec)
            patch.setitem(sys.modules, known_as, module)
            module_spec.loader.exec_module(module)
    return module


def killed(module) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a wrong kernel may divide by 0
        for name in SHOWN_BY:
            inputs = draw(SHAPES[name], torch.float32)
            try:
                agrees(ours(module, SHAPES[name], *inputs), SHAPES[name], inputs)
            except AssertionError:
                return True
    return False


def test_the_kernels_themselves_survive(tmp_path):
    assert not killed(load(tmp_path))


@pytest.mark.parametrize(("old", "new"), MUTANTS)
def test_wrong_kernel_is_killed(old, new, tmp_path):
    assert killed(load(tmp_path, old, new))
