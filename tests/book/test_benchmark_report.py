"""From measurements of a GPU to the book: their file, its tables, and the directive that shows them."""

import json
import os
import re
import time

import pytest
from support.book.benchmarks import MACHINE, gpu
from support.book.notebooks import ROOT
from support.book.site import extension

candidates, card, speed, apart, reports, gpu_tables = gpu(
    "candidates", "card", "speed", "apart", "report", "tables"
)
Case, Report = candidates.Case, reports.Report
measured = extension("measured")
LONG, SHORT = Case(128, True, 8192), Case(128, True, 2048)
TILE = (128, 64, 4, 3)


def ms(median: float) -> tuple[float, float, float]:
    return median, median * 0.9, median * 1.1


CELLS = {
    ("correctness", ("triton", "large"), "bfloat16"): 0.9,
    ("correctness", ("hopper", "large"), "bfloat16"): "wrong: dq 3.1",
    ("forward", SHORT, "triton"): ms(1.0),
    ("forward", SHORT, "FLASH_ATTENTION"): ms(1.06),
    ("forward", LONG, "triton"): ms(1.0),
    ("forward", LONG, "FLASH_ATTENTION"): ms(1.2),
    ("backward", SHORT, "triton"): ms(2.0),
    ("backward", SHORT, "FLASH_ATTENTION"): ms(1.6),
    ("backward", LONG, "triton"): ms(2.0),
    ("backward", LONG, "FLASH_ATTENTION"): ms(2.0),
    ("forward", LONG, "hopper"): ms(0.5),
    ("forward", LONG, "CUDNN_ATTENTION"): ms(0.45),
    ("speed_by_length", 8192, "triton"): ms(2.0),
    ("time_by_length", 8192, "triton"): ms(7.0),
    ("memory_by_length", 8192, "triton"): 256.04,
    ("memory_by_length", 512, "five steps in PyTorch"): 99.5,
    ("ladder", "+ powers of 2", (128, True)): ms(2.0),
    ("parts", "no softmax", (128, False)): ms(1.5),
    ("roofline", ("one token after 8192", "triton"), "reached"): (1.0, 2.5, 2.4),
    ("peaks", "copy, TB/s", "value"): 2.7,
    ("in use", "forward", (128, True)): TILE,
    ("tiles", ("forward", TILE), (128, True)): ms(1.0),
    ("tiles", ("query gradient", TILE), (128, True)): ms(2.0),
    ("tiles", ("gluon", (128, 2, 3)), (64, True)): ms(1.0),
    ("code", ("gluon", 64, True), "instructions a turn"): 429,
    ("strips", ("gluon", 64, True), "turn"): "1p 1w",
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
    assert row(made["forward"], "head_dim 128, causal, length 2048")["triton"] == 137.4
    assert row(made["forward"], "head_dim 128, causal, length 2048")["hopper"] is None
    assert "MATH" not in forward, "a column of dashes"
    backward = row(made["backward"], "head_dim 128, causal, length 8192")
    assert backward["triton"] == 687.2  # 2.5 times the work in twice the time
    assert row(made["ladder"], "+ powers of 2")["head_dim 128, causal"] == 274.9
    # One sample, 16 heads: 2^2 2^4 2^26 2^7 / 2 = 2^38 operations in two milliseconds.
    assert row(made["speed_by_length"], 8192)["triton"] == 137.4


def test_what_is_no_speed_is_shown_as_it_was_measured():
    made = gpu_tables.tables(CELLS, MACHINE)
    assert made["memory_by_length"]["columns"] == ["length", "five steps in PyTorch", "triton"]
    assert made["memory_by_length"]["rows"] == [[512, 99.5, None], [8192, None, 256.04]]
    assert row(made["time_by_length"], 8192) == {"length": 8192, "triton": 7.0}
    assert row(made["parts"], "no softmax")["head_dim 128, full"] == 1.5
    assert made["roofline"]["rows"] == [["one token after 8192: triton", 1.0, 2.5, 2.4]]
    assert made["peaks"]["rows"] == [["copy, TB/s", 2.7]]
    assert row(made["code"], "gluon, head_dim 64, causal")["instructions a turn"] == 429
    assert row(made["code"], "gluon, head_dim 64, causal")["shared KiB"] is None
    assert made["strips"]["rows"] == [["gluon, head_dim 64, causal", "1p 1w"]]


def test_what_a_compiler_says_was_not_measured_on_a_card():
    made = gpu_tables.tables(CELLS, MACHINE)
    assert "nothing was run" in made["code"]["note"]
    on_a_card = [table["note"] for name, table in made.items() if name not in ("code", "strips")]
    assert all("Measured on NVIDIA H100" in note for note in on_a_card)


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
    assert "gluon: 192 x 128, 3 groups of 4 warps and 1, 2 stages" in [r[0] for r in tiles["rows"]]
    unlucky = {("in use", "forward", (64, True)): TILE, **CELLS}
    tiles = gpu_tables.tables(unlucky, MACHINE)["tiles"]
    assert row(tiles, forward["tile"])["head_dim 64, causal"] == "– (in use)"


def test_correctness_shows_what_is_wrong():
    found = gpu_tables.tables(CELLS, MACHINE)["correctness"]
    assert found["rows"] == [
        ["triton: large", 0.9, None, None],
        ["hopper: large", "wrong: dq 3.1", None, None],
    ]


# The file


@pytest.fixture
def report(tmp_path):
    return Report(reports.place(str(tmp_path / "new"), MACHINE["card"]), MACHINE)


def kept(report) -> dict:
    return json.loads(report.path.read_text(encoding="utf-8"))


def test_the_file_is_what_the_book_reads(report):
    for count, (key, value) in enumerate(CELLS.items()):
        report.add(key, value)
        assert len(kept(report)["cells"]) == count + 1
    assert report.path.name == "flash_nvidia_h100_80gb_hbm3.json"
    (failure,) = kept(report)["failures"]
    assert failure == "hopper: correctness ('hopper', 'large') bfloat16: wrong: dq 3.1"
    for table in kept(report)["tables"].values():
        assert "H100" in table["caption"]
        assert "Triton 1.0" in table["note"]
        assert measured.table_html(table).count("<tr>") == len(table["rows"]) + 1
    assert os.listdir(report.path.parent) == [report.path.name], "no draft is left"


def test_another_run_goes_on(report):
    for key, value in CELLS.items():
        report.add(key, value)
    report.add(("failed", ("backward", SHORT), "MATH"), "OutOfMemoryError")
    again = Report(report.path, MACHINE | {"date": "later"})
    assert again.cells == report.cells
    todo = [(name, case) for case in (SHORT, LONG) for name in ("triton", "MATH")]
    assert again.lacking(todo, speed.goal) == [("MATH", LONG)]


@pytest.mark.parametrize("what", ["card", "driver", "torch", "triton", "cuda", "python", "code"])
def test_what_another_card_version_or_code_measured_does_not_count(report, what):
    report.add(("peaks", "copy, TB/s", "value"), 2.7)
    assert Report(report.path, MACHINE | {what: "2.0"}).cells == {}


def test_what_raised_is_a_failure_only_if_it_is_ours(report):
    for name in ("triton", "MATH"):
        report.add(("failed", ("backward", LONG), name), "OutOfMemoryError")
    report.add(("failed", ("tiles", ("forward", TILE)), (64, True)), "OutOfResources")
    assert [text.split(":")[0] for text in report.failures()] == ["triton"]
    assert len(kept(report)["left_out"]) == 3
    assert kept(report)["tables"] == {}


def test_right_is_what_was_checked_and_never_wrong(report):
    key = ("correctness", ("triton", "large"), "bfloat16")
    assert not report.is_right("triton"), "nothing was checked"
    report.add(key, None)
    assert not report.is_right("triton"), "it offers nothing"
    report.add(("correctness", ("triton", "large"), "float16"), 0.9)
    assert report.is_right("triton")
    assert not report.is_right("hopper")
    report.add(("failed", ("correctness", ("triton", "odd")), "float16"), "ValueError")
    assert not report.is_right("triton")


def test_the_driver_may_be_unknown(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert card.driver() == "unknown"


# Processes


def test_jobs_run_apart():
    said = []
    with pytest.raises(RuntimeError, match="ValueError: invalid literal") as caught:
        said.extend(apart.apart((range, 3), (int, "x"), (os._exit, 1), (range, 2)))
    assert sorted(said) == [0, 0, 1, 1, 2]
    assert "the process died" in str(caught.value)


def test_a_job_that_hangs_is_given_up():
    said, started = [], time.monotonic()
    with pytest.raises(TimeoutError, match="nothing was heard for"):
        said.extend(apart.apart((range, 2), (time.sleep, 600), silence=5))
    assert said == [0, 1]
    assert time.monotonic() - started < 300, "nobody waits until the sleeper wakes"


def test_a_job_ends_with_its_time():
    with pytest.raises(apart.OutOfTime):
        list(apart.apart((time.sleep, 600), until=time.monotonic() + 0.5))


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
    made = gpu_tables.tables(CELLS, MACHINE).keys() - {"strips"}  # those are for figures
    assert sorted(names) == sorted(made)
