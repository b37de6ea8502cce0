"""The notebooks of one student, one after the other in one sandbox; what ends it costs only who ended it."""

import hashlib
from contextlib import contextmanager

import nbformat
import pytest
from nbformat import v4
from support.grader import fake_judges

from attngrade import File, Order, grader
from attngrade.session import Session
from attngrade.settings import Settings

MASK = """import torch

def causal_mask(n, m):
    return torch.arange(m) <= torch.arange(n)[:, None]
"""
CHECK = 'from attncourse.grading import check\ncheck("causal_mask", causal_mask)'
GROUPED = """import torch

def grouped_query_attention(query, key, value):
    groups = query.unflatten(1, (key.size(1), -1)).flatten(2, 3)
    weights = torch.softmax(groups @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return (weights @ value).unflatten(2, (-1, query.size(2))).flatten(1, 2)
"""
CHECK_GROUPED = CHECK.replace("causal_mask", "grouped_query_attention")
ENDS, HANGS = "import os; os._exit(1)", "while True: pass"
TORCH, HOARD = "import torch", "import torch\nhoard = torch.ones(2**26)"
CHANGES = "torch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)"
ASKS = "assert torch.get_default_dtype() == torch.float32\nassert torch.is_grad_enabled()"
NOTEBOOKS = {  # of one student, in this order: every sandbox takes a second to start
    "raises": ("1 / 0", "x = (", MASK, "raise SystemExit", "'x' * 10**5 + 1", CHECK),
    "changes torch": (TORCH, CHANGES, MASK, CHECK),
    "asks": (TORCH, ASKS, CHECK),
    "hoards": (HOARD, MASK, CHECK),
    "comes after a hoard": (GROUPED, CHECK_GROUPED),
    "hoards itself": (HOARD, GROUPED, CHECK_GROUPED),
}


def graded(*notebooks, seconds=60):
    files = []
    for number, cells in enumerate(notebooks):
        cells = [v4.new_code_cell(source, id=f"cell-{k}") for k, source in enumerate(cells)]
        data = nbformat.writes(v4.new_notebook(cells=cells)).encode()
        files.append(File(f"{number}.ipynb", hashlib.sha256(data).hexdigest(), data))
    result = grader.grade(Order("anna", tuple(files)), Settings(b"s" * 32, seconds))
    assert result.complete, result
    return result.files


@pytest.fixture(scope="module")
def files():
    return dict(zip(NOTEBOOKS, graded(*NOTEBOOKS.values()), strict=True))


def verdict(file, name="causal_mask"):
    return next(x for x in file.verdicts if x.name == name)


def test_cells_that_raise_are_told_and_the_rest_counts(files):
    file = files["raises"]
    assert verdict(file).status == "passed"
    assert file.problems[0] == "Cell 1 raised ZeroDivisionError: division by zero."
    assert [x.split()[3].strip(":.") for x in file.problems] == [
        "ZeroDivisionError", "SyntaxError", "SystemExit", "TypeError"]  # fmt: skip


def test_cells_that_end_the_worker_or_hang_are_left_out_and_other_notebooks_do_not_notice():
    first, second = graded((ENDS, MASK, HANGS, CHECK), (MASK, CHECK), seconds=8)
    assert verdict(first).status == verdict(second).status == "passed"
    assert first.problems == ("Cell 1 ended the worker.", "Cell 3 took longer than 8 s.")
    assert second.problems == ()


def test_who_ends_the_worker_again_and_again_is_given_up(monkeypatch):
    monkeypatch.setattr(grader, "judge", fake_judges.impatient)
    (file,) = graded((*[ENDS] * (fake_judges.MOST_STARTS + 1), MASK, CHECK))
    assert verdict(file).status == "did not finish"
    assert "too often" in verdict(file).findings[0]


def test_a_notebook_knows_nothing_of_the_one_before_it(files):
    assert verdict(files["changes torch"]).status == "passed"
    assert verdict(files["asks"]).status == "not found"
    assert [x[:24] for x in files["asks"].problems] == ["Cell 3 raised NameError:"]


def test_memory_counts_where_it_was_taken(files):
    for name, status in {"comes after a hoard": "passed", "hoards itself": "failed"}.items():
        found = verdict(files[name], "grouped_query_attention")
        assert found.status == status, found


@pytest.mark.quick
def test_a_worker_whose_limit_cannot_be_lifted_judges_no_other_answer():
    class Box:
        filtered, open = False, True
        limited = contextmanager(lambda self, more: (yield 0))

        def close(self):
            self.open = False

    session, box = Session(Settings(b"s" * 32)), Box()
    session.box, session.has_run = box, True
    with pytest.raises(MemoryError, match="too large"), session.limited(1, 0):
        raise MemoryError("too large")
    assert not box.open
    assert session.box is None
    assert not session.has_run
