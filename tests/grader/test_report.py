"""The table of a class: nothing lost, nothing twice, nothing that a spreadsheet would run, no zero that nobody earned."""

import csv
import itertools
import random
import re
from dataclasses import replace
from unittest.mock import Mock

import pytest

from attncourse.grading import load, names
from attncourse.grading.sanitize import escape_hidden, spreadsheet_cell, truncate
from attncourse.grading.verdict import Verdict
from attngrade import Graded, Result
from attngrade.feedback import page_names
from attngrade.report import write
from attngrade.table import NOT_GRADED, Run, tabulate

FIRST = list(names("dot_product"))
SECOND = list(names("masks"))
RUN = Run(True, (("sandbox", "in force"),), ("One worker died.",), "3fa2c1")


def points(of):
    return sum(load(name).points for name in of)


def verdict(name, passed=True, **more):
    fields = {"status": "passed" if passed else "failed", "findings": ("expected 1, got 2",)}
    return Verdict(name, points=passed * points([name]), out_of=points([name]), **fields | more)


def file(name, passed=FIRST, *, of=FIRST, **more):
    """A file in which these exercises are right and the others of the chapter wrong."""
    return Graded(name, "ab" * 32, tuple(verdict(x, x in passed) for x in of), **more)


def result(student, *files, **more):
    return Result(student, "", files or (file(f"{student}.ipynb"),), **more)


@pytest.fixture
def report(tmp_path):
    """Write a report; returns the rows of the CSV and the pages by name."""

    def run(*results, run=RUN, folder="out"):
        out = tmp_path / folder
        write(results, run, out)
        assert {p.name for p in out.iterdir()} == {"scores.csv", "feedback"}
        with (out / "scores.csv").open(encoding="utf-8-sig", newline="") as csv_file:
            rows = list(csv.DictReader(csv_file))
        return rows, {p.name: p.read_text("utf-8") for p in (out / "feedback").iterdir()}

    return run


def test_scores_of_a_class(report):
    rows, pages = report(
        result("ben", file("ben.ipynb", FIRST[1:])),
        result("anna", file("anna/1"), file("anna/2", SECOND, of=SECOND)),
        result("cleo", Graded("cleo.ipynb", "", problems=("The file is empty.",))),
    )
    assert [row["student"] for row in rows] == ["anna", "ben", "cleo"]
    assert list(rows[0]) == ["student", *FIRST, *SECOND, "total", "out_of", "notes"]
    everything = str(points(FIRST + SECOND))
    assert [row["out_of"] for row in rows] == [everything] * 3
    assert [row["total"] for row in rows] == [everything, str(points(FIRST[1:])), "0"]
    assert (rows[1][FIRST[0]], rows[1][SECOND[0]]) == ("0", ""), "wrong, and not handed in"
    assert rows[2]["notes"] == "The file is empty."
    assert set(pages) == {"index.html", "anna.html", "ben.html", "cleo.html"}
    assert "One worker died." in pages["index.html"]
    assert "Nothing was handed in for this chapter." in pages["ben.html"]
    assert "Official score" in pages["ben.html"]


def test_what_the_grader_could_not_judge_is_open(report):
    failed = file("anna.ipynb")
    left = verdict(FIRST[0], False, status=NOT_GRADED, findings=("The worker did not start.",))
    failed = replace(failed, verdicts=(left, *failed.verdicts[1:]))
    rows, pages = report(result("anna", failed), result("ben"))
    assert [rows[0][x] for x in (FIRST[0], FIRST[1], "total")] == ["", str(points([FIRST[1]])), ""]
    assert f"Not graded: {FIRST[0]}." in rows[0]["notes"]
    assert rows[1]["total"] == str(points(FIRST))
    page = pages["anna.html"]
    assert f"{points(FIRST[1:])}</strong> of {points(FIRST)} points, 1 still open" in page
    assert 'not graded</span> <span class="of">1 point open' in page
    assert "The worker did not start." in page
    assert "Official score" not in page
    assert '<td class="number">not graded</td>' in pages["index.html"]
    unread = Graded("anna.ipynb", "", problems=("Not graded: why.",))
    (row,), pages = report(result("anna", unread, complete=False))
    assert (row["total"], row["notes"]) == ("", "Not graded: why.")
    assert "Not finished." in pages["anna.html"]


def test_same_bytes_in_any_order(report, tmp_path):
    results = [result(s, file("x", FIRST[n:])) for n, s in enumerate(("A", "a", "é", ""))]
    files = [file("b/2"), file("b/02.ipynb", of=SECOND), file("b/0.ipynb", [])]
    seen = set()
    for turn in range(4):
        report(*results, result("b", *files), folder=str(turn))
        made = sorted(p for p in (tmp_path / str(turn)).rglob("*") if p.is_file())
        seen.add(tuple((p.relative_to(tmp_path / str(turn)), p.read_bytes()) for p in made))
        random.Random(turn).shuffle(results)
        random.Random(turn).shuffle(files)
    assert len(seen) == 1
    assert str(tmp_path).encode() not in b"".join(text for _, text in next(iter(seen)))


def test_the_better_answer_counts_and_both_files_are_named(report):
    twice = result("b", file("b/1", [FIRST[0]]), file("b/2", [FIRST[1]], problems=("Odd.",)))
    (row,), pages = report(twice)
    assert row["total"] == str(points(FIRST[:2]))
    assert "The chapter dot_product was handed in 2 times (b/1, b/2)" in row["notes"]
    assert "b/2: Odd." in row["notes"]
    assert pages["b.html"].count("<article") == len(FIRST), "each exercise once"


ORDERED = ("not attempted", "failed", NOT_GRADED, "passed")


@pytest.mark.parametrize(("worse", "better"), [*itertools.combinations(ORDERED, 2)])
def test_of_two_answers_the_better_one_counts(worse, better):
    pair = [verdict(FIRST[0], s == "passed", status=s) for s in (worse, better)]
    for order in (pair, pair[::-1]):
        files = [Graded(str(n), "", (v,)) for n, v in enumerate(order)]
        (row,) = tabulate([result("b", *files)], RUN).rows
        assert row.verdicts[FIRST[0]].status == better
        assert row.complete == (better != NOT_GRADED)


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "x;=1+1", "a|=b"]
FORMULAS += ["\t=1", "\r=1", " =1", '"=1', "x; @a"]
ORDINARY = ["Anna-Lena Müller", "王小明", "O'Brien", "a=b", "x - y", "علی‌رضا"]


def test_no_cell_starts_a_formula(report):
    every = FORMULAS + ORDINARY
    rows, _ = report(*(result(text, file("x", problems=(text,))) for text in every))
    assert {row["student"] for row in rows} == {*map(spreadsheet_cell, FORMULAS), *ORDINARY}
    for part in [x for row in rows for x in re.split("[;|]", row["student"] + ";" + row["notes"])]:
        assert not part.lstrip(' "').startswith(("=", "+", "-", "@", "\t", "\r", "＝")), part


def test_what_is_for_the_teacher_is_not_on_the_page_of_the_student(report):
    note = "The same work was handed in by ben."
    rows, pages = report(result("anna", file("anna.ipynb", problems=("Odd.",), notes=(note,))))
    assert rows[0]["notes"] == f"Odd. {note}"
    assert note in pages["index.html"]
    assert "ben" not in pages["anna.html"]
    many = tuple(f"Note {n}." for n in range(25))
    _, pages = report(result("anna", file("anna.ipynb", problems=many)))
    assert ("Note 19." in pages["anna.html"], "Note 20." in pages["anna.html"]) == (True, False)
    assert "... and 5 more" in pages["anna.html"]
    assert "... and 22 more" in pages["index.html"]


def test_hidden_characters_are_shown():
    assert escape_hidden("a\u202eb\0\x1b[31m\udcff\ufffe\u2028") == (
        "a[U+202E]b[U+0000][U+001B][31m[U+DCFF][U+FFFE][U+2028]"
    )
    assert escape_hidden("a\nb", keep="\n") == "a\nb"
    assert truncate("x" * 10, most=4) == "xxxx ... (10 characters)"


HOSTILE = ["\0", "\x0b\x1f", "\ud800", "\udcff", "\ufffe", "]]>", "<a>&amp;", "\x85\r\n", "\u202e"]


def test_no_text_breaks_a_file(report):
    def odd(text):
        wrong = verdict(FIRST[0], False, findings=(text,), diagnosis=text)
        return result(text, Graded(text, text, (wrong,), (text,), (text,)))

    run = Run(False, (tuple(HOSTILE[:2]),), tuple(HOSTILE), HOSTILE[2])
    rows, pages = report(*map(odd, HOSTILE), run=run)
    assert {row["notes"] for row in rows} == {f"{x} {x}" for x in map(escape_hidden, HOSTILE)}
    assert len(rows) == len(HOSTILE) == len(pages) - 1


NAMES = ["../../x", "a/b", "a\\b", "a-b", "CON", "nul", "COM1", "index", "A", "a", ".", "..", "", " "]  # fmt: skip
NAMES += ["😀", "👩\u200d💻", "\u202egpj", "x\0y", "\udcff", "ＣＯＮ", "Straße", "strasse", "a--b"]
NAMES += ["x.html", "~", "%2e%2e", "con.", "student", "W" * 300, "w" * 299]


def test_pages_have_safe_and_different_names(report):
    found = page_names(NAMES)
    assert len({name.lower() for name in found.values()}) == len(NAMES)
    for name in found.values():
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
        assert name.count(".") == 1
        assert name.endswith(".html")
        assert len(name) < 110
        assert name.removesuffix(".html") not in {"con", "nul", "com1", "index", ""}
    assert page_names(["Anna Schmidt"]) == {"Anna Schmidt": "anna-schmidt.html"}
    assert page_names(["é"]) == {"é": "e.html"}
    taken = found["A"].removesuffix(".html")
    assert len(set(page_names(["A", "a", taken]).values())) == 3, "nobody takes another's page"
    _, pages = report(*map(result, NAMES))
    assert set(pages) == {"index.html", *found.values()}


def test_pages_of_an_earlier_run_go_and_other_files_stay(report, tmp_path):
    report(result("anna"), result("ben"))
    (tmp_path / "out/feedback/mine.html").write_text("<p>a note of the teacher")
    _, pages = report(result("anna"))
    assert set(pages) == {"index.html", "anna.html", "mine.html"}


def test_a_killed_write_leaves_the_old_file(report, tmp_path, monkeypatch):
    report(result("anna"))
    before = (tmp_path / "out/scores.csv").read_bytes()

    monkeypatch.setattr("os.replace", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        report(result("anna"), result("ben"))
    assert (tmp_path / "out/scores.csv").read_bytes() == before


def test_nobody_handed_in(report):
    rows, pages = report()
    assert rows == []
    assert "No submission was found." in pages["index.html"]
