"""The benchmark of a card, from its first line to its last, where there is no card: tiny sizes, a clock that stands still."""

import importlib
import json
import re
import subprocess
import sys
import sysconfig
from functools import partial
from types import SimpleNamespace

import pytest
from support.book.benchmarks import MACHINE, MS, depends, gpu  # noqa: F401
from support.book.notebooks import ROOT

candidates, card, check, ladder, lengths, machine_code, roofline, speed, sweep, gpu_tables = gpu(
    "candidates", "card", "check", "ladder", "lengths", "machine_code", "roofline", "speed", "sweep", "tables"
)  # fmt: skip
flash_gpu = importlib.import_module("flash_gpu")
Case = candidates.Case
TILE = (128, 64, 4, 3)


@pytest.fixture
def played(monkeypatch, tmp_path):
    """Run the script where all sizes are small and every call is said to take 2 ms; returns (exit code, file, what was begun)."""
    begun = []

    def inline(*jobs, until):
        begun.append(sorted({str(entry[0]) for _, hand in jobs for entry in hand}))
        for job, hand in jobs:
            yield from job(hand)

    def run(*arguments) -> tuple[int, dict, list]:
        begun.clear()
        code = flash_gpu.main([*arguments, "--out", str(tmp_path / "played.json")])
        return code, json.loads((tmp_path / "played.json").read_text(encoding="utf-8")), list(begun)

    for module in (speed, sweep, ladder):
        module.problem.cache_clear()
        tiny = lambda d, rule, length, **_: Case(d, rule, length, tokens=length, width=d)  # noqa: E731
        monkeypatch.setattr(module, "Case", tiny)
    for module, name, value in (
        (flash_gpu, "apart", inline),
        (flash_gpu, "WORKERS", 2),
        (flash_gpu.card, "is_here", lambda: False),
        (check, "SHAPES", check.SMALL[:1]),
        (check, "DTYPES", ("float16",)),
        (speed, "SETTINGS", ((16, False), (16, True))),
        (speed, "LENGTHS", (32, 64)),
        (speed, "KEY_LENGTHS", (32,)),
        (ladder, "SETTINGS", ((16, False), (16, True))),
        (gpu_tables, "SETTINGS", ((16, False), (16, True))),
        (sweep, "SETTINGS", ((16, True),)),
        (ladder, "LENGTH", 128),
        (sweep, "LENGTH", 128),
        (sweep, "TRIED", dict.fromkeys(sweep.TRIED, ()) | {"descriptors": (TILE,)}),
        (lengths, "LENGTHS", (16, 32)),
        (lengths, "HEADS", 1),
        (lengths, "HEAD_DIM", 16),
        (roofline, "LOADS", (roofline.Load("one token", 1, 1, 32),)),
        (roofline, "HEADS", 1),
        (roofline, "HEAD_DIM", 16),
        (roofline, "SIDE", 32),
        (roofline, "NUMBERS", 1024),
        (machine_code, "code_of", lambda *_: machine_code.compiled.Code("k", {}, 128, 1024, 8, [])),
        (card, "milliseconds", lambda *_: MS),
        (card, "peak_mib", lambda _: 3.0),
        (card, "about", lambda: dict(MACHINE)),
        (candidates, "flex", lambda _, rule: partial(candidates.fused, "MATH", is_causal=rule)),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    # The script believes in a card; its parts find none and use the CPU.
    here = {"is_here": lambda: True, "capability": lambda: (9, 0), "has_bfloat16": lambda: True}
    monkeypatch.setattr(flash_gpu, "card", SimpleNamespace(**vars(card) | here))
    return run


NINE = {
    "ladder", "forward", "speed_by_length", "backward", "time_by_length", "memory_by_length",
    "roofline", "peaks", "parts", "tiles", "code", "strips", "correctness",
}  # fmt: skip


def test_the_whole_program_fills_every_table_and_a_second_run_finds_nothing_to_do(played):
    code, found, begun = played()
    assert found["failures"] == []
    assert code == 0
    missing = [what for what in found["left_out"] if not re.search("CUDNN|EFFICIENT", what)]
    assert missing == [], "of torch's own the processor lacks two; all others agree with each other"
    assert set(found["tables"]) >= NINE
    for name in NINE - {"code", "correctness", "forward", "backward", "tiles"}:
        cells = [value for row in found["tables"][name]["rows"] for value in row]
        assert None not in cells, (name, found["tables"][name])
    assert all(row[2] for row in found["tables"]["tiles"]["rows"])
    assert begun[0] == ["tiled"], "correctness comes first"
    assert played() == (0, found, []), "all of it is there"


def test_a_run_without_time_says_what_is_left_and_the_next_goes_on(played, capsys):
    code, found, begun = played("--seconds", "-1", "--part", "check")
    assert (code, begun, found["tables"]) == (0, [], {})
    assert "No time was left for triton: correctness" in capsys.readouterr().out
    _, found, begun = played("--part", "check", "--backends", "triton", "gluon")
    assert begun == [["triton"], ["gluon"]]
    assert list(found["tables"]) == ["correctness"]


def test_a_wrong_backend_is_not_timed_but_the_others_are(played, monkeypatch):
    monkeypatch.setattr(check, "verdict", lambda ratios: "wrong: dq 3")
    chosen = ("--part", "speed", "--backends", "triton", "FLASH_ATTENTION")
    code, found, begun = played(*chosen)
    assert code == 1
    assert begun == [["triton"], ["FLASH_ATTENTION"]]
    assert found["tables"]["forward"]["columns"] == ["case", "FLASH_ATTENTION"]
    assert found["failures"][-1] == "triton: not shown to be right"
    _, found, _ = played(*chosen, "--even-if-wrong")
    assert found["tables"]["forward"]["columns"] == ["case", "triton", "FLASH_ATTENTION"]


def test_who_dies_while_being_checked_is_not_timed(played, monkeypatch):
    whole = check.job

    def dies(todo):
        yield from whole(todo[:1])
        raise RuntimeError("the process died")

    monkeypatch.setattr(check, "job", dies)
    monkeypatch.setattr(check, "SHAPES", check.SMALL[:2])
    monkeypatch.setattr(flash_gpu, "WORKERS", 1)
    code, found, begun = played("--part", "speed", "--backends", "triton")
    assert (code, begun) == (1, [["triton"]])
    assert found["failures"][-1] == "triton: not shown to be right"
    assert list(found["tables"]) == ["correctness"]


def test_quick_asks_less(played):
    _, found, _ = played("--quick", "--part", "speed", "--backends", "MATH")
    assert {row[0][-2:] for row in found["tables"]["forward"]["rows"]} == {"32"}


def test_a_part_that_raises_loses_nothing_else(played, monkeypatch):
    def broken(todo):
        yield ("forward", Case(16, True, 32), "MATH"), (1.0, 1.0, 1.0)
        raise RuntimeError("spoiled")

    monkeypatch.setattr(speed, "job", broken)
    code, found, _ = played("--part", "speed", "roofline", "--backends", "MATH")
    assert code == 1
    assert found["failures"] == ["speed: MATH: RuntimeError: spoiled"]
    assert {"forward", "roofline"} <= set(found["tables"])


def test_on_a_card_before_ampere_torch_and_tiled_are_measured(played, monkeypatch):
    """Colab's T4: what the kernels lack is said, `tiled` takes Triton's place, and nothing is a failure."""
    lacks = lambda name, *_: "" if name == "tiled" else "compute capability 8.0; this is 7.5"  # noqa: E731
    monkeypatch.setattr(flash_gpu, "lacks", lacks)
    monkeypatch.setattr(flash_gpu.card, "capability", lambda: (7, 5))
    monkeypatch.setattr(flash_gpu.card, "has_bfloat16", lambda: False)
    monkeypatch.setattr(check, "DTYPES", ("float16", "bfloat16"))
    code, found, begun = played("--part", "speed", "ladder", "lengths", "roofline")
    assert (code, found["failures"]) == (0, [])
    assert "needs compute capability 8.0" in found["left_out"]["triton"]
    assert "flex_attention" in found["left_out"]
    assert [row[1:] for row in found["tables"]["correctness"]["rows"]] == [[None, 0.43, None]]
    assert begun[0] == ["tiled"]
    columns = found["tables"]["forward"]["columns"]
    assert columns[:3] == ["case", "tiled", "FLASH_ATTENTION"]
    rungs = [row[0] for row in found["tables"]["ladder"]["rows"]]
    assert rungs == ["five steps in PyTorch", "tiled in PyTorch"]
    assert "parts" not in found["tables"], "they are those of the kernel that cannot run"
    assert "triton" not in found["tables"]["memory_by_length"]["columns"]


def test_without_a_gpu_the_kernels_are_checked_and_nothing_is_written(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(card, "is_here", lambda: False)
    monkeypatch.setattr(check, "SMALL", check.SMALL[:1])
    jobs = lambda *jobs, until: (x for job, hand in jobs for x in job(hand))  # noqa: E731
    monkeypatch.setattr(flash_gpu, "apart", jobs)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert flash_gpu.main(["--part", "check", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for name in candidates.OURS:
        assert f"correctness ('{name}', 'odd lengths') float16 0." in said
    assert "Nothing was timed or written" in said
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(check, "verdict", lambda ratios: "wrong: dq 3")
    assert flash_gpu.main(["--part", "check", "--backends", "tiled"]) == 1


def test_without_a_gpu_it_says_what_to_do(tmp_path):
    """From another folder, and with attncourse not installed: -S leaves out what pip linked."""
    done = subprocess.run(
        [sys.executable, "-S", str(ROOT / "benchmarks" / "flash_gpu.py")],
        cwd=tmp_path,
        env={"PYTHONPATH": sysconfig.get_path("purelib"), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    for part in ("GPU was expected", "finds none", "Run this where nvidia-smi lists a card"):
        assert part in done.stderr
