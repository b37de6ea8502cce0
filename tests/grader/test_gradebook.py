"""Scores on their way into a gradebook: everybody once, and nobody's points to somebody else."""

import csv
import json

import pytest

from attncourse.grading import load, names
from attncourse.grading.exercise import Verdict
from attngrade import Graded
from attngrade.gradebook import main
from attngrade.report import Run, write

FIRST = list(names("dot_product"))
POINTS = [load(name).points for name in FIRST]
ROSTER = """\
student,name,id,sis_login_id,section,email
anna,"Schmidt, Anna",17,as17,B,anna@uni.edu
ben,Ben O'Neil,18,bo18,B,ben@uni.edu
zoe,Zoë,19,zo19,B,zoe@uni.edu
"""


@pytest.fixture
def export(tmp_path, capsys):
    """Export these students, all of them right; returns the exit code, the rows, what was printed."""

    def run(form, *students, roster=None, edit=None, official=True):
        graded = [
            Graded(
                s,
                "x",
                "",
                tuple(Verdict(n, "passed", p, p) for n, p in zip(FIRST, POINTS, strict=True)),
            )
            for s in students
        ]
        write(graded, Run(official), tmp_path)
        scores = tmp_path / "scores.json"
        if edit:
            data = json.loads(scores.read_text("utf-8"))
            edit(data)
            scores.write_text(json.dumps(data), encoding="utf-8")
        out = tmp_path / "grades.csv"
        out.unlink(missing_ok=True)
        options = [str(scores), "--format", form, "--out", str(out)]
        if roster is not None:
            content = roster if isinstance(roster, bytes) else roster.encode("utf-8")
            (tmp_path / "roster.csv").write_bytes(content)
            options += ["--roster", str(tmp_path / "roster.csv")]
        code = main(options)
        rows = []
        if out.exists():
            with out.open(encoding="utf-8-sig" if form == "plain" else "utf-8", newline="") as file:
                rows = list(csv.reader(file))
        return code, rows, capsys.readouterr().out

    return run


def numbers(row):
    return [float(x) for x in row]


def test_canvas(export):
    code, rows, printed = export("canvas", "ben", "anna", roster=ROSTER)
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *FIRST]
    assert rows[1] == ["Points Possible", "", "", "", "", *map(str, POINTS)]
    assert rows[2] == ["Schmidt, Anna", "17", "", "as17", "B", *map(str, POINTS)]
    assert rows[4][:2] == ["Zoë", "19"]
    assert numbers(rows[4][5:]) == [0] * len(FIRST)
    assert "Zoë: nothing that could be graded was handed in, so 0 points" in printed
    assert (code, len(rows)) == (0, 5)


def test_moodle(export):
    code, rows, printed = export("moodle", "anna", roster=ROSTER)
    total = str(sum(POINTS))
    assert rows[0] == ["Email address", f"attncourse ({total} points)"]
    assert rows[1:] == [["anna@uni.edu", total], ["ben@uni.edu", "0"], ["zoe@uni.edu", "0"]]
    assert code == 0


def test_moodle_by_number_or_by_name(export):
    assert export("moodle", "anna", roster="student,id\nanna,17\n")[1][1][0] == "17"
    _, rows, _ = export("moodle", "anna")
    assert [row[0] for row in rows] == ["Username", "anna"]


def test_plain(export):
    _, rows, _ = export("plain", "anna", roster=ROSTER)
    who = ["student", "name", "id", "sis_user_id", "sis_login_id", "section", "email"]
    assert rows[0] == [*who, *FIRST, "total", "out_of"]
    assert rows[1][:3] == ["anna", "Schmidt, Anna", "17"]
    assert rows[1][-2:] == [str(sum(POINTS))] * 2
    assert rows[2][-2:] == ["0", str(sum(POINTS))]


@pytest.mark.parametrize("form", ["canvas", "moodle"])
def test_who_is_not_on_the_roster_is_left_out_and_named(form, export):
    code, rows, printed = export(form, "anna", "mallory", roster=ROSTER)
    assert code == 1
    assert not any("mallory" in x for row in rows for x in row)
    assert "mallory: left out, as the roster has no line for it" in printed


def test_plain_keeps_who_is_not_on_the_roster(export):
    code, rows, printed = export("plain", "anna", "mallory", roster=ROSTER)
    assert (code, rows[-1][0], rows[-1][-2]) == (0, "mallory", str(sum(POINTS)))
    assert "mallory: written, but the roster has no line for it" in printed


def test_canvas_does_not_take_a_student_for_the_points(export):
    code, rows, printed = export("canvas", "anna", "The Points Possible")
    assert (code, len(rows)) == (1, 3)
    assert "The Points Possible: left out" in printed


def test_canvas_gets_only_numbers_as_its_own(export):
    _, rows, _ = export("canvas", "anna", roster="student,id\nanna,12ab\n")
    assert rows[2][:2] == ["anna", ""]


@pytest.mark.parametrize("blank", ["", "0", " ", "=1+1"])
def test_moodle_gets_no_row_that_names_nobody(blank, export):
    roster = f"student,email\nanna,{blank}\nben,b@uni.edu\n"
    code, rows, printed = export("moodle", "anna", "ben", roster=roster)
    assert [row[0] for row in rows[1:]] == ["b@uni.edu"]
    assert (code, "anna: left out" in printed) == (1, True)


@pytest.mark.parametrize("form", ["canvas", "plain"])
def test_no_formula_is_exported(form, export):
    roster = "student,name,section\nanna,=HYPERLINK(1),@x\n"
    for row in export(form, "anna", "-1+1", roster=roster)[1]:
        assert not any(x.startswith(("=", "+", "-", "@")) for x in row)


def test_points_that_a_teacher_changed_are_exported(export):
    def change(data):
        data["students"][0]["verdicts"][0]["points"] = 0.5

    _, rows, _ = export("plain", "anna", edit=change)
    assert float(rows[1][-2]) == sum(POINTS[1:]) + 0.5


def test_accents_match_however_the_disk_stores_them(export):
    code, rows, _ = export("canvas", "Zoe\u0308", roster="student,name\nZo\u00eb,Z\n")
    assert (code, rows[2][0], numbers(rows[2][5:])) == (0, "Z", POINTS)


def test_two_submissions_for_one_line_are_not_guessed(export):
    code, rows, printed = export("canvas", "Zoe\u0308", "Zo\u00eb", roster="student\nZo\u00eb\n")
    assert (code, numbers(rows[2][5:])) == (1, [0] * len(FIRST))
    assert printed.count("two submissions share that line") == 2


@pytest.mark.parametrize(
    "roster", [ROSTER.replace(",", ";").replace("Schmidt;", "Schmidt,"), "\ufeff" + ROSTER]
)
def test_rosters_of_a_spreadsheet(roster, export):
    _, rows, _ = export("canvas", "anna", roster=roster)
    assert rows[2][:2] == ["Schmidt, Anna", "17"]


@pytest.mark.parametrize(
    ("roster", "says"),
    [
        ("name,id\nanna,1\n", "has no column 'student'"),
        ("", "has no column 'student'"),
        (b"student,name\nzoe,Zo\xeb\n", "is not UTF-8"),
        ("student\nanna\nanna\n", "has the student 'anna' twice"),
        ("student,email\nanna,a@b\nben,a@b\n", "has the email 'a@b' twice"),
        ("student\n" + "x" * 200_000, "is not a CSV that can be read"),
    ],
)
def test_rosters_that_cannot_be_used(roster, says, export):
    code, rows, printed = export("canvas", "anna", roster=roster)
    assert (code, rows) == (2, [])
    assert says in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("points", ["three", None, float("nan"), True])
def test_scores_that_cannot_be_used(points, export):
    def spoil(data):
        data["students"][0]["verdicts"][0]["points"] = points

    code, rows, printed = export("plain", "anna", edit=spoil)
    assert (code, rows) == (2, [])
    assert "is not a scores.json" in printed


def test_files_that_are_not_there(tmp_path, capsys):
    assert main([str(tmp_path / "no.json"), "--out", str(tmp_path / "x.csv")]) == 2
    assert "no.json cannot be read" in capsys.readouterr().out


def test_unofficial_scores_say_so(export):
    assert "scores are unofficial" in export("plain", "anna", official=False)[2]
    assert "scores are unofficial" not in export("plain", "anna")[2]
