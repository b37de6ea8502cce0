"""The page for teachers names nothing that is not there, and leaves out nothing that they will meet."""

import ast
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pandas
import pytest
import torch
from support.book.notebooks import ROOT
from support.grader.nbgrader_course import CONFIG
from support.grader.submission import ANSWER, CHECK, SETUP, cell
from support.grader.submission import write as notebook

from attncourse.grading import load
from attncourse.grading.verdict import Verdict
from attngrade import Graded, Result, cli, control, grader, judge, pool, settings
from attngrade.notebook import read
from attngrade.report import write
from attngrade.sandbox.bwrap import refuse_private
from attngrade.sandbox.sandbox import PROTECTIONS
from attngrade.submissions import alike, contents, handed_in
from attngrade.table import Run, tabulate

PAGE = (ROOT / "chapters" / "teachers.md").read_text(encoding="utf-8")
TUTOR = (ROOT / "exercises" / "AGENTS.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHERS = {"--privileged", "--nthreads"}  # of Docker and dask
EXERCISE = control.EXERCISE


def block(kind: str, holds: str) -> str:
    return next(text for language, text in BLOCKS if language == kind and holds in text)


def table(header: str) -> list[list[str]]:
    """The cells of the table whose first column has this header."""
    rows = PAGE.split(f"\n| {header} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[x.strip() for x in row.strip("|").split("|")] for row in rows]


def passed(student, status="passed"):
    points = load(EXERCISE).points
    verdict = Verdict(EXERCISE, status, points * (status == "passed"), points)
    return Result(student, "", (Graded("x.ipynb", "", (verdict,)),), complete=status == "passed")


def test_the_command_has_these_options_and_no_others():
    options = set(OPTION.findall(cli.parser().format_help())) - {"--help"}
    assert set(OPTION.findall(PAGE)) - OTHERS == options
    assert {row[0].strip("`").split()[0] for row in table("option")} == options
    defaults = [cli.parser().get_default(x) for x in ("seconds", "memory")]
    assert all(f"{x} if you say nothing" in PAGE for x in defaults)


def test_folders_are_collected_as_shown(tmp_path):
    shown = re.findall(r"^ +(\S+\.ipynb) +(\w+)", block("text", "submissions/"), re.MULTILINE)
    for path, _ in shown:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    found = {(path.relative_to(tmp_path).as_posix(), who) for who, path in handed_in(tmp_path)}
    assert found == {(path, who.removesuffix("s")) for path, who in shown}


def test_the_folder_that_is_proposed_is_not_refused(tmp_path, monkeypatch):
    """And one inside what every sandbox shows is."""
    install = block("sh", "venv").splitlines()
    home = tmp_path / install[0].split("~/")[1]
    environment = home / next(x for x in install if "venv" in x).split()[-1]
    for part in ("bin", "lib/python/site-packages/submissions"):
        (environment / part).mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(environment))
    words = block("sh", "--out").split()
    refuse_private(*(home / x for x in words if x.endswith("/")), home / "results" / "secret")
    (home / "link").symlink_to(environment / "lib")
    inside = environment / "lib/python/site-packages/submissions"
    for seen in (inside, home / "link" / "results", Path("/usr/share/class")):
        with pytest.raises(ValueError, match="Every submission could read"):
            refuse_private(home / "submissions", seen)


def test_the_report_has_these_files_and_columns(tmp_path):
    write([Result("anna", "", (Graded("anna.ipynb", ""),))], Run(True), tmp_path)
    made = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    described = {row[0].strip("`"): row[1] for row in table("file")}
    assert described.keys() == made
    header = (tmp_path / "scores.csv").read_text("utf-8-sig").split("\n")[0].split(",")
    assert set(re.findall(r"`(\w+)`", described["scores.csv"])) == set(header) - {"student"}


def test_the_command_leaves_these_files_and_codes(tmp_path, capsys, monkeypatch):
    def grade(order, settings):
        verdicts = passed("").files[0].verdicts if order.files[0].data else ()
        files = tuple(Graded(x.name, x.digest, verdicts, (x.problem,)) for x in order.files)
        return Result(order.student, order.digest, files)

    crew = pool.Crew(ThreadPoolExecutor(1), lambda: 1, grade)
    monkeypatch.setattr(pool, "local", lambda workers: nullcontext(crew))
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "anna.ipynb").symlink_to("nowhere")
    folders = [str(tmp_path / name) for name in ("submissions", "results")]
    assert cli.main([folders[0], "--out", folders[1]]) == cli.NOTHING
    for name in re.findall(r"`(results/[\w./]*)`", PAGE):
        assert (tmp_path / name).exists(), name
    assert "link" in (tmp_path / "results" / "scores.csv").read_text("utf-8-sig")
    sentence = PAGE.split("The exit code is")[1].split("\n\n")[0]
    codes = {cli.GRADED, cli.NOTHING, cli.NO_SANDBOX, cli.INTERRUPTED}
    assert {int(x) for x in re.findall(r"\d+", sentence)} == codes


def test_every_status_is_explained():
    used = set()
    course = ROOT / "attncourse" / "grading"
    for path in (course / "exercise.py", course / "verdict.py", *ROOT.glob("attngrade/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if getattr(getattr(node, "func", None), "id", "") == "Verdict" and node.args:
                used.add(ast.literal_eval(node.args[1]))
    assert used == {row[0] for row in table("status")}


def test_notes_read_as_shown(tmp_path):
    top, bottom = ANSWER.split("\n")
    other, library = ANSWER.replace("<=", "<"), "torch.nn.functional.scaled_dot_product_attention"
    copies = [cell(source, grade_id="causal_mask_answer") for source in (ANSWER, other)]
    long = "\n".join(["def causal_mask(n, m):", *["    n = n + 1  # and more"] * 30])
    said = []
    for name, *cells in (
        ("split", *"abc", top, bottom, CHECK),
        ("copied", *"abc", copies[0], *"abc", copies[1]),
        ("library", *"abc", f"def causal_mask(n, m):\n    return {library}(n, m)", CHECK),
    ):
        found = read(contents(notebook(tmp_path / f"{name}.ipynb", SETUP, *cells), tmp_path))
        said += found.problems + found.notes
    same = [notebook(tmp_path / f"{who}.ipynb", long, CHECK) for who in ("anna", "ben")]
    likeness = [read(contents(path, tmp_path)).likeness for path in same]
    said += alike((x.stem, x.name, y) for x, y in zip(same, likeness, strict=True)).values()
    (tmp_path / "empty.ipynb").touch()
    said += read(contents(tmp_path / "empty.ipynb", tmp_path)).problems
    verdict = Verdict("causal_mask", "passed", 1, 1)
    twice = Result("anna", "", tuple(Graded(x, "", (verdict,)) for x in ("a", "b")))
    said += [x.replace("(a, b)", "(...)") for x in tabulate([twice], Run(True)).rows[0].problems]
    said.append(judge.sentence("cell 7 raised NameError: ..."))
    found = re.findall(r"^- \*([A-Z][^*]+\.)\*", PAGE, re.MULTILINE)
    notes = {" ".join(note.split()) for note in found}
    assert len(notes) == 7
    assert notes <= set(said), said


CANVAS = """\
Student,ID,SIS Login ID,Section,Essay
    Points Possible,,,,10
"Schmidt, Anna",17,anna,B,7
Ben O'Neil,18,ben,B,
Zoe,19,zoe,B,
"""


@pytest.mark.parametrize("login", ["student", "login"])
@pytest.mark.parametrize("platform", ["canvas", "moodle"])
def test_lines_for_gradebooks_give_everybody_the_own_points(platform, login, tmp_path, monkeypatch):
    def named(student):
        return student if login == "student" else f"{student}_0017_late"

    graded = passed(named("anna")), passed(named("ben"), "not graded")
    write(graded, Run(True), tmp_path / "results")
    (tmp_path / "canvas.csv").write_text(CANVAS, encoding="utf-8")
    roster = "".join(f"{named(x)},{x}\n" for x in ("anna", "ben", "zoe"))
    (tmp_path / "roster.csv").write_text(f"student,login\n{roster}", encoding="utf-8")
    recipe = block("python", "canvas.csv" if platform == "canvas" else '"student", "total"')
    if login == "login":
        line = block("python", "index=pandas" if platform == "canvas" else "replace(")
        head, scores, rest = re.split(r"(?m)^(scores = .*\n)", recipe, maxsplit=1)
        recipe = head + scores + line + rest
    monkeypatch.chdir(tmp_path)
    exec(recipe, {})
    made, points = pandas.read_csv("grades.csv", dtype=str), str(load(EXERCISE).points)
    if platform == "moodle":
        assert made.to_numpy().tolist() == [["anna", points]], "what is not graded is no 0"
        return
    out_of = str(sum(x.points for x in tabulate(graded, Run(True)).exercises))
    assert made["attention"].fillna("").tolist() == [out_of, points, "", ""]
    assert made["Essay"].fillna("").tolist() == ["10", "7", "", ""]
    assert made["Student"][1] == "Schmidt, Anna"


def test_nbgrader_is_configured_as_its_test_does():
    assert block("python", "code_stub").strip() in CONFIG


def test_every_protection_is_explained():
    assert [row[0] for row in table("protection")] == list(PROTECTIONS)


def test_numbers_on_the_page_are_those_of_the_code():
    assert (control.EVERY, grader.TRIES) == (50, 2)
    assert "after every fifty" in PAGE
    assert "failed here, twice" in PAGE
    assert f"{settings.MOST_LIMITS} times the limit of a cell" in PAGE
    assert settings.MOST_LIMITS * cli.parser().get_default("seconds") == 30 * 60
    assert "half an hour" in PAGE
    assert "chapters/_data/attacks.json" in PAGE


def test_the_tutor_quotes_what_is_there():
    quoted = re.findall(r'"Most likely: (\w[^"]+)"', TUTOR)
    to_the_last_key = load("causal_mask").grade(lambda n, m: torch.ones(n, m).tril(m - n) > 0)
    assert quoted == [to_the_last_key.diagnosis]
    for path in re.findall(r"`([a-z_]+/[a-z_/.]+)`", TUTOR):
        assert (ROOT / path).exists(), path
    exclude = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert "exercises/AGENTS.md" in exclude, "it is no page of the book"
