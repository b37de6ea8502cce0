"""The page for teachers names nothing that is not there, and leaves out nothing that they will meet."""

import ast
import csv
import io
import re
import subprocess
import sys
from importlib import import_module

import pytest
from grader.attacks import FAMILIES
from support.hostile_env import all_of
from support.nbgrader_course import CONFIG
from support.notebooks import ROOT
from support.notebooks_fixture import ANSWER, CHECK, SETUP, cell
from support.notebooks_fixture import write as notebook

from attncourse.grading import load, names
from attncourse.grading.exercise import Verdict
from attngrade import Graded, batch, gradebook
from attngrade.far.sandbox import Sandbox
from attngrade.grade import sentence
from attngrade.report import write
from attngrade.submissions import collect, duplicates, read
from attngrade.table import Run, tabulate

PAGE = (ROOT / "chapters" / "teachers.md").read_text(encoding="utf-8")
TUTOR = (ROOT / "exercises" / "AGENTS.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMANDS = {
    "attngrade ": "attngrade",
    "attngrade.gradebook": "attngrade.gradebook",
}
OTHERS = {"--privileged", "--nthreads"}  # of Docker and dask


def block(kind: str, holds: str) -> str:
    return next(text for language, text in BLOCKS if language == kind and holds in text)


def table(header: str) -> list[list[str]]:
    """The cells of the table whose first column has this header."""
    rows = PAGE.split(f"\n| {header} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[x.strip() for x in row.strip("|").split("|")] for row in rows]


@pytest.fixture(scope="module")
def options():
    """What each command says about itself."""
    found = {}
    for name, module in COMMANDS.items():
        ran = subprocess.run(
            [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True
        )
        found[name] = set(OPTION.findall(ran.stdout)) - {"--help"}
    return found


def test_commands_have_these_options_and_no_others(options):
    assert set(OPTION.findall(PAGE)) - OTHERS == set().union(*options.values())
    for _, text in BLOCKS:
        for line in text.replace("\\\n", "").splitlines():
            for name, known in options.items():
                if name in line:
                    assert set(OPTION.findall(line)) <= known, line


def test_folders_are_collected_as_shown(tmp_path):
    shown = re.findall(r"^ +(\S+\.ipynb) +(\w+)", block("text", "submissions/"), re.MULTILINE)
    for path, _ in shown:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    found = {(path.relative_to(tmp_path).as_posix(), who) for who, path in collect(tmp_path)}
    assert found == {(path, who.removesuffix("s")) for path, who in shown}


def test_the_report_has_these_files_and_columns(tmp_path):
    write([Graded("anna", "anna.ipynb", "")], Run(True), tmp_path)
    made = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    described = {row[0].strip("`"): row[1] for row in table("file")}
    assert described.keys() == made
    header = (tmp_path / "scores.csv").read_text("utf-8-sig").split("\n")[0].split(",")
    assert set(re.findall(r"`(\w+)`", described["scores.csv"])) == set(header) - {"student"}


def test_the_command_leaves_these_files_and_codes(tmp_path, capsys):
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "anna.ipynb").symlink_to("nowhere")
    folders = [str(tmp_path / name) for name in ("submissions", "results")]
    assert batch.main([folders[0], "--out", folders[1]]) == batch.NOTHING
    for name in re.findall(r"`(results/[\w./]*)`", PAGE):
        assert (tmp_path / name).exists(), name
    assert "link" in (tmp_path / "results" / "scores.csv").read_text("utf-8-sig")
    sentence = PAGE.split("The exit code is")[1].split("\n\n")[0]
    codes = {batch.GRADED, batch.NOTHING, batch.NO_SANDBOX, batch.INTERRUPTED}
    assert {int(x) for x in re.findall(r"\d+", sentence)} == codes
    defaults = [batch.parser().get_default(x) for x in ("seconds", "memory")]
    assert all(f"{x} if you say nothing" in PAGE for x in defaults)


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
    other = ANSWER.replace("<=", "<")
    copies = [cell(source, grade_id="causal_mask_answer") for source in (ANSWER, other)]
    said = []
    for k, cells in enumerate(
        [["# text"] * 4 + [top, bottom, CHECK], ["# text"] * 4 + [copies[0], *"abc", copies[1]]]
    ):
        path = notebook(tmp_path / f"{k}.ipynb", SETUP, *cells[1:])
        said += read("anna", path, tmp_path).problems
    long = "\n".join(["def causal_mask(n, m):", *["    n = n + 1  # and more"] * 30])
    same = [notebook(tmp_path / f"{who}.ipynb", long, CHECK) for who in ("anna", "ben")]
    said += duplicates(read(path.stem, path, tmp_path) for path in same).values()
    (tmp_path / "empty.ipynb").touch()
    said += read("cleo", tmp_path / "empty.ipynb", tmp_path).problems
    verdict = Verdict("causal_mask", "passed", 1, 1)
    twice = [Graded("anna", name, "", (verdict,)) for name in ("a.ipynb", "b.ipynb")]
    said += tabulate(twice, Run(True)).rows[0].problems
    said = [note.replace("(a.ipynb, b.ipynb)", "(...)") for note in said]
    said.append(sentence("cell 7 raised NameError: ..."))
    found = re.findall(r"^- \*([A-Z][^*]+\.)\*", PAGE, re.MULTILINE)
    notes = {" ".join(note.split()) for note in found}
    assert len(notes) == 6
    assert notes <= set(said)


@pytest.mark.parametrize("form", gradebook.FORMATS)
def test_the_gradebook_takes_the_roster_shown(form, tmp_path, capsys):
    (tmp_path / "roster.csv").write_text(block("text", "student,name"), encoding="utf-8")
    verdict = Verdict(names()[0], "passed", 1, 1)
    write([Graded(x, "x", "", (verdict,)) for x in ("anna", "zoe")], Run(True), tmp_path)
    files = [str(tmp_path / x) for x in ("scores.json", "grades.csv", "roster.csv")]
    code = gradebook.main([files[0], "--format", form, "--out", files[1], "--roster", files[2]])
    assert code == (form != "plain"), "1: zoe is on no roster"
    assert "zoe" in capsys.readouterr().out
    text = (tmp_path / "grades.csv").read_text("utf-8-sig")
    assert ("zoe" in text) == (form == "plain")
    assert "Ben Okoro" in text or "ben@school.example" in text
    assert gradebook.main([files[2], "--out", files[1]]) == 2
    header = next(csv.reader(io.StringIO(text)))
    assert form != "moodle" or header[0] in gradebook.MOODLE_NAMES.values()
    columns = set(re.findall(r"`(\w+)`", PAGE.split("The **roster**")[1].split("\n\n")[0]))
    assert columns == set(gradebook.COLUMNS)
    assert set(gradebook.MOODLE_NAMES.values()) <= set(re.findall('"([A-Z][^"]+)"', PAGE))


def test_nbgrader_is_configured_as_its_test_does():
    assert block("python", "code_stub").strip() in CONFIG


def test_every_protection_is_explained():
    with Sandbox(bubblewrap=False) as sandbox:
        assert [row[0] for row in table("protection")] == [x for x, _ in sandbox.protections]


@pytest.mark.tables
def test_the_table_of_attacks_is_that_of_the_suite(book_table):
    rows, through = [], []
    for family in FAMILIES:
        says = import_module(f"grader.attacks.{family}").__doc__.split("\n")[0]
        known = [attack for attack in all_of(family) if attack.known]
        through += [f"{attack.name}: {attack.known}" for attack in known]
        rows.append([family, len(all_of(family)), len(known), says])
    rows.append(["all", *(sum(row[k] for row in rows) for k in (1, 2)), ""])
    book_table(
        "attacks",
        caption="Hostile notebooks in the test suite",
        note=f"Each is graded when the suite runs. Known to get through: {'; '.join(through) or 'none'}.",
        columns=["family", "notebooks", "known to get through", "what they try"],
        rows=rows,
    )
    assert "chapters/_data/attacks.json" in PAGE


def test_the_tutor_quotes_what_is_there():
    quoted = re.findall(r'"Most likely: (\w[^"]+)"', TUTOR)
    assert len(quoted) == 1
    assert set(quoted) <= {mistake.says for mistake in load("causal_mask").mistakes}
    for path in re.findall(r"`([a-z_]+/[a-z_/.]+)`", TUTOR):
        assert (ROOT / path).exists(), path
    exclude = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert "exercises/AGENTS.md" in exclude, "it is no page of the book"
