"""The checks are checked: right answers in any style pass, and every known mistake hears its own name."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from fresh.sources import right_answers

from attncourse.grading import CheckFailed, check, exercises, hint, load, names, status
from attncourse.grading.compare import difference
from attncourse.grading.exercise import SEEDS, shows
from attncourse.grading.exercises import CHAPTERS, chapter_of
from attncourse.grading.isolation import torch_defaults
from attncourse.grading.judges import expected_of

NAMES = names()
JUDGED = [name for name in NAMES if not load(name).left_out()]
NOTEBOOK = import_module("attncourse.grading.check")  # the name in the package is the function
KINDS = ("Implement", "Repair", "Predict", "Measure", "Train")
SEEDS_OF_TESTS = range(3)
MOST_IDEAS = 12


def fails(exercise, answer, seed: int) -> bool:
    """Does the answer differ from a right one? Looked at no further than it takes to know."""
    expected = expected_of(exercise.judge, seed + SEEDS)
    with torch_defaults():
        return not shows(exercise.judge.observe(answer, seed + SEEDS), expected)


@pytest.mark.parametrize("name", JUDGED)
def test_every_idea_fails_and_hears_its_own_sentence(name):
    exercise, problems = load(name), []
    for mistake in exercise.ideas:
        heard = exercise.grade(mistake.answer).diagnosis
        if heard != mistake.says:
            problems.append(f"{mistake.says!r} heard {heard!r}")
        passed = [seed for seed in SEEDS_OF_TESTS[1:] if not fails(exercise, mistake.answer, seed)]
        problems += [f"seed {seed}: {mistake.says!r} passed" for seed in passed]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", NAMES)
def test_exercise_is_complete(name):
    exercise = load(name)
    assert exercise.name == name
    assert len(exercise.hints) == len(set(exercise.hints)) == 3
    assert exercise.right is not None, "an exercise shows one right answer"
    assert len(exercise.ideas) <= MOST_IDEAS, (
        f"at most {MOST_IDEAS} ideas by hand, got {len(exercise.ideas)}: ask first which explainer was silent, and teach that one"
    )
    for says in (mistake.says for mistake in exercise.ideas):
        assert re.fullmatch(r"\S.{10,}[.?!]", says), f"{says!r} is no whole sentence"


def test_exercises_are_of_all_kinds():
    assert {load(name).kind for name in NAMES} == set(KINDS)


def endless(*args, **kwargs):
    return endless(*args, **kwargs)


def raising(kind, *says):
    def answer(*args, **kwargs):
        raise kind(*says)

    return answer


class Refuses:
    """Whatever it is asked, it raises."""

    def __getattr__(self, name):
        raise RuntimeError(f"no {name} here")


NONSENSE = {
    "a string": "softmax",
    "a list of strings": ["a", "b"],
    "a bool": True,
    "a type": torch.nn.Linear,
    "nan": float("nan"),
    "a huge number": 10**400,
    "a tensor of NaN": torch.full((2, 3), torch.nan),
    "an empty tensor": torch.empty(0),
    "an empty dict": {},
    "an object that refuses": Refuses(),
    "returns None": lambda *a, **k: None,
    "returns a string": lambda *a, **k: "weights",
    "returns a function": lambda *a, **k: endless,
    "returns its input": lambda *a, **k: a[0] if a else None,
    "returns NaN": lambda *a, **k: (torch.full((2, 3, 5, 13), torch.nan), torch.full((2, 3, 5, 7), torch.nan)),
    "returns a scalar": lambda *a, **k: torch.tensor(1.0),
    "returns integers": lambda *a, **k: torch.ones(2, 3, 5, 13, dtype=torch.int64),
    "returns complex numbers": lambda *a, **k: torch.ones(2, 3, 5, 13, dtype=torch.complex64),
    "returns a sparse tensor": lambda *a, **k: torch.eye(3).to_sparse(),
    "takes no argument": lambda: None,
    "raises": raising(ZeroDivisionError, "a slip"),
    "exits": raising(SystemExit, 0),
    "never ends": endless,
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_nonsense_fails_cleanly(name):
    exercise = load(name)
    for what, answer in NONSENSE.items():
        verdict = exercise.grade(answer)
        assert (verdict.status, verdict.points) == ("failed", 0), what
        assert verdict.findings, what
        assert all(isinstance(x, str) and len(x) < 1000 for x in verdict.findings), what
        assert all(isinstance(x, str) for x in NOTEBOOK.details(verdict)), what


class StubLayer(torch.nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        raise NotImplementedError


@pytest.mark.parametrize("name", JUDGED)
def test_stub_is_not_attempted(name, capsys):
    exercise = load(name)
    # The stub of a number or a model is None; that of a kernel is tried in test_kernels.py.
    is_value = exercise.asks_for in ("number", "model") or not callable(exercise.right)
    for answer in (None, ...) if is_value else (None, ..., raising(NotImplementedError), StubLayer):
        assert exercise.grade(answer).status == "not attempted", answer
        check(name, answer)  # does not raise
        said = capsys.readouterr().out
        assert "not attempted, 0 of" in said
        assert "?." not in said


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(NOTEBOOK, "_verdicts", {})
    monkeypatch.setattr(NOTEBOOK, "_hints_given", NOTEBOOK.Counter())


FIRST = "scaled_dot_product_attention"


@pytest.mark.usefixtures("fresh")
def test_check_says_what_failed_and_raises(capsys):
    exercise, mask = load(FIRST), load("causal_mask").ideas[0]
    with pytest.raises(CheckFailed, match=rf'hint\("{FIRST}"\) helps'):
        check(FIRST, lambda q, k, v: exercise.right(3 * q, k, v))
    said = capsys.readouterr().out
    assert f"{FIRST}: failed, 0 of 3 points" in said
    assert "numbers differ; at [" in said
    assert "2 samples, 3 heads" in said, "on which shapes"
    status()
    assert re.search(rf"{FIRST} +0 of 3 +failed", capsys.readouterr().out)
    check(FIRST, exercise.right)
    status("dot_product")
    said = capsys.readouterr().out
    assert re.search(rf"{FIRST} +3 of 3 +passed", said)
    total = sum(load(name).points for name in names("dot_product"))
    assert re.search(rf"total +3 of {total}", said)
    with pytest.raises(CheckFailed):
        check("causal_mask", mask.answer)
    assert f"Most likely: {mask.says}" in capsys.readouterr().out


@pytest.mark.usefixtures("fresh")
def test_hints_grow(capsys):
    for k in (1, 2, 3):
        hint(FIRST)
        assert capsys.readouterr().out == f"Hint {k} of 3: {load(FIRST).hints[k - 1]}\n"
    hint(FIRST)
    assert "That was the last hint" in capsys.readouterr().out
    hint(FIRST, 1)
    assert "Hint 1 of 3" in capsys.readouterr().out
    with pytest.raises(ValueError, match="1 to 3; got 4"):
        hint(FIRST, 4)


@pytest.mark.usefixtures("fresh")
def test_status_before_the_first_check(capsys):
    status()
    assert "Nothing was checked yet" in capsys.readouterr().out


@pytest.mark.parametrize("call", [lambda n: check(n, None), hint, load])
def test_unknown_name_lists_near_names(call):
    with pytest.raises(KeyError, match=rf"'scaled_dot_product'; did you mean {FIRST}"):
        call("scaled_dot_product")


def test_a_chapter_and_a_name_with_a_number_are_told_what_to_name():
    with pytest.raises(KeyError, match="'capstone' is a chapter; name one of its exercises: dec"):
        hint("capstone")
    with pytest.raises(KeyError, match=r"'03\.split_heads'; did you mean split_heads\?"):
        load("03.split_heads")
    with pytest.raises(KeyError, match=r"'03_multi_head'; did you mean multi_head\?"):
        status("03_multi_head")
    with pytest.raises(KeyError, match=r"no chapter is called '99'; did you mean dot_product or"):
        names("99")


def test_what_is_no_function_is_told_so(capsys):
    with pytest.raises(CheckFailed):
        check("causal_mask", torch.ones(3, 3).tril().bool())
    assert "expected a function, got Tensor; pass the function" in capsys.readouterr().out


def test_every_exercise_has_its_place_in_the_order():
    assert len(NAMES) == len(set(NAMES))
    for chapter in CHAPTERS:
        files = {path.stem for path in Path(exercises.__path__[0], chapter).glob("[!_]*.py")}
        assert files == set(names(chapter))
        assert {chapter_of(name) for name in files} == {chapter}
    folders = {path.parent.name for path in Path(exercises.__path__[0]).glob("*/__init__.py")}
    assert folders == set(CHAPTERS)


def test_names_are_known_before_any_exercise_is_imported():
    code = """import sys
from attncourse.grading.exercises import chapter_of, names
assert chapter_of("split_heads") == "multi_head" and len(names()) > 40
print(*(x for x in sys.modules if x.startswith("attn") and x.count(".") > 3))"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not found.stdout.split()


@pytest.mark.tables
def test_table_of_the_book(book_table):
    rows = []
    for name in NAMES:
        exercise = load(name)
        styles = len(right_answers(exercise))
        counts = exercise.points, len(exercise.ideas), f"{styles} of {styles}"
        rows.append([name, exercise.kind, *counts])
    book_table(
        "exercise_scores",
        caption="Right styles that each check accepts, and the mistakes that it knows by heart",
        note=f"Judged on the inputs of {len(SEEDS_OF_TESTS)} seeds by tests/exercises/test_styles.py and test_grading.py. "
        "All other wrong answers are explained by what they show.",
        columns=["Exercise", "Kind", "Points", "Mistakes by heart", "Styles accepted"],
        rows=rows,
    )


def test_numbers_that_differ_are_seen_to_differ():
    told = difference(torch.tensor([1.2320]), torch.tensor([1.23245]))
    right, got = told.partition("expected ")[2].split(", got ")
    assert right != got, told
