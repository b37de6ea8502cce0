"""The tables of a class: nothing lost, nothing twice, nothing that a spreadsheet would run."""

import csv
import json
import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from attncourse.grading import load, names
from attncourse.grading.__main__ import as_junit as one_as_junit
from attncourse.grading.exercise import Verdict
from attncourse.grading.run_notebook import Score
from attncourse.grading.sanitize import escape_hidden, spreadsheet_cell, truncate
from attngrade import Graded
from attngrade.feedback import page_names
from attngrade.report import Run, write

FIRST = list(names("dot_product"))
SECOND = list(names("masks"))
RUN = Run(True, (("sandbox", "in force"),), ("One worker died.",), "3fa2c1")


def verdict(name, passed=True, **more):
    points = load(name).points
    status = "passed" if passed else "failed"
    return Verdict(name, **{"status": status, "points": passed * points, "out_of": points} | more)


def graded(student, passed=FIRST, *, of=FIRST, file=None, problems=()):
    """A file in which these exercises are right and the others of the chapter wrong."""
    verdicts = tuple(verdict(name, name in passed, findings=("expected 1, got 2",)) for name in of)
    return Graded(student, file or f"{student}.ipynb", "ab" * 32, verdicts, tuple(problems))


@pytest.fixture
def report(tmp_path):
    """Write a report; returns the rows of the CSV, the JSON, the XML and the pages by name."""

    def run(*submissions, run=RUN, folder="out"):
        out = tmp_path / folder
        write(submissions, run, out)
        with (out / "scores.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        data = json.loads((out / "scores.json").read_text("utf-8"))
        pages = {p.name: p.read_text("utf-8") for p in (out / "feedback").iterdir()}
        return rows, data, ET.parse(out / "scores.xml").getroot(), pages

    return run


def test_scores_of_a_class(report):
    empty = Graded("cleo", "cleo.ipynb", "", (), ("The file is empty.",))
    rows, data, suites, pages = report(
        graded("ben", FIRST[1:]), graded("anna"), graded("anna", of=SECOND, passed=SECOND), empty
    )
    assert [row["student"] for row in rows] == ["anna", "ben", "cleo"]
    assert list(rows[0]) == ["student", *FIRST, *SECOND, "total", "out_of", "notes"]
    everything = sum(load(name).points for name in FIRST + SECOND)
    assert [row["out_of"] for row in rows] == [str(everything)] * 3
    assert rows[0]["total"] == str(everything)
    assert rows[1][FIRST[0]] == "0", "wrong: no points"
    assert rows[1][SECOND[0]] == "", "not handed in: no number"
    assert int(rows[1]["total"]) == sum(load(name).points for name in FIRST[1:])
    assert (rows[2]["total"], rows[2]["notes"]) == ("0", "The file is empty.")
    anna, ben, cleo = data["students"]
    assert [v["status"] for v in ben["verdicts"]] == ["failed"] + ["passed"] * (len(FIRST) - 1)
    assert ben["verdicts"][0]["findings"] == ["expected 1, got 2"]
    assert anna["points"] == everything == data["out_of"]
    assert data["official"] is True
    assert data["protections"] == [{"name": "sandbox", "state": "in force"}]
    assert [suite.get("name") for suite in suites] == ["anna", "ben", "cleo"]
    assert [suite.get("failures") for suite in suites] == ["0", "1", "0"]
    assert suites.find("testsuite[@name='cleo']/testcase/error").get("message")
    assert int(suites.get("tests")) == len(suites.findall(".//testcase"))
    assert set(pages) == {"index.html", *(Path(s["page"]).name for s in data["students"])}
    assert "One worker died." in pages["index.html"]
    assert "Nothing was handed in for this chapter." in pages["ben.html"]


def test_pandas_reads_numbers(report, tmp_path):
    report(graded("Zoë"), graded("=1+1", of=SECOND))
    read = pandas.read_csv(tmp_path / "out" / "scores.csv")
    assert list(read.columns[:2]) == ["student", FIRST[0]], "no byte order mark in the name"
    assert list(read.student) == ["'=1+1", "Zoë"]
    assert read[FIRST[0]].isna().tolist() == [True, False]
    assert read.total.sum() == sum(load(name).points for name in FIRST)


def test_same_bytes_in_any_order(report, tmp_path):
    submissions = [graded(s, FIRST[n:]) for n, s in enumerate(("b", "A", "a", "é", ""))]
    submissions += [graded("b", of=SECOND, file="b/02.ipynb"), graded("b", [], file="b/0.ipynb")]
    seen = set()
    for turn in range(4):
        report(*submissions, folder=str(turn))
        files = sorted(p for p in (tmp_path / str(turn)).rglob("*") if p.is_file())
        seen.add(tuple((p.relative_to(tmp_path / str(turn)), p.read_bytes()) for p in files))
        random.Random(turn).shuffle(submissions)
    assert len(seen) == 1
    assert str(tmp_path).encode() not in b"".join(text for _, text in next(iter(seen)))


def test_the_better_answer_counts_and_both_files_are_named(report):
    twice = [graded("b", [FIRST[0]], file="b/1.ipynb"), graded("b", [FIRST[1]], file="b/2.ipynb")]
    (row,), data, *_ = report(*twice)
    assert row["total"] == str(sum(load(name).points for name in FIRST[:2]))
    assert "The chapter dot_product was handed in 2 times (b/1.ipynb, b/2.ipynb)" in row["notes"]
    assert [f["file"] for f in data["students"][0]["files"]] == ["b/1.ipynb", "b/2.ipynb"]
    assert len(data["students"][0]["verdicts"]) == len(FIRST), "each exercise once"


def test_an_attempt_is_shown_rather_than_a_stub(report):
    stub = Graded("b", "1", "", (verdict(FIRST[0], False, status="not attempted"),))
    _, data, *_ = report(stub, Graded("b", "2", "", (verdict(FIRST[0], False),)))
    assert data["students"][0]["verdicts"][0]["status"] == "failed"


def test_problems_name_their_file_where_there_are_several(report):
    (row,), *_ = report(graded("b", problems=["It is damaged."]))
    assert row["notes"] == "It is damaged."
    other = graded("b", of=SECOND, file="b/2.ipynb")
    (row,), *_ = report(graded("b", problems=["It is damaged."]), other)
    assert row["notes"] == "b.ipynb: It is damaged."


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        " =1",
        '"=1',
        "＝1",
        "x;=1+1",
        "x; @a",
        "a|=b",
    ],
)
def test_no_cell_starts_a_formula(text, report):
    (row,), *_ = report(graded(text, file="x", problems=[text]))
    for key in ("student", "notes"):
        for part in row[key].replace("|", ";").split(";"):
            assert not part.lstrip(' "').startswith(("=", "+", "-", "@", "\t", "\r", "＝")), part
    assert row["student"] == spreadsheet_cell(text) != text
    assert row["student"].startswith("'") == text.startswith(tuple("=+-@\t\r＝"))


@pytest.mark.parametrize(
    "text", ["Anna-Lena Müller", "王小明", "O'Brien", "a=b", "x - y", "علی‌رضا"]
)
def test_ordinary_names_stay_as_they_are(text, report):
    (row,), *_ = report(graded(text, file="x"))
    assert row["student"] == text


def test_what_is_for_the_teacher_is_not_on_the_page_of_the_student(report):
    note = "The same work was handed in by ben."
    rows, data, suites, pages = report(replace(graded("anna"), confidential=(note,)))
    assert rows[0]["notes"] == note
    assert data["students"][0]["confidential"] == [note]
    assert note in pages["index.html"]
    assert "ben" not in pages["anna.html"]


def test_hidden_characters_are_shown():
    assert escape_hidden("a\u202eb\0\x1b[31m\udcff\ufffe\u2028") == (
        "a[U+202E]b[U+0000][U+001B][31m[U+DCFF][U+FFFE][U+2028]"
    )
    assert escape_hidden("a\nb", keep="\n") == "a\nb"
    assert truncate("x" * 10, most=4) == "xxxx ... (10 characters)"


HOSTILE = ["\0", "\x0b\x1f", "\ud800", "\udcff", "\ufffe", "]]>", "<a>&amp;", "\x85\r\n", "\u202e"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_breaks_a_file(text, report, tmp_path):
    wrong = verdict(FIRST[0], False, findings=(text,), diagnosis=text)
    rows, data, suites, pages = report(
        Graded(text, text, "", (wrong,), (text,)), run=Run(False, ((text, text),), (text,), "")
    )
    assert data["students"][0]["student"] == text
    assert suites[0].get("name") == escape_hidden(text)
    assert suites.find(".//failure").text.strip() == escape_hidden(text, keep="\n\t").strip()
    assert len(rows) == 1
    assert len(pages) == 2
    score = Score(tmp_path / "x.ipynb", [wrong], [text])
    assert ET.fromstring(one_as_junit(score)).find("testcase/failure") is not None


NAMES = [
    *("../../x", "a/b", "a\\b", "a-b", "CON", "nul", "COM1", "index", "A", "a", "", " ", ".", ".."),
    *(
        "W" * 300,
        "w" * 299,
        "😀",
        "👩‍💻",
        "\u202egpj",
        "x\0y",
        "\udcff",
        "ＣＯＮ",
        "Straße",
        "strasse",
    ),
    *("a--b", "x.html", "~", "%2e%2e", "con.", "student"),
]


def test_pages_have_safe_and_different_names(report):
    found = page_names(NAMES)
    assert len({name.lower() for name in found.values()}) == len(NAMES)
    for name in found.values():
        assert name.isascii()
        assert name == name.lower()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
        assert name.count(".") == 1
        assert name.endswith(".html")
        assert len(name) < 110
        assert name.removesuffix(".html") not in {"con", "nul", "com1", "index", ""}
    assert page_names(["Anna Schmidt"]) == {"Anna Schmidt": "anna-schmidt.html"}
    assert page_names(["é"]) == {"é": "e.html"}
    *_, pages = report(*(graded(name, file="x") for name in NAMES))
    assert set(pages) == {"index.html", *found.values()}


def test_no_student_can_take_the_page_of_another():
    taken = page_names(["A", "a"])["A"].removesuffix(".html")
    assert len(set(page_names(["A", "a", taken]).values())) == 3


def test_pages_of_an_earlier_run_go_and_other_files_stay(report, tmp_path):
    report(graded("anna"), graded("ben"))
    (tmp_path / "out/feedback/mine.html").write_text("<p>a note of the teacher")
    *_, pages = report(graded("anna"))
    assert set(pages) == {"index.html", "anna.html", "mine.html"}


def test_a_killed_write_leaves_the_old_file(report, tmp_path, monkeypatch):
    report(graded("anna"))
    before = (tmp_path / "out/scores.json").read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        report(graded("anna"), graded("ben"))
    assert (tmp_path / "out/scores.json").read_bytes() == before


def test_an_exercise_that_does_not_exist_is_refused(report):
    with pytest.raises(KeyError, match="no exercise"):
        report(Graded("a", "a", "", (Verdict("nothing", "passed", 9, 9),)))


def test_nobody_handed_in(report):
    rows, data, suites, pages = report()
    assert rows == data["students"] == list(suites) == []
    assert "No submission was found." in pages["index.html"]
