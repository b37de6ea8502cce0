"""What students hand in is found, read without running it, and healed."""

import hashlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.notebooks import MASTERS, ROOT, STUDENTS
from support.notebooks_fixture import ANSWER, CHECK, SETUP, SOLVED, cell, write

from attngrade.submissions import collect, duplicates, read


@pytest.fixture
def given(tmp_path):
    """Reads a notebook made of these cells."""
    return lambda *cells, **other: read(
        "anna", write(tmp_path / "anna.ipynb", *cells, **other), tmp_path
    )


def reason(path: Path) -> str:
    """The one problem of a file of which nothing can be graded."""
    submission = read("anna", path, path.parent)
    assert submission.cells == submission.chapters == ()
    (problem,) = submission.problems
    return problem


# Finding what was handed in


def test_one_notebook_a_student_and_one_folder_a_student(tmp_path):
    for name in ("ben/03.ipynb", "ben/sub/04.ipynb", "ben/notes.txt", "anna.ipynb", "carl.pdf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in (".hidden.ipynb", "._anna.ipynb", "ben/.ipynb_checkpoints/03.ipynb", "__MACOSX/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "dora").mkdir()
    (tmp_path / "emil").mkdir()
    (tmp_path / "emil" / "work.zip").touch()
    found = [(student, str(path.relative_to(tmp_path))) for student, path in collect(tmp_path)]
    assert found == [
        ("anna", "anna.ipynb"),
        ("ben", "ben/03.ipynb"),
        ("ben", "ben/sub/04.ipynb"),
        ("carl", "carl.pdf"),
        ("dora", "dora"),
        ("emil", "emil/work.zip"),
    ]


def test_a_folder_without_submissions_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="nothing to grade in it; expected one notebook a student"):
        collect(tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        collect(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is no folder"):
        collect(write(tmp_path / "anna.ipynb"))


def test_links_pipes_and_sockets_are_named_and_not_opened(tmp_path):
    secret = write(tmp_path / "secret.ipynb", ANSWER, CHECK)
    root = tmp_path / "class"
    root.mkdir()
    (root / "anna.ipynb").symlink_to(secret)
    (root / "ben").symlink_to(tmp_path)
    os.mkfifo(root / "carl.ipynb")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "dora.ipynb"))
        found = {student: read(student, path, root) for student, path in collect(root)}
    assert list(found) == ["anna", "ben", "carl", "dora"]
    assert all(not s.cells and not s.digest for s in found.values())
    assert found["anna"].problems == ("anna.ipynb is a link, and links are not followed.",)
    assert found["ben"].problems == ("ben is a link, and links are not followed.",)
    assert "was not opened" in found["carl"].problems[0]
    assert "was not opened" in found["dora"].problems[0]
    inside = read("ben", root / "ben" / "secret.ipynb", root)
    assert inside.problems == ("ben is a link, and links are not followed.",)


def test_links_in_the_folder_of_a_student_are_named(tmp_path):
    (tmp_path / "anna").mkdir()
    write(tmp_path / "anna" / "mine.ipynb", ANSWER, CHECK)
    (tmp_path / "anna" / "folder").symlink_to("/")
    problems = [read(student, path, tmp_path).problems for student, path in collect(tmp_path)]
    assert problems == [("folder is a link, and links are not followed.",), ()]


@pytest.mark.parametrize("by", [lambda path, secret: path.symlink_to(secret), lambda path, _: os.mkfifo(path)])  # fmt: skip
def test_a_file_that_is_exchanged_while_it_is_looked_at(by, tmp_path, monkeypatch):
    secret, path = write(tmp_path / "secret", ANSWER), write(tmp_path / "anna.ipynb", ANSWER)
    opened = os.open

    def late(name, flags):
        path.unlink()
        by(path, secret)
        return opened(name, flags)

    monkeypatch.setattr(os, "open", late)
    submission = read("anna", path, tmp_path)
    assert not submission.cells
    assert submission.problems


def test_files_without_end_are_not_read_to_their_end(tmp_path, monkeypatch):
    monkeypatch.setattr("attngrade.submissions.LARGEST_DIGEST", 1000)
    path, opened = tmp_path / "anna.ipynb", os.open
    path.write_bytes(bytes(1001))
    submission = read("anna", path, tmp_path)
    assert (submission.digest, len(submission.problems)) == ("", 1)
    path.write_bytes(bytes(1000))

    def grown(name, flags):
        path.write_bytes(bytes(60 * 2**20))
        return opened(name, flags)

    monkeypatch.setattr(os, "open", grown)
    submission = read("anna", path, tmp_path)
    assert submission.digest in {hashlib.sha256(bytes(20 * 10**6 + 1 + n)).hexdigest() for n in (10**6, 2**20)}  # fmt: skip


def test_names_of_odd_bytes_survive(tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n<b>.ipynb"))
    write(odd, SETUP, ANSWER, CHECK)
    ((student, path),) = collect(tmp_path)
    assert os.fsencode(student) == b"\xff\n<b>"
    assert read(student, path, tmp_path).chapters == ("masks",)


# Files of which nothing can be graded


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"%PDF-1.7 \xff\xfe", "cannot be read as JSON"),
        (b"{", "cannot be read as JSON"),
        (b"[" * 10**6, "nests lists in lists too deeply"),
        (b'{"cells": ' + b"9" * 5000 + b"}", "cannot be read as JSON"),
        (b"[1, 2]", "no notebook"),
        (b'{"cells": 3}', "no notebook"),
        (b'{"cells": [' + b"{}," * 99_999 + b"{}]}", "has 100,000 cells; at most 2,000"),
        (b"\0" * 21_000_000, "It has 21.0 MB; a notebook of at most 20 MB was expected."),
    ],
)
def test_what_is_no_notebook_says_so(tmp_path, data, says):
    path = tmp_path / "anna.ipynb"
    path.write_bytes(data)
    start = time.perf_counter()
    problem = next(p for p in read("anna", path, tmp_path).problems if says in p)
    assert problem.endswith(".")
    assert read("anna", path, tmp_path).digest
    assert time.perf_counter() - start < 10


def test_a_file_that_vanished_or_may_not_be_read(tmp_path):
    assert reason(tmp_path / "gone.ipynb") == "The file cannot be read: No such file or directory."
    (tmp_path / "dora").mkdir()
    assert "no file in it that can be graded" in reason(tmp_path / "dora")
    path = write(tmp_path / "anna.ipynb", ANSWER, CHECK)
    path.chmod(0)
    (tmp_path / "emil").mkdir(mode=0)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from attngrade.submissions import read\n"
        "read('warm', Path('/dev/null'), Path('/dev'))\n"
        "os.geteuid() or os.setegid(65534) or os.seteuid(65534)\n"
        "for path in map(Path, sys.argv[1:]): print(read('anna', path, path.parent).problems)"
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    ran = subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "emil"], capture_output=True, text=True
    )
    assert ran.stdout == "('The file cannot be read: Permission denied.',)\n" * 2, ran.stderr


def test_a_sparse_file_of_a_terabyte_is_not_read(tmp_path):
    with (tmp_path / "anna.ipynb").open("wb") as file:
        file.truncate(10**12)
    assert "1,000,000.0 MB" in reason(tmp_path / "anna.ipynb")


def test_a_notebook_of_something_else(given):
    assert given("x = 1").problems == ("It has no check(...) cell and no answer of this course.",)
    assert given().problems == ("It has no check(...) cell and no answer of this course.",)


# What it answers


def test_chapters_are_told_by_checks_then_ids_then_answers(given):
    assert given(CHECK).chapters == ("masks",)
    assert given(ANSWER, CHECK, 'check("what_shrinks", 1)', 'check("no", 1)').chapters == (
        "masks",
        "multi_query",
    )
    assert given("# check('head_dim', x)", cell("x = 1", grade_id="append")).chapters == (
        "kv_cache",
    )
    assert given(ANSWER, "x = 1").chapters == ("masks",)
    assert given("class RepairedAttention: pass").chapters == (), "an answer of two chapters"
    old = given(
        worksheets=[{"cells": [cell(ANSWER) | {"input": CHECK, "source": CHECK}]}], cells=None
    )
    assert old.chapters == ("masks",)


# The same work twice


def handed_in(tmp_path, student: str, path: Path, change=lambda text: text):
    copy = tmp_path / f"{student}.ipynb"
    copy.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    return read(student, copy, tmp_path)


def test_the_same_work_of_two_students_is_noted_in_both_rows(tmp_path):
    anna = handed_in(tmp_path, "anna", SOLVED)
    ben = handed_in(
        tmp_path, "ben", SOLVED, lambda text: text.replace("    return -1", "    return  -1")
    )
    carl = handed_in(tmp_path, "carl", SOLVED, lambda text: text.replace("return -1", "return -2"))
    assert anna.digest != ben.digest
    assert duplicates([anna, ben, carl]) == {
        anna.path: "The same work was handed in by ben.",
        ben.path: "The same work was handed in by anna.",
    }
    crowd = [handed_in(tmp_path, f"s{k}", SOLVED) for k in range(6)]
    assert (
        duplicates(crowd)[crowd[0].path] == "The same work was handed in by s1, s2, s3 and 2 more."
    )
    again = read("anna", handed_in(tmp_path, "anna2", SOLVED).path, tmp_path)
    assert duplicates([anna, again]) == {}, "twice by one student"


def test_the_same_file_of_another_kind_is_noted_an_empty_one_not(tmp_path):
    for student, text in (("anna", "%PDF"), ("ben", "%PDF"), ("carl", ""), ("dora", "")):
        (tmp_path / f"{student}.pdf").write_text(text)
    found = duplicates(read(student, path, tmp_path) for student, path in collect(tmp_path))
    assert sorted(path.stem for path in found) == ["anna", "ben"]


def test_notebooks_with_hardly_an_answer_are_not_called_copies(tmp_path):
    for path in STUDENTS:
        pair = [handed_in(tmp_path, student, path) for student in ("anna", "ben")]
        assert pair[0].cells
        assert duplicates(pair) == {}
    number = ("leaking_loss = None", "leaking_loss = 0.24")
    change = lambda text: text.replace(*number)  # noqa: E731
    two = [handed_in(tmp_path, student, STUDENTS[1], change) for student in ("anna", "ben")]
    assert "0.24" in two[0].path.read_text(encoding="utf-8")
    assert duplicates(two) == {}
    assert len(duplicates([handed_in(tmp_path, s, p) for p in MASTERS for s in ("a", "b")])) == 2


def test_reading_is_quick(tmp_path):
    submission = read("anna", SOLVED, ROOT)
    start = time.process_time()
    for _ in range(20):
        assert read("anna", SOLVED, ROOT) == submission
    assert (time.process_time() - start) / 20 < 0.02, "seconds; about 0.0015 on an idle machine"
