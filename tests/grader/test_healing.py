"""Cells retyped, split, merged or copied are read as they were meant; what was done is told."""

import json
import time

import pytest
from support.notebooks_fixture import ANSWER, CHECK, SETUP, SOLVED, cell, sources, write

from attngrade.submissions import read


@pytest.fixture
def given(tmp_path):
    """Reads a notebook made of these cells."""
    return lambda *cells, **other: read(
        "anna", write(tmp_path / "anna.ipynb", *cells, **other), tmp_path
    )


def test_a_code_cell_that_became_text_is_code_again(given):
    plain = given(SETUP, cell(ANSWER, "markdown", "causal_mask_answer"), CHECK)
    assert sources(plain) == [SETUP, ANSWER, CHECK]
    assert plain.problems == ("Cell 2 had become Markdown; it was read as code.",)
    stripped = given(cell(SETUP, "raw"), cell(ANSWER, "raw"), cell(CHECK, "markdown"))
    assert sources(stripped) == [SETUP, ANSWER, CHECK]
    assert len(stripped.problems) == 3
    assert stripped.problems[0] == "Cell 1 had become raw text; it was read as code."


def test_an_attempt_that_was_set_aside_stays_aside(given):
    old = ANSWER.replace("<=", "<")
    submission = given(SETUP, ANSWER, cell(old, "raw"), cell("# x\n\nimport nothing", "markdown"))
    assert sources(submission) == [SETUP, ANSWER]
    assert submission.problems == ()


def test_prose_with_code_in_it_stays_prose(given):
    prose = (
        "from here on",
        "import is easy",
        "x = 3",
        "class is over",
        "def ines",
        "# causal_mask",
    )
    submission = given(SETUP, *(cell(text, "markdown") for text in prose), ANSWER, CHECK)
    assert sources(submission) == [SETUP, ANSWER, CHECK]
    assert submission.problems == ()


def test_a_split_cell_is_joined(given):
    head, tail = ANSWER.split("\n")
    submission = given(SETUP, head, "", tail, CHECK)
    assert sources(submission) == [SETUP, ANSWER, CHECK]
    assert [c.number for c in submission.cells] == [1, 2, 5]
    note = "Cells 2 and 4 are one cell that had been split; they were joined."
    assert submission.problems == (note,)
    first = 'def causal_mask(n, m):\n    """Return it."""'
    assert sources(given(first, "    x = (", "        1)", "    return x", CHECK))[1] == CHECK
    text = cell("Some text between them.", "markdown")
    assert sources(given(head, text, tail)) == [
        head,
        "return torch.arange(m) <= torch.arange(n)[:, None]",
    ]


def test_a_slip_of_the_student_is_not_mended(given):
    broken = "def causal_mask(n, m):\n    keep = torch.ones(n, m)\n    retrun keep.tril()\n\nx = 1"
    assert sources(given(SETUP, broken, CHECK)) == [SETUP, broken, CHECK]


def test_an_answer_merged_with_text_is_cut_out(given):
    for kind in ("code", "markdown"):
        mixed = cell(f"## 1. A mask\n\n{ANSWER}\n\n<details>It's a hint.</details>", kind)
        submission = given(SETUP, mixed, CHECK)
        assert sources(submission) == [SETUP, ANSWER, CHECK]
        assert submission.problems == ("Cell 2 mixes text and code; its code was read.",)


def test_copies_of_a_cell_stay_in_order_and_a_stub_undoes_nothing(given):
    copy, stub = ANSWER.replace("<=", "<"), "def causal_mask(n, m):\n    raise NotImplementedError"
    copies = [cell(x, grade_id="causal_mask_answer") for x in (ANSWER, copy, stub)]
    submission = given(SETUP, *copies, CHECK)
    assert sources(submission) == [SETUP, ANSWER, copy, CHECK]
    assert submission.problems == (
        "Cells 2 and 3 are copies of one cell and differ; where they define the same, the last one "
        "counts.",
    )
    assert sources(given(copies[2], CHECK)) == [stub, CHECK]
    assert given(copies[0], copies[0], CHECK).problems == ()


def test_the_cell_that_installs_the_course_is_left_out_and_nothing_else(given):
    install = json.loads(SOLVED.read_text(encoding="utf-8"))["cells"][1]
    assert sources(given(install, ANSWER, CHECK)) == [ANSWER, CHECK]
    merged = install | {"source": "".join(install["source"]) + "\n" + ANSWER}
    kept = sources(given(merged, "!pip install attncourse", CHECK))
    assert kept[1:] == ["pass", CHECK]
    assert kept[0].endswith(ANSWER)
    assert "import" not in kept[0]


def test_what_is_no_text_is_named(given):
    submission = given(SETUP, cell({"a": 1}), 3, cell("x = 1\0"), cell(ANSWER.split("\n")), CHECK)
    assert sources(submission) == [SETUP, "x = 1", ANSWER, CHECK]
    assert submission.problems == (
        "The source of cell 2 is no text but an object; left out.",
        "Cell 3 is no cell but a number; left out.",
        "Cell 4 held null bytes, which were left out.",
    )
    (problem,) = given(SETUP, "#" * 60_000, CHECK).problems
    assert problem == "Cell 2 holds more text than anyone types (60,000 characters); left out."
    many = given(*[3] * 50, ANSWER).problems
    assert len(many) == 21
    assert many[-1] == "There are 30 more problems of this kind."


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install 'torch\nx = 1", "pass\nx = 1"),
        ("!pip install \\\n  torch\nx = 1", "pass\n\nx = 1"),
        ("if x:\n    %cd ..\ny = 2", "if x:\n    pass\ny = 2"),
        ("%%time\nx = 1", "\nx = 1"),
        ("%%capture out\n%matplotlib inline\nx = 1", "\npass\nx = 1"),
        ("x = !ls\ny = %timeit -o f()", "x = None\ny = None"),
        ("%time y = f(x)", "y = f(x)"),
        ("?torch\ntorch.softmax??\nx = 1", "pass\npass\nx = 1"),
        ("s = '''\n%time\n!ls\n'''\n%time x = s", "s = '''\n%time\n!ls\n'''\nx = s"),
        ("s = '!ls' % 3\nx = 5 \\\n%s", "s = '!ls' % 3\nx = 5 \\\n%s"),
        ("def f():\n\tif 1:\n        return 1", "def f():\n    if 1:\n        return 1"),
        ("    x = 1\n    y = 2", "x = 1\ny = 2"),
        ("x = = 1\n%time", "x = = 1\n%time"),
    ],
)
def test_cells_come_back_as_plain_python(given, source, expected):
    assert sources(given(source)) == [expected]


def test_cells_of_another_language_are_left_out(given):
    assert sources(given("%%bash\nrm -r /", "%%html\n<b>", "%%writefile x.py\nx = 1", CHECK)) == [
        CHECK
    ]


@pytest.mark.parametrize(
    "bomb",
    ["-" * 40_000 + "1", "a" + ".a" * 20_000, "(" * 40_000, "!x\n" * 16_000, "x\n" * 20_000 + "!"],
)
def test_source_that_is_hard_to_parse_stops_nothing(given, bomb):
    start = time.perf_counter()
    submission = given(SETUP, bomb, ANSWER, CHECK)
    assert sources(submission)[-2:] == [ANSWER, CHECK]
    assert time.perf_counter() - start < 20


def test_an_answer_that_refuses_at_its_end_is_no_stub(given):
    refuses = "def to_attend(mask, convention):\n    if mask is None:\n        return mask\n    raise NotImplementedError"
    other = "def to_attend(mask, convention):\n    return mask"
    copies = [cell(x, grade_id="mask_polarity_answer") for x in (other, refuses)]
    assert sources(given(*copies)) == [other, refuses]
