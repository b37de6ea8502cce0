"""Masters and student notebooks: complete, up to date, equal but for the blanks."""

import difflib
import json
import re
from pathlib import Path

import pytest
from support.book.notebooks import CHAPTERS, MASTERS, ROOT, STUDENTS, cells, chapter, each, read

from attncourse.grading import load, names
from attncourse.grading.card import FILE, card_of
from attncourse.grading.exercises import CHAPTERS as IN_ORDER

pytestmark = pytest.mark.quick

CHECK = re.compile(r'^check\("(\w+)", (\w+)\)$', re.M)
# In the font of prose code is hard to read, and nobody can copy it: quotes become curly, three dots one character.
CODE = re.compile(
    r"[\w.]*\w[(\[]"  # a call, an index
    r"|\w*_\w*|[*\[]|\.\.\.|-inf"
    r"|[A-Za-z]\w*(?:\.[A-Za-z]\w*)+"
    r"|[\w.]*\s(?:[=!<>]=|//|[-=+/%@<>|&])\s"
)
REGION = re.compile(r"^( *)### BEGIN SOLUTION\n.*?^ *### END SOLUTION\n?", re.M | re.S)


def checked(path: Path) -> list[str]:
    """The exercises of a notebook, in their order."""
    return [name for cell in cells(path, "code") for name, _ in CHECK.findall(cell.source)]


@pytest.fixture
def make_exercises(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import make_exercises

    return make_exercises


def test_student_notebooks_are_up_to_date(make_exercises, capsys):
    assert make_exercises.main(check=True) == 0, capsys.readouterr().out
    assert [path.name for path in MASTERS] == [path.name for path in STUDENTS]


@each(MASTERS)
def test_student_notebook_is_the_master_minus_its_blanks(path):
    """Told without nbgrader: the stub stands where the solution stood, and nothing else differs."""

    def blank(found):
        lines = ["# your code here"] + (["raise NotImplementedError"] if found[1] else [])
        return "".join(f"{found[1]}{line}\n" for line in lines)

    master, student = read(path), read(ROOT / "exercises" / path.name)
    assert len(master.cells) == len(student.cells)
    blanks = 0
    for ours, theirs in zip(master.cells, student.cells, strict=True):
        assert ours.cell_type == theirs.cell_type
        assert ours.id == theirs.id
        expected, here = REGION.subn(blank, ours.source + "\n")
        assert expected.rstrip() == theirs.source.rstrip()
        assert ours.cell_type != "code" or "### " not in theirs.source
        blanks += here
    assert blanks >= len(checked(path)), "every exercise leaves something to do"


@pytest.fixture
def one_master(make_exercises, monkeypatch, tmp_path):
    """The tool in an empty course, the path of the first master there, and its content."""
    masters = tmp_path / "exercises" / "solutions"
    masters.mkdir(parents=True)
    monkeypatch.setattr(make_exercises, "ROOT", tmp_path)
    monkeypatch.setattr(make_exercises, "MASTERS", masters)
    monkeypatch.setattr(make_exercises, "CARDS", tmp_path / "cards.json")
    raw = json.loads(MASTERS[0].read_text(encoding="utf-8"))
    return make_exercises, masters / MASTERS[0].name, raw


def test_a_new_cell_changes_no_other_line(one_master):
    make, path, raw = one_master
    raw["cells"].insert(4, {"cell_type": "markdown", "metadata": {}, "source": ["A new cell."]})
    path.write_text(json.dumps(raw), encoding="utf-8")
    make.main(check=False)
    for old, new in ((MASTERS[0], path), (STUDENTS[0], path.parents[1] / path.name)):
        lines = [x.read_text(encoding="utf-8").splitlines() for x in (old, new)]
        changes = [x[0] for x in difflib.ndiff(*lines) if x[0] in "+-?"]
        assert changes == ["+"] * 8, "the lines of one cell"
    assert make.main(check=True) == 0, "and its id stays"


@each(MASTERS)
def test_exercises_of_the_chapter_are_those_of_its_notebook(path):
    here = checked(path)
    assert tuple(here) == names(chapter(path))


@each(MASTERS)
def test_every_solution_was_seen_to_pass(path):
    """By what its cell printed, which the comparison with a new run keeps true."""
    for cell in cells(path, "code"):
        for name, _ in CHECK.findall(cell.source):
            said = "".join(str(output.get("data")) for output in cell.outputs)
            points = load(name).points
            assert f"{name}: passed, {points} of {points} points" in said


@each(STUDENTS)
def test_an_untouched_notebook_is_not_attempted(path, capsys):
    here = {"__name__": "__main__"}
    for cell in cells(path, "code"):
        exec(compile(cell.source, f"{path.name}, {cell.id}", "exec"), here)
    said = capsys.readouterr().out
    judged = [name for name in checked(path) if not load(name).left_out()]
    assert said.count("not attempted, 0 of") == len(judged)


def test_chapters_stand_in_the_order_of_the_book():
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    # exercises may be there before their chapter is
    written = [x for x in IN_ORDER if x in map(chapter, CHAPTERS)]
    for folder in ("chapters", "exercises"):
        in_toc = re.findall(rf"- file: {folder}/\d\d_(\w+)$", toc, re.MULTILINE)
        assert [x for x in in_toc if x in IN_ORDER] == written
    assert [chapter(path) for path in MASTERS] == list(IN_ORDER)
    assert list(json.loads(FILE.read_text(encoding="utf-8"))) == list(IN_ORDER)


@each(MASTERS)
def test_a_card_says_what_its_notebook_says(path):
    """Told without the tool: every word of a card and its hints stands between its heading and the next."""
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    sections = re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[1:]
    for name, section in zip(checked(path), sections, strict=True):
        card = card_of(name)
        title, _, line, *_ = section.split("\n")
        points = "1 point" if card.points == 1 else f"{card.points} points"
        assert title == card.title
        assert line == (
            f"*{card.kind} · {points} · difficulty {card.difficulty} of 5 · "
            f"about {card.minutes} minutes · needs {card.needs}*"
        )
        hints = enumerate(card.hints, 1)
        places = [section.index(f"Hint {k}</summary>\n\n{x}\n\n") for k, x in hints]
        assert places == sorted(places)


def test_an_exercise_without_a_card_is_told():
    with pytest.raises(KeyError, match="expected a card of split_hats .* run: make exercises"):
        card_of("split_hats")


WRONG = {  # what stands in exercise 3 of the first master, and what somebody writes instead
    "no line of a card": ("*Implement", "Implement"),
    "a kind that is none": ("*Implement", "*Improve"),
    "no points": (" · 3 points", ""),
    "0 points": ("3 points", "0 points"),
    "a difficulty beyond 5": ("difficulty 2", "difficulty 6"),
    "no minutes": (" · about 15 minutes", ""),
    "needs nothing": ("chapter 1*", "chapter 1"),
    "the number of another": ("## 3. ", "## 4. "),
    "no title": ("Scaled dot-product attention", ""),
    "no third hint": ("Hint 3", "Answer"),
    "an open hint": ("</details>\n\n<details><summary>Hint 2", "<details><summary>Hint 2"),
    "no hints": ("<details><summary>Hint 1", "<details><summary>Help 1"),
}


@pytest.mark.parametrize("what", WRONG)
def test_another_form_is_told_with_its_notebook_and_cell(what, one_master, capsys):
    make, path, raw = one_master
    old, new = WRONG[what]
    begin = next(k for k, x in enumerate(raw["cells"]) if "".join(x["source"]).startswith("## 3."))
    cell = next(x for x in raw["cells"][begin:] if old in "".join(x["source"]))
    cell["source"] = "".join(cell["source"]).replace(old, new)
    path.write_text(json.dumps(raw), encoding="utf-8")
    assert make.main(check=False) == 1
    said = capsys.readouterr().err
    part, form = ("hints", "Hint 1</s") if "hint" in what else ("card", "## 3. Title\n\n*Implement")
    name = f"the {part} of scaled_dot_product_attention"
    assert said.startswith(f"exercises/solutions/{path.name}, cell {cell['id']}: expected {name}")
    assert form in said
    assert f"got:\n\n{cell['source'][:40]}" in said
    assert list(path.parents[1].rglob("*.*")) == [path], "nothing is written"


def test_a_changed_hint_makes_the_cards_out_of_date(one_master, capsys):
    make, path, raw = one_master
    path.write_text(json.dumps(raw), encoding="utf-8")
    make.main(check=False)
    assert make.main(check=True) == 0
    old, new = card_of(names()[0]).hints[0], "Look at the softmax."
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    capsys.readouterr()
    assert make.main(check=True) == 1
    assert "cards.json: out of date, run: make exercises" in capsys.readouterr().out
    make.main(check=False)
    cards = json.loads(make.CARDS.read_text(encoding="utf-8"))
    assert cards[chapter(MASTERS[0])][names()[0]]["hints"][0] == new


def bare(text: str) -> list[str]:
    """The code that stands outside of backticks."""
    pieces = text.split("`")
    alone = ["a backtick without its partner"] * (len(pieces) % 2 == 0)
    return alone + [found for prose in pieces[::2] for found in CODE.findall(prose)]


BARE = (
    *("f(x)", "weights[..., 7:]", "[:, None]", "0, 1, ...", "head_dim", "__init__", "x.mT", "-inf"),
    *("a ** b", "n // 2", "s = 1", "a == b", "n - 1"),
)


@pytest.mark.parametrize("code", BARE)
def test_code_is_told_from_prose(code):
    assert bare(f"Look at {code} first.")
    assert not bare(f"Look at `{code}` first: 0.5, 1e-3 and -1 are numbers (2 of 3).")


def test_code_in_hints_and_cards_is_set_as_code():
    told = []
    for name in names():
        card = card_of(name)
        texts = {f"hint {k}": hint for k, hint in enumerate(card.hints, start=1)}
        for where, text in (texts | {"what it needs": card.needs}).items():
            told += [f"{name}, {where}: {found!r}" for found in bare(text)]
    expected = "they are Markdown: put code into backticks, whole expressions"
    assert not told, "\n".join([expected, *told])


@each(CHAPTERS)
def test_chapter_leads_to_its_exercises(path):
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    own = (ROOT / "exercises" / path.name).exists()  # the last chapter leads to the capstone
    assert f"(../exercises/{path.stem if own else 'capstone'}.ipynb" in text


@each([*MASTERS, *STUDENTS])
def test_nbgrader_metadata_is_whole(path):
    notebook = read(path)
    marks = [cell.metadata["nbgrader"] for cell in notebook.cells if "nbgrader" in cell.metadata]
    ids = [mark["grade_id"] for mark in marks]
    assert len(ids) == len(set(ids)), "a grade id is given once"
    assert all(re.fullmatch(r"\w+", x) and x != "answer" for x in ids)
    assert all(mark["schema_version"] == 3 for mark in marks)
    for cell in notebook.cells:
        mark = cell.metadata.get("nbgrader", {})
        found = CHECK.findall(cell.source) if cell.cell_type == "code" else []
        assert len(found) <= 1, "one check a cell"
        assert mark.get("grade", False) == bool(found)
        if found:
            assert mark["points"] == load(found[0][0]).points
            assert mark["locked"]
            assert f"{mark['grade_id']}_answer" in ids
