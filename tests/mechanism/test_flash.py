"""Which backend `flash_attention` takes, and what it says when the named one cannot run."""

import importlib.util
import subprocess
import sys

import pytest
import torch
from support.cards import put

from attncourse.variants.flash import backends, flash_attention
from attncourse.variants.flash.compiled import imagined_card

# Compute capability, and the backend that is taken there.
CARDS = {
    "Tesla V100": ((7, 0), "tiled"),
    "Tesla T4": ((7, 5), "tiled"),
    "NVIDIA A100": ((8, 0), "triton"),
    "NVIDIA L4": ((8, 9), "triton"),
    "NVIDIA H200": ((9, 0), "triton"),
    "NVIDIA GeForce RTX 5090": ((12, 0), "triton"),
}


@pytest.fixture
def bare(monkeypatch):
    """A machine without Triton's interpreter."""
    monkeypatch.delenv("TRITON_INTERPRET")


@pytest.fixture
def with_triton(monkeypatch):
    """A machine on which Triton is installed, whether or not it is."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "triton" or find(name))


@pytest.fixture
def card(monkeypatch, with_triton, bare):
    """Pretends that there is a GPU, one of `CARDS`, and that an `on_card` tensor is on it."""

    return lambda name: put(monkeypatch, name, CARDS[name][0])


class OnCard(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


def on_card(width=64, dtype=torch.bfloat16):
    return torch.zeros(1, 1, 1, width, dtype=dtype).as_subclass(OnCard)


X = torch.zeros(1, 2, 3, 16)


def test_without_a_gpu_it_runs_tiled_and_says_so():
    output, aux = flash_attention(X, X, X, return_aux=True)
    assert aux.backend == "tiled"
    assert output.shape == X.shape
    assert aux.lse.shape == X.shape[:3]


@pytest.mark.parametrize("backend", ["triton", "hopper"])
def test_a_kernel_without_a_gpu_names_what_is_missing(backend, bare, with_triton):
    with pytest.raises(RuntimeError, match=rf"backend='{backend}' needs .*GPU.*backend='tiled'"):
        flash_attention(X, X, X, backend=backend)


def test_a_kernel_without_triton_names_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"Triton.*attncourse\[gpu\]"):
        flash_attention(X, X, X, backend="triton")


def test_an_unknown_backend_lists_those_there_are():
    with pytest.raises(ValueError, match=r"hopper, triton, tiled; got 'cuda'"):
        flash_attention(X, X, X, backend="cuda")


def test_the_best_backend_of_a_card(card):
    x = on_card(dtype=torch.float16)
    for name, (_, best) in CARDS.items():
        card(name)
        assert backends.choose(None, x, x, None) == best, name
    card("NVIDIA H200")
    assert backends.choose("hopper", x, x, None) == "hopper"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_card_without_the_tensor_cores_triton_uses_says_why(card, dtype):
    card("Tesla T4")
    x = on_card(dtype=dtype)
    expected = r"needs an Ampere card or newer \(compute capability 8\.0\), because .*tensor cores"
    with pytest.raises(RuntimeError, match=rf"{expected}.*this is Tesla T4, 7\.5.*backend=None"):
        backends.choose("triton", x, x, None)


@pytest.mark.parametrize(
    ("width", "dtype", "mask"),
    [(512, torch.bfloat16, None), (8, torch.bfloat16, None), (64, torch.float64, None), (64, torch.float16, True)],
)  # fmt: skip
def test_what_no_kernel_takes_runs_tiled(card, width, dtype, mask):
    card("NVIDIA H200")
    x = on_card(width, dtype)
    mask = torch.ones(1, 1, dtype=torch.bool) if mask else None
    assert backends.choose(None, x, x, mask) == "tiled"
    for backend in ("triton", "hopper"):
        with pytest.raises(RuntimeError, match="needs (heads from 16|one of torch|attn_mask=None)"):
            backends.choose(backend, x, x, mask)


@pytest.mark.parametrize(
    ("name", "width", "dtype", "message"),
    [
        ("NVIDIA A100", 64, torch.bfloat16, "a Hopper card .* this is NVIDIA A100, 8.0"),
        ("NVIDIA H200", 64, torch.float32, "float16, torch.bfloat16; the inputs are torch.float32"),
        ("NVIDIA H200", 256, torch.bfloat16, "heads from 16 to 128 wide"),
        ("NVIDIA H200", 20, torch.bfloat16, "multiples of 8"),
    ],
)
def test_what_the_hopper_kernel_does_not_take(card, name, width, dtype, message):
    card(name)
    x = on_card(width, dtype)
    with pytest.raises(RuntimeError, match=message):
        backends.choose("hopper", x, x, None)


def test_inputs_left_on_the_cpu_are_named(card):
    card("NVIDIA H200")
    with pytest.raises(RuntimeError, match=r"they are on 'cpu', and there is a CUDA GPU"):
        flash_attention(X, X, X, backend="triton")


def test_the_package_works_without_triton():
    code = (
        "import sys, torch; sys.modules['triton'] = None\n"
        "from attncourse.variants.flash import flash_attention\n"
        "print(flash_attention(*[torch.randn(1, 2, 3, 16)] * 3, return_aux=True)[1].backend)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tiled"]


def test_compiling_for_an_imagined_card_names_what_is_missing(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    needs = "needs .*(without TRITON_INTERPRET|not installed)"
    with pytest.raises(RuntimeError, match=needs), imagined_card((9, 0)):
        pass
