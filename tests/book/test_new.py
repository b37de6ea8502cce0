"""`make new`: the stubs of each kind fit into the house and say what is left to do."""

import ast
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
import yaml
from support.book import form, glossary
from support.book.house import contents, copied, python, refused
from support.book.notebooks import CHAPTERS, ROOT, chapter

NEW = (
    ("mask", "strided_window", 3, "sinks"),
    ("score", "recency", 1, ""),
    ("variant", "hashed", 5, ""),
)
NAMES = [name for _, name, *_ in NEW]
ORDER = [chapter(path) for path in CHAPTERS]
ORDER.insert(ORDER.index("sinks") + 1, "strided_window")
CAPSTONE = ORDER.index("choosing")
ORDER[CAPSTONE:CAPSTONE] = ["recency", "hashed"]  # before it, in the order in which they come
STEMS = {name: f"{ORDER.index(name) + 1:02}_{name}" for name in NAMES}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def before(house):
    """What the copy holds while nothing is new."""
    return contents(house)


@pytest.fixture(scope="module")
def made(house, before):
    """The copy with mechanisms of each kind and an exercise, and what the tool said."""
    said = {}
    asked = [(kind, name, str(n), "--after", after) for kind, name, n, after in NEW]
    asked += [("mask", "odd_keys", "0"), ("exercise", "blind_spot", "1", "--chapter", "masks")]
    for kind, name, count, *more in asked:
        more = more if all(more) else []
        done = python(house, "tools/new.py", kind, "--exercises", count, *more, "--", name)
        assert done.returncode == 0, done.stderr
        said[name] = done.stdout
    done = python(house, "tools/make_exercises.py")
    assert done.returncode == 0, done.stderr
    return house, said


def listed(said: str) -> set[str]:
    """The files that the tool says to have written."""
    return set(re.findall(r"^(\S+): (?:changed|written)$", said, re.M))


def test_stubs_along_the_whole_way(made):
    house, said = made
    cards = json.loads((house / "attncourse/grading/cards.json").read_text("utf-8"))
    for kind, name, count, _ in NEW:
        stem, folder = STEMS[name], f"attncourse/grading/exercises/{name}"
        tasks = [x for x in listed(said[name]) if x.startswith(folder) and "__init__" not in x]
        assert len(tasks) == count
        assert all("TODO" in cards[name][Path(x).stem]["hints"][0] for x in tasks)
        shared = {"mask": "attncourse/masks.py", "score": "attncourse/scores.py"}
        own = {"attncourse/variants/hashed.py", "chapters/api_mechanism.md"}
        family = {"mask": "sparse", "score": "scores", "variant": "dense"}[kind]
        assert listed(said[name]) - set(tasks) == {
            "_toc.yml",
            "index.md",
            "chapters/glossary.md",
            f"attncourse/spec/{family}.py",
            f"{folder}/__init__.py",
            f"chapters/{stem}.ipynb",
            f"exercises/solutions/{stem}.ipynb",
            f"tests/exercises/styles/{name}.py",
            f"tests/support/cases/{name}.py",
            *({shared[kind]} if kind in shared else own | {"tests/support/mutants/package.py"}),
        }
        assert all((house / x).exists() for x in listed(said[name])), "under its last number"
        assert (house / "exercises" / f"{stem}.ipynb").exists()


def test_a_mechanism_without_exercises_is_three_files(made):
    _, said = made
    expected = {
        "attncourse/masks.py",
        "attncourse/spec/sparse.py",
        "tests/support/cases/odd_keys.py",
    }
    assert listed(said["odd_keys"]) == expected


def test_an_exercise_joins_its_chapter(made):
    house, said = made
    assert listed(said["blind_spot"]) == {
        "attncourse/grading/exercises/masks/blind_spot.py",
        "exercises/solutions/02_masks.ipynb",
        "tests/exercises/styles/masks.py",
    }
    before, after = (
        nbformat.read(root / "exercises/solutions/02_masks.ipynb", as_version=4).cells
        for root in (ROOT, house)
    )
    counted = re.compile(r"(\w+) exercises, (\d+) points")
    assert counted.search(before[0].source).groups() == ("Seven", "13")
    assert counted.search(after[0].source).groups() == ("Eight", "16")
    sources = [cell.source for cell in after]
    new = sources.index('check("blind_spot", blind_spot)')
    assert sources[new - 2].startswith("## 8. Blind spot\n\n*Implement")
    assert all("Hint 3" in sources[k] for k in (new - 3, new + 1)), "behind the last one"
    old = [cell.source for cell in before]
    assert sources[1 : new - 2] + sources[new + 2 :] == old[1:], "nothing else changes"
    order = "from attncourse.grading import names; print(names('masks')[-1])"
    assert python(house, "-c", order).stdout == "blind_spot\n"


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
    assert [x["file"].split("/")[1][3:] for x in numbered] == ORDER
    for stem in STEMS.values():
        entry = {"file": f"chapters/{stem}", "sections": [{"file": f"exercises/{stem}"}]}
        assert numbered[int(stem[:2]) - 1] == entry
    index = (house / "index.md").read_text("utf-8")
    for stem in STEMS.values():
        assert f"](chapters/{stem}.ipynb), chapter {int(stem[:2])} |" in index
    page = (house / "chapters" / "glossary.md").read_text("utf-8")
    terms = re.findall(r"^(?! )(.+)\n  ", page, re.M)
    assert {"strided window", "recency", "hashed"} <= set(terms)
    letters = [re.sub(r"\W", "", x.lower()) for x in terms]
    assert letters == sorted(letters)
    assert python(house, "tools/renumber.py").stdout == "Every chapter has its number.\n"


def test_code_parses_is_tidy_and_has_room(made):
    house, said = made
    code = sorted({x for text in said.values() for x in listed(text) if x.endswith(".py")})
    for path in code:
        text = (house / path).read_text("utf-8")
        ast.parse(text)
        assert len(text.splitlines()) <= 285, path
    for command in ("check", "format --check", "check --select=E501 --config=line-length=100"):
        where = [x for x in code if "E501" not in command or "grading" in x]
        done = python(house, "-m", "ruff", *command.split(), "--no-cache", *where)
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
        written = nbformat.read(house / "chapters" / f"{stem}.ipynb", as_version=4)
        assert written.cells[0].cell_type == "markdown", "words come before any code"
        assert f"../exercises/{stem}.ipynb" in str(written), name


def test_chapter_has_the_form_of_one_that_teaches(made):
    """Only what is still to be written breaks a rule: figures, words, cells."""
    house, _ = made
    for stem in STEMS.values():
        written = nbformat.read(house / "chapters" / f"{stem}.ipynb", as_version=4)
        (missing,) = form.opening(written)
        assert "got from attncourse.show import diagrams" in missing
        for rule in (form.small_cells, form.predictions, form.verdicts, form.sections):
            assert rule(written) == []
        assert form.size(written), "no stub is a chapter"
        text = form.prose(written)
        assert form.PREDICTION in text
        assert glossary.unknown_links(text, glossary.terms()) == []
        used = {tag for cell in written.cells for tag in form.tags(cell)}
        assert used >= {"hide-input", "hide-output", "hide-cell", "nbval-ignore-output"}


def test_right_tests_fail_and_say_what_is_to_do(made, before, tmp_path):
    house, said = made
    tests = (
        "mechanism/test_contracts.py",
        "mechanism/test_mutants.py",
        "exercises/test_grading.py",
    )
    tests += ("exercises/test_styles.py", "book/test_layering.py", "book/test_unfinished.py")
    ours = [f"({x} and not nonsense)" for x in (*NAMES, "odd_keys", "blind_spot")]
    chosen = " or ".join([*ours, "left_to_do"])
    report = f"--junitxml={tmp_path / 'report.xml'}"
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", report, "-k", chosen)
    done = python(house, "-m", "pytest", *options, *(f"tests/{x}" for x in tests))
    assert done.returncode == 1, done.stdout[-3000:]
    cases = ElementTree.parse(tmp_path / "report.xml").getroot().iter("testcase")
    failures = {f"{x.get('classname')} {x.get('name')}": x.find("failure") for x in cases}
    failed = {name: x.get("message") for name, x in failures.items() if x is not None}
    of_exercises, of_mechanisms = {"test_styles"}, {"test_contracts", "test_mutants"}
    whole = dict.fromkeys(NAMES, of_exercises | of_mechanisms)
    for name, told in (whole | {"odd_keys": of_mechanisms, "blind_spot": of_exercises}).items():
        assert {k.split(".")[2].split()[0] for k in failed if name in k} == told, name
    for name, message in failed.items():
        assert re.search("TODO|not attempted", message), f"{name}: {message}"
    (unfinished,) = [x.text for name, x in failures.items() if "left_to_do" in name]
    changed = {k: text for k, text in contents(house).items() if text != before.get(k)}
    elsewhere = re.compile("styles/|cards.json")
    places = [k for k, text in changed.items() if "TODO" in text and not elsewhere.search(k)]
    assert all(path in unfinished for path in places)


def test_second_time_is_refused_and_writes_nothing(made):
    assert "hashed exists already" in refused(made[0], "tools/new.py", "score", "--", "hashed")
