"""``python -m attncourse.grading``: a score for every notebook, whatever is wrong with it."""

import json
import math
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from attncourse.grading import load, names
from attncourse.grading.__main__ import main

ROOT = Path(__file__).parents[2]
# One chapter stands for all: that every solution passes its checks is seen where the masters are executed.
NOTEBOOK = "01_dot_product.ipynb"
MASTER, STUDENT = ROOT / "exercises" / "solutions" / NOTEBOOK, ROOT / "exercises" / NOTEBOOK
FIRST = "scaled_dot_product_attention"
OUT_OF = sum(load(name).points for name in names("dot_product"))

RIGHT = """
import torch
from attncourse.grading import check

def attention(query, key, value):
    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, -1)
    return weights @ value, weights
"""
PASS = f'check("{FIRST}", attention)'


@pytest.fixture
def grade(tmp_path, capfd):
    """Grade a notebook of these cells; returns the exit code, what was printed, and the JSON."""

    def run(*sources, path=None, name="work.ipynb", options=("--cell-seconds", "120")):
        if path is None:
            path = tmp_path / name
            cells = [nbformat.v4.new_code_cell(source) for source in sources]
            nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        capfd.readouterr()
        code = main([str(path), "--json", str(tmp_path / "x.json"), *options])
        printed, noise = capfd.readouterr()
        assert noise == "", "nothing but the score is printed"
        return code, printed, json.loads((tmp_path / "x.json").read_text("utf-8"))

    return run


def test_solutions_get_full_score(grade):
    code, printed, score = grade(path=MASTER)
    assert code == 0, printed
    assert score["points"] == score["out_of"] > 0
    assert score["problems"] == []
    assert [v["status"] for v in score["verdicts"]] == ["passed"] * len(score["verdicts"])
    assert f"{score['points']} of {score['out_of']}" in printed.split("\n")[-2]


def test_untouched_notebook_is_not_attempted(grade):
    code, printed, score = grade(path=STUDENT)
    assert code == 1
    assert score["points"] == 0
    assert score["problems"] == []
    assert {v["status"] for v in score["verdicts"]} == {"not attempted"}, printed


def status(score, name):
    return next(v["status"] for v in score["verdicts"] if v["name"] == name)


def test_a_wrong_answer_is_explained_and_missing_checks_are_named(grade):
    wrong = RIGHT.replace("query.size(-1) ** 0.5", "query.size(-1)")
    says = load("score_std").grade(8).findings[0]
    mistaken = 'check("score_std", 8)'
    code, printed, score = grade(wrong, PASS, mistaken, "smallest_scale = 7", "status = 1")
    assert (code, score["points"]) == (1, 0)
    assert score["out_of"] == OUT_OF, "all exercises of the chapter count"
    tried = [v for v in score["verdicts"] if v["status"] != "check cell is missing"]
    assert {v["name"]: v["status"] for v in tried} == {FIRST: "failed", "score_std": "failed"}
    assert tried[1]["findings"][0] == says
    assert says in printed
    assert tried[0]["findings"]
    assert re.search(r"sharpness +0 of 1 +check cell is missing\n", printed)


def test_other_cells_and_other_styles_cost_nothing_and_the_last_check_counts(grade):
    again = [f'check("sharpness", {x})' for x in (7, 7, 5)]
    again += [f'check("score_std", {x})' for x in (5, 4.0, 4.0)]
    styled = f"check(\n    '{FIRST}', attention\n)"
    odd = "this is no Python", "raise SystemExit", "import sys; sys.exit(3)"
    cells = "1 / 0", RIGHT, odd[0], styled, *odd[1:], *again
    code, _, score = grade(*cells, name="ex 1 (final) é.ipynb")
    earned = {v["name"]: v["points"] for v in score["verdicts"] if v["points"]}
    assert (code, earned) == (1, {FIRST: 3, "score_std": 1})


@pytest.fixture(scope="module")
def command():
    """The command, given what is no notebook; and the seconds that it takes now, most of them to import torch."""
    started = time.perf_counter()
    arguments = [sys.executable, "-m", "attncourse.grading", str(ROOT / "index.md")]
    done = subprocess.run(arguments, capture_output=True, text=True)
    return done, time.perf_counter() - started


def test_command_line(command):
    assert command[0].returncode == 2
    assert command[0].stdout.startswith("note: index.md is not a notebook")
    assert command[0].stderr == ""


def test_cells_that_hang_or_end_the_kernel_are_named_and_the_rest_counts(grade, command):
    patience = max(
        8, math.ceil(8 * command[1])
    )  # no honest cell needs it, however slow the machine
    stubborn = "import time\nwhile True:\n    try:\n        time.sleep(99)\n    except KeyboardInterrupt:\n        pass"
    hang = "import time\ndef forever(*inputs):\n    while True: time.sleep(1)"
    checks = 'check("kernel_regression", forever)', 'check("sharpness", None)'
    cells = RIGHT, PASS, "import os\nos._exit(1)", stubborn, hang, *checks
    code, printed, score = grade(*cells, options=("--cell-seconds", str(patience)))
    late = f"took longer than {patience} s"
    assert score["problems"] == ["cell 3 ended the kernel", f"cell 4 {late}", f"cell 6 {late}"]
    assert f"note: cell 4 {late}" in printed
    assert (code, score["points"]) == (1, 3)
    assert status(score, "kernel_regression") == "check did not finish"
    assert status(score, "sharpness") == "not attempted"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("this is not JSON", "is not a notebook that can be read"),
        ('{"a": 1}', "is not a notebook that can be read"),
        ("[]", "is not a notebook that can be read"),
        ('{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "is not a notebook"),
        ('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "has no check"),
        ("", "is not a notebook that can be read"),
        (b"\xff\xfe\x00\x89PNG", "is not a notebook that can be read"),
    ],
)
def test_what_is_no_notebook_of_the_course(content, message, grade, tmp_path):
    path = tmp_path / "broken.ipynb"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, printed, score = grade(path=path)
    assert code == 2
    assert f"note: broken.ipynb {message}" in printed
    assert score["verdicts"] == []
    assert len(printed.strip().split("\n")) <= 2


def test_paths_that_lead_nowhere(grade, tmp_path):
    code, printed, _ = grade(path=tmp_path / "nowhere.ipynb")
    assert code == 2
    assert "nowhere.ipynb does not exist" in printed
    code, printed, _ = grade(path=tmp_path)
    assert code == 2
    assert "is a folder" in printed
