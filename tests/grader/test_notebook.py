"""A notebook is read without running it: what was damaged is put right, what is absurd is told."""

import hashlib
import json
import random
from pathlib import Path

import pytest
from support.book.notebooks import MASTERS, ROOT, STUDENTS, chapter
from support.grader.submission import ANSWER, CHECK, SETUP, SOLVED, cell, sources

from attngrade import File
from attngrade import notebook as notebooks
from attngrade.notebook import read
from attngrade.submissions import contents

STUB = "def causal_mask(n, m):\n    raise NotImplementedError"


def file(data: bytes) -> File:
    return File("anna.ipynb", hashlib.sha256(data).hexdigest(), data)


def given(*cells, **other):
    cells = [cell(x) if isinstance(x, str) else x for x in cells]
    return read(file(json.dumps({"nbformat": 4, "cells": cells} | other).encode()))


def changed(path: Path, old: str, new: str):
    text = path.read_text(encoding="utf-8")
    assert old in text
    return read(file(text.replace(old, new).encode()))


# Whole notebooks


@pytest.mark.parametrize("path", [*MASTERS, *STUDENTS], ids=lambda p: "/".join(p.parts[-2:]))
def test_a_whole_notebook_is_read_as_it_is(path):
    notebook = read(contents(path, ROOT))
    assert notebook.problems == ()
    assert notebook.chapters == (chapter(path),)
    original = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = {k: "".join(c["source"]) for k, c in enumerate(original, 1) if c["cell_type"] == "code"}
    assert {c.number: c.source for c in notebook.cells} == code


def test_encodings_line_ends_and_the_older_format():
    text = json.dumps({"cells": [cell(x) for x in (SETUP, ANSWER, CHECK)]})
    for code in ("utf-8", "utf-8-sig", "utf-16", "utf-32-be"):
        assert sources(read(file(text.encode(code)))) == [SETUP, ANSWER, CHECK]
    broken = text.encode().replace(b"import torch", b"# \xff\\nimport torch")
    assert sources(read(file(broken))) == ["# \ufffd\n" + SETUP, ANSWER, CHECK]
    ends = [ANSWER.replace("\n", "\r\n"), ANSWER.replace("\n", "\r"), "\ufeff" + ANSWER]
    ends += [cell(ANSWER.splitlines(True)), cell(ANSWER.splitlines())]
    for one in ends:
        assert sources(given(one)) == [ANSWER]
    third = [{"cell_type": "code", "input": x, "language": "python"} for x in (ANSWER, CHECK)]
    third += [{"cell_type": "heading", "source": "x", "level": 2}, None]
    notebook = given(worksheets=[{"cells": third}], cells=None, nbformat=3)
    assert (sources(notebook), notebook.chapters) == ([ANSWER, CHECK], ("masks",))
    assert notebook.problems == ("Cell 4 is no cell, or its source is no text; left out.",)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b" \n", "The file is empty"),
        (b"%PDF-1.7 \xff\xfe", "cannot be read as JSON"),
        (b"{", "cannot be read as JSON"),
        (b"[" * 10**6, "nests lists in lists too deeply"),
        (b'{"cells": ' + b"9" * 5000 + b"}", "cannot be read as JSON"),
        (b"[1, 2]", "no notebook"),
        (b'{"cells": 3}', "no notebook"),
        (b'{"worksheets": [{"cells": 3}]}', "no notebook"),
        (b'{"cells": [' + b"{}," * 99_999 + b"{}]}", "has 100,000 cells; at most 2,000 were expected."),
    ],
)  # fmt: skip
def test_what_is_no_notebook_says_so(data, says):
    notebook = read(file(data))
    assert notebook.cells == notebook.chapters == ()
    (problem,) = notebook.problems
    assert says in problem
    assert problem.endswith(".")


def test_a_file_that_could_not_be_read_and_one_that_fails_unexpectedly(monkeypatch):
    assert read(File("x", problem="It is a link.")).problems == ("It is a link.",)
    monkeypatch.setattr(notebooks, "repair", lambda *_: 1 / 0)
    said = "Reading it failed unexpectedly, with ZeroDivisionError."
    assert given(ANSWER).problems == (said,)


def test_one_bad_cell_does_not_lose_the_rest():
    bad = [3, None, [], cell({"a": 1}), cell(["x", 1]), cell(None), {"metadata": [], "source": 3}]
    for one in bad:
        notebook = given(SETUP, one, ANSWER, CHECK)
        assert sources(notebook) == [SETUP, ANSWER, CHECK]
        assert notebook.problems == ("Cell 2 is no cell, or its source is no text; left out.",)
    odd = cell(ANSWER) | {"metadata": {"nbgrader": [3]}, "outputs": 3, "execution_count": 1e400}
    assert sources(given(odd, metadata=None, nbformat="4")) == [ANSWER]
    assert sources(given("x = 1\0", "y = '\ud800'")) == ["x = 1", "y = '?'"]
    (problem,) = given(SETUP, "#" * 60_000, CHECK).problems
    assert problem == "Cell 2 is too much (60,000 characters); left out."
    assert len(given(CHECK, *["#" * 49_000] * 7).cells) == 7
    assert given(CHECK, cell("x" * 60_000, "markdown")).problems == ()
    many = given(*[3] * 50, ANSWER).problems
    assert (len(many), many[-1]) == (21, "There are 30 more problems of this kind.")


# What it answers


def test_chapters_are_told_by_checks_then_ids_then_answers():
    assert given(CHECK).chapters == ("masks",)
    both = 'r = check("what_shrinks", 1)', f"%%time\n{CHECK}", 'check("no", 1)'
    assert given(ANSWER, *both).chapters == ("masks", "multi_query")
    comment = "# check('head_dim', x)"
    assert given(comment, cell("x = 1", grade_id="append")).chapters == ("kv_cache",)
    assert given(ANSWER, "x = 1").chapters == ("masks",)
    for nothing in ("class RepairedAttention: pass", "x = 1"):  # the class answers two chapters
        notebook = given(nothing)
        assert notebook.chapters == ()
        assert notebook.problems == ("It has no check(...) cell and no answer of this course.",)


def test_the_same_work_is_alike_and_hardly_an_answer_is_not():
    anna = read(contents(SOLVED, ROOT))
    assert anna.likeness
    assert changed(SOLVED, "    return -1", "    return  -1").likeness == anna.likeness
    assert changed(SOLVED, "return -1", "return -2").likeness != anna.likeness
    for path in STUDENTS:  # as it was shipped, nothing filled in
        assert read(contents(path, ROOT)).likeness == ""
    assert changed(STUDENTS[1], "leaking_loss = None", "leaking_loss = 0.24").likeness == ""
    assert len({read(contents(path, ROOT)).likeness for path in MASTERS}) == len(MASTERS)
    pdf = read(file(b"%PDF"))
    assert pdf.likeness == read(file(b"%PDF")).likeness != read(file(b"%PDF2")).likeness
    assert read(file(b"")).likeness == read(file(b" ")).likeness == ""


def test_answers_that_use_a_librarys_attention_are_noted():
    def note(uses: str) -> str:
        return f"The answer causal_mask in cell 2 uses a library's attention: {uses}."

    body, sdpa = "def causal_mask(n, m):\n    return {}", "scaled_dot_product_attention"
    assert given(SETUP, body.format(f"torch.nn.functional.{sdpa}(n, m, m)")).notes == (note(sdpa),)
    helpers = (
        f"from torch.nn.functional import {sdpa} as mine",
        "def helper(x):\n    return mine(x)",
    )
    assert given(body.format("other.attention(n)"), body.format("helper(n)"), *helpers).notes == (
        f"The answer causal_mask in cell 1 uses a library's attention: {sdpa}.",
        note(sdpa),
    )
    star = "from torch.nn.functional import *"
    both = given(star, body.format("multi_head_attention_forward(nn.MultiheadAttention(n))"))
    assert both.notes == (note("MultiheadAttention, multi_head_attention_forward"),)
    compared = f"print(torch.nn.functional.{sdpa}(q, k, v))", "model = torch.nn.MultiheadAttention"
    assert given(compared[0], body.format(f"n  # not {sdpa}"), "x = 1", CHECK).notes == ()
    own = f"def {sdpa}(q, k):\n    return q @ k", f"def attention(q, k):\n    return {sdpa}(q, k)"
    assert given(*own).notes == ()


# Damage


def test_a_split_cell_is_joined():
    head, tail = ANSWER.split("\n")
    notebook = given(SETUP, head, "", tail, CHECK)
    assert sources(notebook) == [SETUP, ANSWER, CHECK]
    assert [c.number for c in notebook.cells] == [1, 2, 5]
    joined = "Cells 2 and 4 are one cell that had been split; they were joined."
    assert notebook.problems == (joined,)
    three = 'def causal_mask(n, m):\n    """Return it."""', "    x = (", "        1)\n    return x"
    assert sources(given(*three, CHECK)) == ["\n".join(three), CHECK]
    parts = "def causal_mask(n, m):\n    x = ('%s'", "    % n)\n    return x"
    assert sources(given(*parts)) == ["\n".join(parts)]
    text = cell("Some text between them.", "markdown")
    assert sources(given(head, text, tail)) == [ANSWER]
    indented = "    def causal_mask(n, m):\n        return n"
    whole = given("def helper():\n    pass", indented)
    assert sources(whole)[1].startswith("def causal_mask")
    assert whole.problems == ()


@pytest.mark.parametrize("path", MASTERS[:4], ids=lambda p: p.stem)
def test_answers_survive_splits_at_any_line_and_magics(path):
    original = json.loads(path.read_text(encoding="utf-8"))["cells"]
    whole = sources(read(contents(path, ROOT)))
    answers = [c for c in original if "_answer" in str(c["metadata"]) and len(c["source"]) > 1]
    assert answers
    for one in answers:
        index = original.index(one)
        for at in range(1, len(one["source"])):
            parts = [cell("".join(some)) for some in (one["source"][:at], one["source"][at:])]
            parts[0]["metadata"] = one["metadata"]
            found = given(*original[:index], *parts, *original[index + 1 :])
            together = "".join(found.problems)
            assert "".join("\n".join(sources(found)).split()) == "".join("\n".join(whole).split()), together  # fmt: skip
            # joined, or two whole statements
            assert len(found.cells) == len(whole) + (together == "")
    for magic in ("%matplotlib inline\n", "!pip install 'x\n", "x = !ls\n", "%%time\n"):
        cells = [c | {"source": [magic, *c["source"], "\ntorch?"]} if c in answers else c for c in original]  # fmt: skip
        assert read(file(json.dumps({"cells": cells}).encode())).chapters == (chapter(path),)
        for old, new in zip(whole, sources(given(*cells)), strict=True):
            assert old in new


def test_an_answer_cell_that_became_text_is_code_again():
    retyped = cell(ANSWER, "markdown", "causal_mask_answer"), cell(CHECK, "raw", "causal_mask")
    notebook = given(SETUP, *retyped)
    assert sources(notebook) == [SETUP, ANSWER, CHECK]
    assert notebook.problems == (
        "Cell 2 had become Markdown; it was read as code.",
        "Cell 3 had become raw text; it was read as code.",
    )
    aside = cell(ANSWER.replace("<=", "<"), "raw", "causal_mask_answer")
    kept = cell(ANSWER, grade_id="causal_mask_answer")
    prose = [cell(x, "markdown", "decoder_mask_answer") for x in ("I was not able to.", "Sorry")]
    notebook = given(SETUP, kept, aside, *prose, cell("import this", "markdown", "other"))
    assert sources(notebook) == [SETUP, ANSWER]
    assert notebook.problems == ()


def test_copies_of_a_cell_stay_in_order_and_a_stub_undoes_nothing():
    copy = ANSWER.replace("<=", "<")
    copies = [cell(x, grade_id="causal_mask_answer") for x in (ANSWER, copy, STUB)]
    notebook = given(SETUP, *copies, CHECK)
    assert sources(notebook) == [SETUP, ANSWER, copy, CHECK]
    (told,) = notebook.problems
    differ = "Cells 2 and 3 are copies of one cell and differ; "
    assert told == f"{differ}where they define the same, the last one counts."
    assert sources(given(copies[2], CHECK)) == [STUB, CHECK]
    assert given(copies[0], copies[0], CHECK).problems == ()
    for undone in ("leaking_loss = None", "class X:\n    def f(self):\n        raise NotImplementedError"):  # fmt: skip
        same = [cell(x, grade_id="leaking_loss_answer") for x in ("leaking_loss = 0.2", undone)]
        assert sources(given(*same)) == ["leaking_loss = 0.2"]
    refuses = "def causal_mask(n, m):\n    if n:\n        return m\n    raise NotImplementedError"
    for real in (refuses, "class Mine(Base):\n    pass"):
        same = [cell(x, grade_id="causal_mask_answer") for x in (ANSWER, real)]
        assert sources(given(*same)) == [ANSWER, real], "that is no stub"


# What is no Python


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("%matplotlib inline\nx = 1", "get_ipython().run_line_magic('matplotlib', 'inline')\nx = 1"),
        ("!pip install 'torch", 'get_ipython().system("pip install \'torch")'),
        ("if x:\n    %cd ..", "if x:\n    get_ipython().run_line_magic('cd', '..')"),
        ("x = !ls", "x = get_ipython().getoutput('ls')"),
        ("%time y = f(x)", "get_ipython().run_line_magic('time', 'y = f(x)')"),
        ("torch.softmax??", "get_ipython().run_line_magic('pinfo2', 'torch.softmax')"),
        ("%%bash\nrm -r /", "get_ipython().run_cell_magic('bash', '', 'rm -r /\\n')"),
        ("%%capture out\nx = 1", "get_ipython().run_cell_magic('capture', 'out', 'x = 1\\n')"),
        ("\n%%capture \n%%time\nx = 1", "x = 1"),
        ("%%time\nx = !ls", "x = get_ipython().getoutput('ls')"),
        ("s = '''\n%time\n!ls\n'''", "s = '''\n%time\n!ls\n'''"),
        ("s = '!ls' % 3\nx = 5 \\\n%s", "s = '!ls' % 3\nx = 5 \\\n%s"),
        ("%cd\nx = '" + 999 * "long/" + "'", "get_ipython().run_line_magic('cd', '')\nx = '" + 999 * "long/" + "'"),
        ("    x = 1\n    y = 2", "x = 1\ny = 2"),
        ("x = await f()", "x = await f()"),
        ("x = = 1", "x = = 1"),
        ("if x:\n        y\n    z\n!ls", "if x:\n        y\n    z\n!ls"),
        ("def f(:\n    retrun 1", "def f(:\n    retrun 1"),
    ],
)  # fmt: skip
def test_magics_become_calls_as_in_a_notebook(source, expected):
    assert sources(given(CHECK, source, ANSWER)) == [CHECK, expected, ANSWER]


BOMBS = [
    ["a" + ".a" * 20_000], ["(" * 40_000], ["!x\n" * 16_000, "x\n" * 20_000 + "!"], ["!x\n" * 200] * 400,
    ["a" * 49_000 + " ?"], ["".join(f"a{k}=a{k + 1};" for k in range(3900))], ["def f("] * 1900, ["a<" * 24_000 + "a"],
]  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb[0][:6])
def test_source_that_is_hard_to_parse_stops_nothing(bomb):
    assert sources(given(SETUP, *bomb, ANSWER, CHECK))[-2:] == [ANSWER, CHECK]


def test_broken_bytes_are_read_or_told():
    data, rng = SOLVED.read_bytes(), random.Random(0)
    for _ in range(100):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 9)):
            at = rng.randrange(len(broken))
            broken[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        notebook = read(file(bytes(broken[: rng.choice([None, None, at])])))
        assert notebook.cells or notebook.problems
        assert "unexpectedly" not in str(notebook.problems)
        json.dumps(sources(notebook)).encode()
