"""Parts of the budgets can be measured alone; what is not measured stays as it was. No test asserts a time."""

import importlib
import json
import sys

import pytest
from support.book.notebooks import ROOT

sys.path.append(str(ROOT / "benchmarks"))
budgets = importlib.import_module("budgets")

KNOWN = [
    ["make book, from nothing", "90 s", "20 s"],
    ["make test, nothing changed", "180 s", "170 s"],
    ["chapter 01_dot_product", "60 s", "33 s"],
    ["chapter 99_gone", "60 s", "1 s"],
    ["a row of nobody", "-", "-"],
]


@pytest.fixture
def run(monkeypatch, tmp_path):
    """``run(*parts)``: the table that is written; every command takes 7 seconds, and only `make quick` succeeds."""
    monkeypatch.setattr(budgets, "ROOT", tmp_path)
    monkeypatch.setattr(budgets, "RESULTS", tmp_path)
    monkeypatch.setattr(budgets, "seconds", lambda *command, **options: (7.0, "quick" in command))
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "02_masks.ipynb").write_text("{}")
    (tmp_path / "budgets.json").write_text(json.dumps({"rows": KNOWN}))
    written = {}
    monkeypatch.setattr(budgets, "write_table", lambda name, **table: written.update(table))

    def run(*parts):
        monkeypatch.setattr(sys, "argv", ["budgets.py", "--only", *parts])
        budgets.main()
        return written

    return run


def test_the_rows_of_a_part_are_measured_and_the_others_stay(run):
    table = run("quick")
    assert table["rows"] == [
        KNOWN[0],
        ["make quick, nothing proven before", "60 s", "7 s"],
        *KNOWN[1:4],
    ]
    assert "Measured last: quick." in table["note"]
    assert run("chapters")["rows"] == [*KNOWN[:2], ["chapter 02_masks", "60 s", "7 s, FAILED"]]
    with pytest.raises(SystemExit):
        run("all")


def test_proofs_come_back(run):
    kept = budgets.ROOT / ".proofs"
    kept.mkdir()
    (kept / "old").touch()
    with budgets.without(".proofs"):
        assert not kept.exists()
        kept.mkdir()
        (kept / "new").touch()
    assert [path.name for path in kept.iterdir()] == ["old"]
