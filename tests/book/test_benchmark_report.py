"""From measurements of a GPU to the book: the script, its file, its tables, and the directive that shows them."""

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
flash_gpu = importlib.import_module("flash_gpu")
gpu_apart = importlib.import_module("gpu_apart")
gpu_speed = importlib.import_module("gpu_speed")
gpu_tables = importlib.import_module("gpu_tables")
Case = gpu_speed.Case

SPEC = importlib.util.spec_from_file_location("measured", ROOT / "chapters/_ext/measured.py")
measured = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(measured)

MACHINE = dict.fromkeys(("driver", "torch", "triton", "cuda", "python", "date"), "1.0")
MACHINE["card"] = "NVIDIA H100 80GB HBM3"
LONG, SHORT = Case(128, True, 8192), Case(128, True, 2048)
TILE = (128, 64, 4, 3)
CELLS = {
    ("correctness", ("triton", "large"), "bfloat16"): 0.9,
    ("correctness", ("hopper", "large"), "bfloat16"): "wrong: dq 3.1",
    ("forward", SHORT, "triton"): 1.0,
    ("forward", SHORT, "FLASH_ATTENTION"): 1.06,
    ("forward", LONG, "triton"): 1.0,
    ("forward", LONG, "FLASH_ATTENTION"): 1.2,
    ("backward", SHORT, "triton"): 2.0,
    ("backward", SHORT, "FLASH_ATTENTION"): 1.6,
    ("backward", LONG, "triton"): 2.0,
    ("backward", LONG, "FLASH_ATTENTION"): 2.0,
    ("forward", LONG, "hopper"): 0.5,
    ("forward", LONG, "CUDNN_ATTENTION"): 0.45,
    ("memory", LONG, "triton"): 256.04,
    ("in use", "forward", (128, True)): TILE,
    ("tiles", ("forward", TILE), (128, True)): 1.0,
    ("tiles", ("query gradient", TILE), (128, True)): 2.0,
}


def row(table: dict, name: str) -> dict:
    """A row by its name, as {column: value}."""
    (found,) = [cells for cells in table["rows"] if cells[0] == name]
    return dict(zip(table["columns"], found, strict=True))


# Tables


def test_speeds_are_those_computed_by_hand():
    made = gpu_tables.tables(CELLS, MACHINE)
    # 4 b h n^2 d / 2 = 2^2 2^1 2^4 2^26 2^7 / 2 = 2^39 operations, 549.8e9, in one millisecond.
    forward = row(made["forward"], "head_dim 128, causal, length 8192")
    assert forward["triton"] == 549.8
    assert forward["FLASH_ATTENTION"] == 458.1
    assert forward["hopper"] == 1099.5
    assert forward["MATH"] is None
    assert row(made["forward"], "head_dim 128, causal, length 2048")["triton"] == 137.4
    backward = row(made["backward"], "head_dim 128, causal, length 8192")
    assert backward["triton"] == 687.2  # 2.5 times the work in twice the time
    assert row(made["memory"], "head_dim 128, causal, length 8192")["triton"] == 256.0


def test_ratios_stand_beside_their_aims():
    ratios = gpu_tables.tables(CELLS, MACHINE)["ratios"]
    assert [list(row(ratios, r[0]).values())[1:] for r in ratios["rows"]] == [
        [1.06, 1.2, 1.05, True],
        [0.8, 1.0, 0.9, False],
        [None, 0.9, 0.8, None],
    ]


def test_tiles_in_use_are_marked():
    tiles = gpu_tables.tables(CELLS, MACHINE)["tiles"]
    forward = row(tiles, "forward: 128 x 64, 4 warps, 3 stages")
    assert forward["head_dim 128, causal"] == "549.8 (in use)"
    assert forward["head_dim 64, full"] is None
    gradient = row(tiles, "query gradient: 128 x 64, 4 warps, 3 stages")
    assert gradient["head_dim 128, causal"] == 687.2
    unlucky = {("in use", "forward", (64, True)): TILE, **CELLS}
    tiles = gpu_tables.tables(unlucky, MACHINE)["tiles"]
    assert row(tiles, forward["tile"])["head_dim 64, causal"] == "– (in use)"


def test_correctness_shows_what_is_wrong():
    found = gpu_tables.tables(CELLS, MACHINE)["correctness"]
    assert found["rows"] == [
        ["triton: large", 0.9, None, None],
        ["hopper: large", "wrong: dq 3.1", None, None],
    ]


def test_nothing_measured_is_no_table():
    assert gpu_tables.tables({}, MACHINE) == {}


# The file


@pytest.fixture
def report(tmp_path):
    return flash_gpu.Report(flash_gpu.place(str(tmp_path / "new"), MACHINE["card"]), MACHINE)


def test_the_file_is_what_the_book_reads(report):
    for key, value in CELLS.items():
        report.add(key, value)
        kept = json.loads(report.path.read_text(encoding="utf-8"))
    assert report.path.name == "flash_nvidia_h100_80gb_hbm3.json"
    assert list(kept["tables"]) == [
        "ratios", "forward", "backward", "memory", "tiles", "correctness"
    ]  # fmt: skip
    assert kept["failures"] == ["hopper: large, bfloat16: wrong: dq 3.1"]
    for table in kept["tables"].values():
        assert "H100" in table["caption"]
        assert "driver 1.0" in table["note"]
        assert measured.table_html(table).count("<tr>") == len(table["rows"]) + 1
    assert os.listdir(report.path.parent) == [report.path.name], "no draft is left"


def test_what_raised_is_a_failure_only_if_it_is_ours(report):
    for name in ("triton", "MATH", "tile"):
        report.add(("failed", LONG, name), "OutOfMemoryError")
    assert [text.split(":")[0] for text in report.failures] == ["triton"]
    kept = json.loads(report.path.read_text(encoding="utf-8"))
    assert [text.split(":")[0] for text in kept["left_out"]] == ["MATH", "tile"]
    assert kept["tables"] == {}


def test_a_file_may_be_named(tmp_path):
    assert flash_gpu.place(str(tmp_path / "a.json"), "x") == tmp_path / "a.json"
    assert flash_gpu.place(None, "An A100").name == "flash_an_a100.json"


def test_the_driver_may_be_unknown(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert flash_gpu.driver() == "unknown"


# The script


def play(monkeypatch, report, verdict, *arguments, broken="") -> list[tuple]:
    """Measure "triton" with fake parts; returns the candidates that were timed."""
    timed = []

    def check(backend, todo):
        for shape, dtype in todo:
            yield ("correctness", (backend, shape.name), dtype), verdict

    def race(names, cases):
        timed.extend(names)
        yield ("forward", cases[0], names[-1]), 1.0
        if broken == "race":
            raise RuntimeError("spoiled")

    def compiled(todo):
        yield ("ready", todo[0], None), True

    def sweep(todo):
        timed.append("tiles")
        yield ("tiles", todo[0][:2], todo[0][2:]), 1.0

    for fake in (check, race, compiled, sweep):
        monkeypatch.setattr(flash_gpu, fake.__name__, fake)
    monkeypatch.setattr(flash_gpu, "trials", lambda _: [("forward", TILE, 128, True)])
    inline = lambda *jobs: chain.from_iterable(job[0](*job[1:]) for job in jobs)  # noqa: E731
    monkeypatch.setattr(flash_gpu, "apart", inline)
    flash_gpu.measure(report, "triton", flash_gpu.parse(list(arguments)))
    return timed


def test_all_parts_run_and_a_right_backend_has_no_failure(monkeypatch, report):
    assert play(monkeypatch, report, 1.0) == ["triton", *gpu_speed.RIVALS, "tiles"]
    assert report.failures == []
    kept = json.loads(report.path.read_text(encoding="utf-8"))["tables"]
    assert len(kept["correctness"]["rows"]) == len(flash_gpu.SHAPES)


def test_parts_can_be_chosen(monkeypatch, report):
    assert play(monkeypatch, report, 1.0, "--parts", "tiles", "--quick") == ["tiles"]
    kept = json.loads(report.path.read_text(encoding="utf-8"))["tables"]
    assert set(kept) == {"correctness", "tiles"}
    assert len(kept["correctness"]["rows"]) == len(flash_gpu.QUICK) < len(flash_gpu.SHAPES)


def test_a_wrong_backend_is_not_timed_but_the_others_are(monkeypatch, report):
    assert play(monkeypatch, report, "wrong: dq 3") == list(gpu_speed.RIVALS)
    assert report.failures[-1] == "triton: not shown to be right"
    assert "wrong: dq 3" in report.failures[0]


def test_a_wrong_backend_is_timed_on_request(monkeypatch, report):
    timed = play(monkeypatch, report, "wrong: dq 3", "--even-if-wrong")
    assert timed == ["triton", *gpu_speed.RIVALS, "tiles"]
    assert report.failures


def test_nothing_checked_is_not_right(report):
    assert not report.is_right("triton")


def test_a_part_that_raises_loses_nothing_else(monkeypatch, report):
    assert play(monkeypatch, report, 1.0, broken="race")[-1] == "tiles"
    kept = json.loads(report.path.read_text(encoding="utf-8"))
    assert {"correctness", "forward", "tiles"} == set(kept["tables"])
    assert kept["failures"] == ["triton: speed and memory: RuntimeError: spoiled"]


@pytest.mark.parametrize(("failures", "code"), [([], 0), (["hopper: large: wrong"], 1)])
def test_a_failure_is_the_exit_code(monkeypatch, tmp_path, failures, code):
    seen = []

    def measure(report, backend, options):
        seen.append(backend)
        report.failures = failures

    monkeypatch.setattr(flash_gpu, "measure", measure)
    monkeypatch.setattr(flash_gpu, "about", lambda: MACHINE)
    monkeypatch.setattr(flash_gpu.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(flash_gpu.torch.version, "cuda", "13.0")
    monkeypatch.setattr(flash_gpu.torch.cuda, "get_device_capability", lambda: (9, code))
    assert flash_gpu.main(["--out", str(tmp_path)]) == code
    assert seen == (["triton"] if code else ["triton", "hopper"]), "hopper for 9.0 only, and last"


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


def test_jobs_run_apart():
    said = []
    with pytest.raises(RuntimeError, match="ValueError: invalid literal") as caught:
        said.extend(gpu_apart.apart((range, 3), (int, "x"), (os._exit, 1), (range, 2)))
    assert sorted(said) == [0, 0, 1, 1, 2]
    assert "the process died" in str(caught.value)


def test_a_job_that_hangs_is_given_up():
    said, started = [], time.monotonic()
    with pytest.raises(TimeoutError, match="nothing was heard for"):
        said.extend(gpu_apart.apart((range, 2), (time.sleep, 600), silence=5))
    assert said == [0, 1]
    assert time.monotonic() - started < 300, "nobody waits until the sleeper wakes"


def test_stripes_hold_everything_once():
    assert gpu_apart.stripes([1, 2, 3, 4, 5], 2) == [[1, 3, 5], [2, 4]]
    assert gpu_apart.stripes([1], 8) == [[1]]


# The book


def test_directive_finds_one_table_for_each_file(tmp_path):
    for card in ("b", "a"):
        data = {"tables": {"forward": {"caption": card}, "tiles": {"caption": "other"}}}
        (tmp_path / f"flash_{card}.json").write_text(json.dumps(data))
    (tmp_path / "flash_cpu.json").write_text('{"caption": "cpu"}')
    find = lambda argument: [t["caption"] for t in measured.find_tables(tmp_path, argument)]  # noqa: E731
    assert find("flash_*.json#forward") == ["a", "b"]
    assert find("flash_a.json#tiles") == ["other"]
    assert find("flash_*.json#backward") == find("heads.json") == []
    assert find("flash_cpu.json") == ["cpu"]


def test_the_page_asks_for_tables_that_the_script_writes():
    page = (ROOT / "chapters" / "measured.md").read_text(encoding="utf-8")
    names = re.findall(r"\{measured\} benchmarks/results/flash_\*\.json#(\w+)", page)
    assert sorted(names) == sorted(gpu_tables.tables(CELLS, MACHINE))
