"""Parts of the budgets can be measured alone; what is not measured stays as it was. No test asserts a time."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
budgets = importlib.import_module("budgets")

KNOWN = [
    ["make book, from nothing", "90 s", "20 s"],
    ["make test, nothing changed", "180 s", "170 s"],
    ["chapter 01_dot_product", "60 s", "33 s"],
    ["chapter 99_gone", "60 s", "1 s"],
    ["a row of nobody", "-", "-"],
]


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(budgets, "ROOT", tmp_path)
    monkeypatch.setattr(budgets, "RESULTS", tmp_path)
    monkeypatch.setattr(budgets, "seconds", lambda *command, **options: (7.0, "quick" in command))
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "02_masks.ipynb").write_text("{}")


def test_one_part_is_measured_and_the_others_stay():
    found = budgets.measured(["quick"], KNOWN)
    assert found == [KNOWN[0], ["make quick, nothing proven before", "60 s", "7 s"], *KNOWN[1:4]]


def test_rows_of_a_measured_part_are_all_new():
    found = budgets.measured(["chapters"], KNOWN)
    assert found == [*KNOWN[:2], ["chapter 02_masks", "60 s", "7 s, FAILED"]]


def test_every_row_belongs_to_its_part(monkeypatch):
    monkeypatch.setattr(budgets, "costs", lambda report: budgets.Costs(9.0, 4.0, 7.0))
    monkeypatch.setattr(budgets, "page_bytes", lambda: (10**6, 10**5))
    for part, (measure, beginnings) in budgets.PARTS.items():
        rows = measure()
        assert rows, part
        for other, (_, others) in budgets.PARTS.items():
            assert all(row[0].startswith(others) == (other == part) for row in rows)
        assert all(row[0].startswith(beginnings) for row in rows)


def test_proofs_come_back():
    kept = budgets.ROOT / ".proofs"
    kept.mkdir()
    (kept / "old").touch()
    with budgets.without(".proofs"):
        assert not kept.exists()
        kept.mkdir()
        (kept / "new").touch()
    assert [path.name for path in kept.iterdir()] == ["old"]


def test_more_chapters_cost_more_and_the_rest_stays():
    found = budgets.Costs(chapters=9.0, exercises=4.0, rest=7.0)
    assert found.projected(wall=10.0, chapters=7, exercises=40, planned=14) == pytest.approx(16.5)


def test_the_command_takes_parts(monkeypatch):
    written = {}
    monkeypatch.setattr(budgets, "write_table", lambda name, **table: written.update(table))
    monkeypatch.setattr(sys, "argv", ["budgets.py", "--only", "quick"])
    budgets.main()
    assert [row[0] for row in written["rows"]] == ["make quick, nothing proven before"]
    assert "Measured last: quick." in written["note"]
    monkeypatch.setattr(sys, "argv", ["budgets.py", "--only", "all"])
    with pytest.raises(SystemExit):
        budgets.main()
