"""`make new`: the stubs of each kind fit into the house, say what is left to do, and a wrong name writes nothing."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
import yaml
from support.book import form, glossary
from support.book.notebooks import CHAPTERS, ROOT

NEW = (("mask", "strided_window", 3), ("score", "recency", 1), ("variant", "hashed", 5))
NAMES = [name for _, name, _ in NEW]
NUMBERS = {name: len(CHAPTERS) + k for k, name in enumerate(NAMES, start=1)}
STEMS = {name: f"{number:02}_{name}" for name, number in NUMBERS.items()}
HIDDEN = shutil.ignore_patterns(".*", "_build", "build", "__pycache__", "*.egg-info", "figures")


def python(house, *command):
    """Run something with the copy in place of the repository."""
    environment = os.environ | {"PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=house, env=environment, capture_output=True, text=True
    )


def contents(house) -> dict[str, str]:
    found = [path for path in house.rglob("*") if path.suffix in (".py", ".ipynb", ".md", ".yml")]
    return {path.relative_to(house).as_posix(): path.read_text("utf-8") for path in found}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A copy of the repository in which nothing is new."""
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("new") / "untouched", ignore=HIDDEN)


@pytest.fixture(scope="module")
def made(untouched):
    """A copy with one mechanism of each kind, and what the tool said."""
    house, said = shutil.copytree(untouched, untouched.parent / "made"), {}
    for kind, name, count in NEW:
        done = python(house, "tools/new.py", kind, "--exercises", str(count), "--", name)
        assert done.returncode == 0, done.stderr
        said[name] = done.stdout
    done = python(house, "tools/make_exercises.py")
    assert done.returncode == 0, done.stderr
    return house, said


def test_stubs_along_the_whole_way(made, untouched):
    house, said = made
    before, after = contents(untouched), contents(house)
    written = set(after) - set(before)
    cards = json.loads((house / "attncourse/grading/cards.json").read_text("utf-8"))
    for _, name, count in NEW:
        stem, folder = STEMS[name], f"attncourse/grading/exercises/{name}"
        own = {x for x in written if name in x}
        tasks = {x for x in own if x.startswith(folder)} - {f"{folder}/__init__.py"}
        assert len(tasks) == count
        assert all("TODO" in cards[Path(x).stem]["hints"][0] for x in tasks)
        assert own - tasks >= {
            f"{folder}/__init__.py",
            f"chapters/{stem}.ipynb",
            f"exercises/{stem}.ipynb",
            f"exercises/solutions/{stem}.ipynb",
            f"tests/support/cases/{name}.py",
        }
        listed = set(re.findall(r"^(\S+): (?:changed|written)$", said[name], re.M))
        assert own - {f"exercises/{stem}.ipynb"} <= listed, "what was written is told"
    assert {x for x in before if before[x] != after[x]} == {
        "_toc.yml",
        "index.md",
        "attncourse/grading/exercises/__init__.py",
        "attncourse/masks.py",
        "attncourse/scores.py",
        "attncourse/spec/__init__.py",
        "attncourse/spec/dense.py",
        "attncourse/spec/scores.py",
        "attncourse/spec/sparse.py",
        "chapters/api_mechanism.md",
        "chapters/glossary.md",
        "tests/support/mutants/package.py",
    }
    assert "attncourse/variants/hashed.py" in written


def test_what_to_do_next_is_told_in_order(made):
    house, said = made
    for name, text in said.items():
        steps = [int(x) for x in re.findall(r"^(\d)\. ", text, re.M)]
        assert steps == list(range(1, len(steps) + 1))
        targets = re.findall(r"make ([a-z-]+)", text)
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)
        for path in re.findall(r"[\w/]+\.(?:py|ipynb|md)\b", text):
            assert (house / path).exists(), f"{name}: {path}"


def test_the_pages_that_list_chapters_list_them(made):
    house, _ = made
    toc = yaml.safe_load((house / "_toc.yml").read_text("utf-8"))
    entries = [entry for part in toc["parts"] for entry in part["chapters"]]
    numbered = [x for x in entries if re.match(r"chapters/\d\d_", x["file"])]
    assert numbered[-3:] == [
        {"file": f"chapters/{STEMS[name]}", "sections": [{"file": f"exercises/{STEMS[name]}"}]}
        for name in NAMES
    ]
    index = (house / "index.md").read_text("utf-8")
    for name, number in NUMBERS.items():
        assert f"](chapters/{STEMS[name]}.ipynb), chapter {number} |" in index
    terms = re.findall(
        r"^(?! )(.+)\n  ", (house / "chapters" / "glossary.md").read_text("utf-8"), re.M
    )
    assert {"strided window", "recency", "hashed"} <= set(terms)
    letters = [re.sub(r"\W", "", x.lower()) for x in terms]
    assert letters == sorted(letters)
    assert python(house, "tools/renumber.py").stdout == "Every chapter has its number.\n"


def test_code_parses_and_is_tidy(made, untouched):
    house, _ = made
    new = sorted(set(contents(house)) - set(contents(untouched)))
    code = [x for x in new if x.endswith(".py")] + ["attncourse/masks.py"]
    code += [f"attncourse/spec/{x}.py" for x in ("__init__", "dense", "scores", "sparse")]
    for path in code:
        ast.parse((house / path).read_text("utf-8"))
    for command in (["check"], ["format", "--check"]):
        done = python(house, "-m", "ruff", *command, "--no-cache", *code)
        assert done.returncode == 0, done.stdout


def test_notebooks_have_the_form_of_the_others(made):
    house, _ = made
    for name, stem in STEMS.items():
        for folder in ("chapters", "exercises/solutions", "exercises"):
            notebook = nbformat.read(house / folder / f"{stem}.ipynb", as_version=4)
            nbformat.validate(notebook)
            assert set(notebook.metadata) == {"kernelspec", "language_info"}
            assert notebook.cells[0].source.startswith("# ")
            assert notebook.cells[1].metadata.tags == ["bootstrap", "remove-cell"]
        chapter = nbformat.read(house / "chapters" / f"{stem}.ipynb", as_version=4)
        assert chapter.cells[0].cell_type == "markdown", "words come before any code"
        assert f"../exercises/{stem}.ipynb" in str(chapter), name


def test_chapter_has_the_form_of_one_that_teaches(made):
    """Only what is still to be written breaks a rule: figures, words, cells."""
    house, _ = made
    for stem in STEMS.values():
        chapter = nbformat.read(house / "chapters" / f"{stem}.ipynb", as_version=4)
        (missing,) = form.opening(chapter)
        assert "got from attncourse.show import diagrams" in missing
        for rule in (form.small_cells, form.predictions, form.verdicts, form.sections):
            assert rule(chapter) == []
        assert form.size(chapter), "no stub is a chapter"
        text = form.prose(chapter)
        assert form.PREDICTION in text
        assert glossary.unknown_links(text, glossary.terms()) == []
        used = {tag for cell in chapter.cells for tag in form.tags(cell)}
        assert used >= {"hide-input", "hide-output", "hide-cell", "nbval-ignore-output"}


def test_right_tests_fail_and_say_what_is_to_do(made, untouched, tmp_path):
    house, _ = made
    tests = "mechanism/test_contracts.py", "mechanism/test_mutants.py", "exercises/test_grading.py"
    paths = [f"tests/{x}" for x in (*tests, "book/test_unfinished.py")]
    chosen = " or ".join([f"({x} and not nonsense)" for x in NAMES] + ["left_to_do"])
    report = f"--junitxml={tmp_path / 'report.xml'}"
    done = python(
        house, "-m", "pytest", "-q", "-p", "no:cacheprovider", report, "-k", chosen, *paths
    )
    assert done.returncode == 1, done.stdout[-3000:]
    cases = ElementTree.parse(tmp_path / "report.xml").getroot().iter("testcase")
    failures = {f"{x.get('classname')} {x.get('name')}": x.find("failure") for x in cases}
    failed = {name: x.get("message") for name, x in failures.items() if x is not None}
    for name in NAMES:
        told = {k.split(".")[2].split()[0]: v for k, v in failed.items() if name in k}
        assert told.keys() == {"test_contracts", "test_mutants", "test_grading"}
    for name, message in failed.items():
        counted = "test_exercise_is_complete" in name and re.search(r"assert \d+ >= \d+", message)
        assert "TODO" in message or counted, f"{name}: {message}"
    (unfinished,) = [x.text for name, x in failures.items() if "left_to_do" in name]
    before = contents(untouched)
    changed = {k: text for k, text in contents(house).items() if text != before.get(k)}
    assert all(path in unfinished for path, text in changed.items() if "TODO" in text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Dilated", "cannot name a mechanism"),
        ("2d", "cannot name a mechanism"),
        ("../x", "cannot name a mechanism"),
        ("", "cannot name a mechanism"),
        ("class", "cannot name a mechanism"),
        ("causal", "is defined already, in attncourse/masks.py"),
        ("longformer_layer", "is defined already, in attncourse/spec/sparse.py"),
        ("layers", "exists already: attncourse/layers.py"),
        ("dot_product", "exists already: "),
    ],
)
def test_wrong_name_is_told(name, message, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    assert message in import_module("new").problem(name, ROOT)


def test_a_number_of_exercises_that_is_none_is_told(untouched):
    done = python(untouched, "tools/new.py", "mask", "x", "--exercises", "0")
    assert done.returncode == 2
    assert "choose from 1, 2" in done.stderr


def test_second_time_is_refused_and_writes_nothing(made):
    house, _ = made
    before = contents(house)
    done = python(house, "tools/new.py", "score", "--", "hashed")
    assert done.returncode == 1
    assert "hashed exists already" in done.stderr
    assert "Traceback" not in done.stderr
    assert contents(house) == before


def test_a_list_that_has_moved_is_told_before_anything_is_written(untouched, tmp_path):
    house = shutil.copytree(untouched, tmp_path / "house")
    (house / "index.md").write_text("# No map\n")
    before = contents(house)
    done = python(house, "tools/new.py", "mask", "--", "strided")
    assert done.returncode == 1
    assert "index.md needs a place for '| [Strided](chapters/" in done.stderr
    assert contents(house) == before
