"""The benchmarks measure what they say: tried on the CPU with fake clocks. No test asserts a time."""

import importlib

import pytest
import torch
from support.book.benchmarks import MS, clocked, depends, gpu  # noqa: F401

candidates, card, check, speed, sweep = gpu("candidates", "card", "check", "speed", "sweep")
flash, window = importlib.import_module("flash"), importlib.import_module("window")
Case, Shape, Trial = candidates.Case, check.Shape, sweep.Trial

SMALL = Shape("odd lengths", 1, 2, 1, 19, 33, 16, 16, True, 14)
EMPTY = Shape("70 empty rows", 1, 2, 2, 24, 17, 16, 32, True, -9)
TILE = (32, 32, 4, 2)


# Memory and time on the CPU


@pytest.mark.parametrize(
    ("method", "lengths", "least", "most"),
    [
        (flash.METHODS["tiled"], (512, 1024, 2048), 0, flash.GROWTH_LIMIT),
        (flash.METHODS["five steps"], (512, 1024, 2048), 1.9, 2.1),
        (window.METHODS["blocks"], (1024, 2048, 4096), 0, window.MEMORY_GROWTH),
    ],
    ids=["tiled", "five steps", "window"],
)
@pytest.mark.parametrize("k", [0, 1], ids=["forward", "both"])
def test_memory_grows_with_the_length_or_with_its_square(method, lengths, least, most, k):
    peaks = [flash.peak_bytes(flash.passes(method, n, True)[k]) for n in lengths]
    assert least <= flash.growth(lengths, peaks) <= most


def test_a_step_of_decoding_is_set_back_to_its_position():
    layer = window.SlidingWindowAttention(window.WIDTH, window.HEADS, (3, 0))
    cache = window.RollingKVCache.of(layer, 1, 3)
    run = window.step(layer, cache, 100)
    assert run().equal(run())
    assert cache.length == 101


def test_peak_counts_what_is_held_at_the_same_time():
    megabyte = torch.zeros(2**18)  # of float32; not counted, because it was there before

    def three_then_one():
        (megabyte + 1) + (megabyte + 2)
        return megabyte + 3

    assert flash.peak_bytes(three_then_one) == 3 * 2**20


# Correctness comes first


def verdicts(name, *shapes, dtypes=("float32", "float16")) -> dict:
    return dict(check.job(check.entries([name], shapes, dtypes)))


@pytest.mark.parametrize("shape", [SMALL, EMPTY, SMALL._replace(sharp=6.0)])
def test_the_rule_accepts_the_kernels(shape):
    found = verdicts("triton", shape)
    assert len(found) == 2
    assert all(isinstance(value, float) for value in found.values()), found


def test_a_backend_is_asked_for_what_it_offers_only():
    found = verdicts("hopper", SMALL)
    assert found["correctness", ("hopper", SMALL.name), "float32"] is None
    assert isinstance(found["correctness", ("hopper", SMALL.name), "float16"], float), found


right = candidates.with_lse


def spoil(position: int, change):
    """A way to be wrong: `change` writes into the output (0) or the log-sum-exp (1)."""

    def wrong(_, *inputs, **options):
        found = list(right("tiled", *inputs, **options))
        found[position] = found[position] + change(found[position].detach())
        return tuple(found)

    return wrong


def one_row(x):
    return torch.zeros_like(x).index_fill_(2, torch.tensor([5]), 0.3)


WRONG = {
    "the scale is off by 2 %": (lambda _, q, *x, **o: right("tiled", q * 1.02, *x, **o), "lse"),
    "one row of the output": (spoil(0, one_row), "output"),
    "NaN in the output": (spoil(0, lambda x: one_row(x) * torch.nan), "output nan"),
    "lse in powers of 2": (spoil(1, lambda x: x * 0.4427), "lse"),
    "lse is off by 0.001": (spoil(1, lambda x: x * 0 + 1e-3), "lse"),
    "lse without its gradient": (
        lambda _, *x, **o: (lambda y, lse: (y, lse.detach() + 0 * y.sum(-1)))(*right("tiled", *x, **o)),
        "dq",
    ),
    "one key too few": (lambda _, *x, **o: right("tiled", *x, **o | {"offset": o["offset"] - 1}), "output"),
    "it raises": (lambda *x, **o: right("nobody", *x[1:], **o), "KeyError: 'nobody'"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", WRONG)
def test_the_rule_rejects(monkeypatch, name, dtype):
    wrong, said = WRONG[name]
    monkeypatch.setattr(check, "with_lse", wrong)
    (verdict,) = verdicts("triton", SMALL, dtypes=[dtype]).values()
    assert isinstance(verdict, str), verdict
    assert said in verdict


@pytest.mark.parametrize("position", range(5))
def test_each_result_has_to_be_right(position):
    exact = [torch.randn(7, 5, dtype=torch.float64) for _ in check.RESULTS]
    plain = [x + 1e-3 for x in exact]
    found = [x - 1.9e-3 for x in exact]
    assert check.verdict(check.excess(found, plain, exact)) == pytest.approx(1.9, abs=0.02)
    found[position][3, 2] += 2.5e-3 + 1.9e-3
    said = check.verdict(check.excess(found, plain, exact))
    assert said == f"wrong: {check.RESULTS[position]} 2.49"


def test_what_nobody_wrote_is_noticed():
    torch.use_deterministic_algorithms(False)
    with check.poisoned():
        assert torch.empty(100).isnan().all()
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # as conftest.py has set it
    with check.poisoned():
        pass
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


def test_a_kernel_without_a_backward_pass_is_held_to_two_results():
    (found,) = verdicts("descriptors", SMALL, dtypes=["float16"]).values()
    assert isinstance(found, float), found


# The race, with a clock that stands still


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A call takes 2 ms and 3 MiB."""
    monkeypatch.setattr(card, "milliseconds", clocked)
    monkeypatch.setattr(card, "peak_mib", lambda function: 3.0)


TINY = Case(16, True, 32, tokens=64, width=32)


def race(*names) -> dict:
    speed.problem.cache_clear()
    return dict(speed.job([(name, TINY) for name in names]))


def test_every_candidate_gets_its_cells_and_a_failure_is_no_time():
    cells = race("triton", "FLASH_ATTENTION", "CUDNN_ATTENTION", "descriptors")
    for name in ("triton", "FLASH_ATTENTION"):
        assert cells["forward", TINY, name] == cells["backward", TINY, name] == MS
    assert "RuntimeError" in cells["failed", ("backward", TINY), "CUDNN_ATTENTION"]
    assert cells["forward", TINY, "descriptors"][0] == 2.0
    assert len(cells) == 6, "what has no backward pass is not timed backward"


def test_another_computation_is_not_timed(monkeypatch):
    full = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(speed, "attend", lambda *_: lambda *qkv: full(*qkv))
    assert list(race("MATH")) == [("failed", ("backward", TINY), "MATH")]


def test_the_work_is_the_same_at_every_width_and_grows_with_the_length():
    cases = [case for _, case in speed.entries(["triton"])]
    for case in cases:
        b, h, n, d = case.shape
        assert (b * n, h * d) == (16384, 2048)
    assert len(cases) == 12
    assert Case(64, False, 1024).flops() == 4 * 16 * 32 * 1024 * 1024 * 64
    assert Case(64, True, 1024).flops("backward") == 1.25 * Case(64, False, 1024).flops()


@pytest.mark.parametrize("kernel", [k for kernels in sweep.KERNELS.values() for k in kernels])
def test_sweep_times_each_tile_and_names_those_in_use(monkeypatch, kernel):
    small = lambda d, rule, *_, **__: Case(d, rule, 32, tokens=32, width=d)  # noqa: E731
    monkeypatch.setattr(sweep, "Case", small)
    sweep.problem.cache_clear()
    good, bad = ((64, 2, 2), (48, 2, 2)) if kernel == "gluon" else (TILE, (24, 32, 4, 2))
    todo = [Trial(kernel, good, 64, True), Trial(kernel, bad, 64, True)]
    ready = [key[1] for key, _ in sweep.compiled(todo) if key[0] == "ready"]
    assert ready == todo[:1], "not powers of 2"
    cells = dict(sweep.job(todo))
    assert cells.pop(("in use", kernel, (64, True))) == sweep.in_use(kernel, 64, True)
    assert cells.pop(("tiles", (kernel, good), (64, True)))[0] == 2.0
    assert list(cells) == [("failed", ("tiles", (kernel, bad)), (64, True))]


def test_a_tile_with_another_result_is_no_candidate(monkeypatch):
    monkeypatch.setattr(sweep, "call", lambda *_: lambda: (torch.ones(3),))
    monkeypatch.setattr(sweep, "problem", lambda *_: ((), (torch.ones(3) * 1.1,), ()))
    trial = Trial("forward", TILE, 64, True)
    ((key, reason),) = sweep.job([trial])
    assert key == ("failed", ("tiles", trial[:2]), trial[2:])
    assert "off by" in reason
