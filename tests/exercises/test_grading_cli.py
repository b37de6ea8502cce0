"""``python -m attncourse.grading``: a score for every notebook, whatever is wrong with it."""

import json
import math
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


def test_wrong_answer_in_json(grade):
    wrong = RIGHT.replace("query.size(-1) ** 0.5", "query.size(-1)")
    code, printed, score = grade(wrong, PASS)
    (verdict,) = [v for v in score["verdicts"] if v["name"] == FIRST]
    assert code == 1
    assert verdict["status"] == "failed"
    assert verdict["diagnosis"] in printed
    assert "instead of its square root" in verdict["diagnosis"]
    assert verdict["findings"]


def status(score, name=FIRST):
    return next(v["status"] for v in score["verdicts"] if v["name"] == name)


def test_missing_check_cell_is_named(grade):
    code, printed, score = grade(RIGHT, 'check("sharpness", None)', "status = 1")
    assert code == 1
    assert score["out_of"] == OUT_OF, "all exercises of the chapter count"
    assert status(score) == "check cell is missing"
    assert f"{FIRST}  0 of 3  check cell is missing" in " ".join(printed.split(" " * 6))


def test_errors_of_other_cells_cost_nothing(grade):
    code, _, score = grade(
        "1 / 0", RIGHT, "this is no Python", PASS, "raise SystemExit", "import sys; sys.exit(3)"
    )
    assert score["points"] == 3
    assert code == 1


@pytest.fixture(scope="module")
def patience():
    """Seconds that no honest cell needs, however slow the machine: eight times what the imports take now.

    The second of two: the first compiles what a new environment has not compiled yet.
    """
    for _ in range(2):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch, attncourse.grading"], check=True)
        took = time.perf_counter() - started
    return max(8, math.ceil(8 * took))


def test_hanging_cells_and_answers_are_named_and_the_rest_counts(grade, patience):
    stubborn = "import time\nwhile True:\n    try:\n        time.sleep(99)\n    except KeyboardInterrupt:\n        pass"
    hang = "import time\ndef forever(*inputs):\n    while True: time.sleep(1)"
    hanging, last = 'check("kernel_regression", forever)', 'check("sharpness", None)'
    options = ("--cell-seconds", str(patience))
    code, printed, score = grade(RIGHT, stubborn, PASS, hang, hanging, last, options=options)
    assert f"note: cell 2 took longer than {patience} s" in printed
    assert f"note: cell 5 took longer than {patience} s" in printed
    assert (code, score["points"]) == (1, 3)
    assert status(score, "kernel_regression") == "check did not finish"
    assert status(score, "sharpness") == "not attempted"


def test_dead_kernel_keeps_the_points_and_goes_on(grade):
    kill = "import os\nos._exit(1)"
    code, printed, score = grade(RIGHT, PASS, kill, kill, 'check("sharpness", None)')
    assert code == 1
    assert score["points"] == 3
    assert score["problems"] == ["cell 3 ended the kernel", "cell 4 ended the kernel"]
    assert status(score, "sharpness") == "not attempted"


def test_points_count_once_and_the_last_check_counts(grade):
    _, _, score = grade(RIGHT, PASS, PASS, f'check("{FIRST}", 5)')
    assert score["points"] == 0
    _, _, score = grade(RIGHT, f'check("{FIRST}", 5)', PASS, PASS)
    assert score["points"] == 3


def test_another_name_of_the_file_and_another_style_of_the_check_cost_nothing(grade):
    check = f"check(\n    '{FIRST}', attention\n)"
    assert grade(RIGHT, check, name="ex 1 (final) é.ipynb")[2]["points"] == 3


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


def test_command_line():
    command = [sys.executable, "-m", "attncourse.grading", str(ROOT / "index.md")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout.startswith("note: index.md is not a notebook")
    assert done.stderr == ""
