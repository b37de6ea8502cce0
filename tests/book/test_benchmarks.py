"""The benchmarks measure what they say: tried on the CPU with fake clocks. No test asserts a time."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
flash = importlib.import_module("flash")
gpu_check = importlib.import_module("gpu_check")
gpu_speed = importlib.import_module("gpu_speed")
gpu_sweep = importlib.import_module("gpu_sweep")
Case, Shape, Trial = gpu_speed.Case, gpu_check.Shape, gpu_sweep.Trial

SMALL = Shape("odd lengths", 1, 2, 1, 19, 33, 16, 16, True, 14)
EMPTY = Shape("70 empty rows", 1, 2, 2, 24, 17, 16, 32, True, -9)
TILE = (32, 32, 4, 2)


# Memory and time on the CPU


def test_memory_of_the_tiled_version_grows_with_the_length_and_that_of_the_five_steps_with_its_square():
    lengths, slopes = (512, 1024, 2048), {}
    for name in ("tiled", "five steps"):
        for k in range(2):
            peaks = [
                flash.peak_bytes(flash.passes(flash.METHODS[name], n, True)[k]) for n in lengths
            ]
            slopes[name, k] = flash.growth(lengths, peaks)
    assert slopes["tiled", 0] <= flash.GROWTH_LIMIT
    assert slopes["tiled", 1] <= flash.GROWTH_LIMIT
    assert slopes["five steps", 0] > 1.9
    assert slopes["five steps", 1] > 1.9


def test_peak_counts_what_is_held_at_the_same_time():
    megabyte = torch.zeros(2**18)  # of float32; not counted, because it was there before

    def three_then_one():
        (megabyte + 1) + (megabyte + 2)
        return megabyte + 3

    assert flash.peak_bytes(three_then_one) == 3 * 2**20


def test_growth_is_the_exponent():
    assert flash.growth((1, 2, 4), (3, 12, 48)) == pytest.approx(2)


# Correctness comes first


@pytest.mark.parametrize("shape", [SMALL, EMPTY, SMALL._replace(sharp=6.0)])
def test_the_rule_accepts_the_kernels(shape):
    todo = [(shape, "float32"), (shape, "float16")]
    found = dict(gpu_check.check("triton", todo, "cpu"))
    assert len(found) == 2
    assert all(isinstance(value, float) for value in found.values()), found


def test_a_backend_is_asked_for_what_it_offers_only():
    found = dict(gpu_check.check("hopper", [(SMALL, "float32"), (SMALL, "float16")], "cpu"))
    assert list(found) == [("correctness", ("hopper", SMALL.name), "float16")]
    assert isinstance(*found.values(), float), found


def spoil(position: int, change):
    """A way to be wrong: `change` writes into the output (0) or the log-sum-exp (1)."""

    def wrong(*inputs, **options):
        output, aux = gpu_check.right(*inputs, **options | {"backend": "tiled"})
        found = [output, aux.lse]
        found[position] = found[position] + change(found[position].detach())
        return found[0], aux._replace(lse=found[1])

    return wrong


def one_row(x):
    return torch.zeros_like(x).index_fill_(2, torch.tensor([5]), 0.3)


def other(**changes):
    """Another way: an option that was not asked for."""

    def wrong(query, *inputs, **options):
        options |= {"backend": "tiled"} | {name: f(query, options) for name, f in changes.items()}
        return gpu_check.right(query, *inputs, **options)

    return wrong


WRONG = {
    "the scale is off by 2 %": (other(scale=lambda q, _: 1.02 / q.size(-1) ** 0.5), "lse"),
    "one row of the output": (spoil(0, one_row), "output"),
    "NaN in the output": (spoil(0, lambda x: one_row(x) * torch.nan), "output nan"),
    "lse in powers of 2": (spoil(1, lambda x: x * 0.4427), "lse"),
    "lse is off by 0.001": (spoil(1, lambda x: x * 0 + 1e-3), "lse"),
    "lse without its gradient": (
        lambda *x, **o: (lambda y, a: (y, a._replace(lse=a.lse.detach() + 0 * y.sum(-1))))(
            *gpu_check.right(*x, **o | {"backend": "tiled"})
        ),
        "dq",
    ),
    "one key too few": (other(offset=lambda _, o: o["offset"] - 1), "output"),
    "it raises": (other(backend=lambda *_: "none"), "ValueError: backend must be"),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", WRONG)
def test_the_rule_rejects(monkeypatch, name, dtype):
    wrong, said = WRONG[name]
    monkeypatch.setattr(gpu_check, "right", gpu_check.flash_attention, raising=False)
    monkeypatch.setattr(gpu_check, "flash_attention", wrong)
    (verdict,) = dict(gpu_check.check("triton", [(SMALL, dtype)], "cpu")).values()
    assert isinstance(verdict, str), verdict
    assert said in verdict


@pytest.mark.parametrize("position", range(5))
def test_each_result_has_to_be_right(position):
    exact = [torch.randn(7, 5, dtype=torch.float64) for _ in gpu_check.RESULTS]
    plain = [x + 1e-3 for x in exact]
    found = [x - 1.9e-3 for x in exact]
    assert gpu_check.verdict(gpu_check.excess(found, plain, exact)) == pytest.approx(1.9, abs=0.02)
    found[position][3, 2] += 2.5e-3 + 1.9e-3
    said = gpu_check.verdict(gpu_check.excess(found, plain, exact))
    assert said == f"wrong: {gpu_check.RESULTS[position]} 2.49"


def test_what_nobody_wrote_is_noticed():
    torch.use_deterministic_algorithms(False)
    with gpu_check.poisoned():
        assert torch.empty(100).isnan().all()
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # as conftest.py has set it
    with gpu_check.poisoned():
        pass
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


# The race, with a fake clock


def race(names, **options):
    case = Case(16, True, 32, tokens=64, width=32)
    clock = {"timer": lambda function: (function(), 2.0)[1], "meter": lambda function: 3.0}
    return case, dict(
        gpu_speed.race(names, [case], **clock | options, device="cpu", dtype=torch.float32)
    )


def test_every_candidate_gets_its_cells_and_a_failure_is_no_time():
    case, cells = race(["triton", "FLASH_ATTENTION", "CUDNN_ATTENTION", "flex_attention"])
    for name in ("triton", "FLASH_ATTENTION"):
        assert cells["forward", case, name] == cells["backward", case, name] == 2.0
        assert cells["memory", case, name] == 3.0
    assert "RuntimeError" in cells["failed", case, "CUDNN_ATTENTION"]
    assert len(cells) == 7, "FlexAttention takes part at some lengths only"


def test_another_computation_is_not_timed(monkeypatch):
    def full(case):
        return lambda *qkv: torch.nn.functional.scaled_dot_product_attention(*qkv)

    monkeypatch.setitem(gpu_speed.CANDIDATES, "MATH", full)
    case, cells = race(["MATH"])
    assert list(cells) == [("failed", case, "MATH")]


def test_the_work_is_the_same_at_every_width_and_grows_with_the_length():
    for case in gpu_speed.cases():
        b, h, n, d = case.shape
        assert (b * n, h * d) == (16384, 2048)
    assert len(gpu_speed.cases()) == 20
    assert Case(64, False, 1024).flops() == 4 * 16 * 32 * 1024 * 1024 * 64
    assert Case(64, True, 1024).flops("backward") == 1.25 * Case(64, False, 1024).flops()


@pytest.mark.parametrize("kernel", [*gpu_sweep.TRIED["triton"], *gpu_sweep.TRIED["hopper"]])
def test_sweep_times_each_tile_and_names_those_in_use(monkeypatch, kernel):
    small = lambda d, rule, *_, **__: Case(d, rule, 32, tokens=32, width=d)  # noqa: E731
    monkeypatch.setattr(gpu_sweep, "Case", small)
    options = {"device": "cpu", "dtype": torch.float16}
    todo = [Trial(kernel, TILE, 64, True), Trial(kernel, (24, 32, 4, 2), 64, True)]
    ready = [key[1] for key, _ in gpu_sweep.compiled(todo, **options) if key[0] == "ready"]
    assert ready == todo[:1], "24 rows are not a power of 2"
    cells = dict(gpu_sweep.sweep(todo, timer=lambda function: 5.0, **options))
    assert cells.pop(("in use", kernel, (64, True))) == gpu_sweep.in_use(kernel, 64, True, "cpu")
    assert cells.pop(("tiles", (kernel, TILE), (64, True))) == 5.0
    assert [key[0] for key in cells] == ["failed"]


def test_a_tile_with_another_result_is_no_candidate(monkeypatch):
    monkeypatch.setattr(gpu_sweep, "call", lambda *_: lambda: (torch.ones(3),))
    trial, expected = Trial("forward", TILE, 64, True), (torch.ones(3) * 1.1,)
    key, reason = gpu_sweep.timed(trial, (), expected, timer=lambda function: 1.0)
    assert key[0] == "failed"
    assert "off by" in reason


def test_tiles_in_use_are_tried():
    for backend in gpu_sweep.TRIED:
        todo = gpu_sweep.trials(backend, "cpu")
        for kernel in gpu_sweep.TRIED[backend]:
            for setting in gpu_sweep.SETTINGS:
                usual = gpu_sweep.in_use(kernel, *setting, "cpu")
                assert usual is None or Trial(kernel, usual, *setting) in todo
        assert len(set(todo)) == len(todo)
