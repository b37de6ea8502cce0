"""What students hand in is found, and its bytes are read; nothing else is opened, nothing followed."""

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.grader.submission import ANSWER, CHECK, write

from attngrade.submissions import alike, contents, handed_in

LINK = "{} is a link, and links are not followed."


def names(folder: Path, *own: Path) -> list[tuple[str, str]]:
    return [(who, path.relative_to(folder).as_posix()) for who, path in handed_in(folder, *own)]


def test_one_notebook_a_student_and_one_folder_a_student(tmp_path):
    seen = ("ben/03.ipynb", "ben/sub/04.ipynb", "ben/notes.txt", "anna.ipynb", "carl.pdf")
    hidden = (".x.ipynb", "._anna.ipynb", "ben/.ipynb_checkpoints/03.ipynb", "__MACOSX/x")
    for name in (*seen, *hidden, "emil/work.zip"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "dora").mkdir()
    assert names(tmp_path) == [
        ("anna", "anna.ipynb"), ("ben", "ben/03.ipynb"), ("ben", "ben/sub/04.ipynb"), ("carl", "carl.pdf"),
        ("dora", "dora"), ("emil", "emil/work.zip"),
    ]  # fmt: skip


def test_a_folder_without_submissions_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="nothing to grade in it; expected one notebook a student"):
        handed_in(tmp_path)
    with pytest.raises(ValueError, match=r"cannot be read: No such file or directory; expected"):
        handed_in(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="cannot be read: Not a directory; expected"):
        handed_in(write(tmp_path / "anna.ipynb"))


def test_our_own_results_are_no_submission(tmp_path, monkeypatch):
    class_ = tmp_path / "class"
    for name in ("anna.ipynb", "results/journal.jsonl", "ben/results/x.ipynb", "secret"):
        (class_ / name).parent.mkdir(parents=True, exist_ok=True)
        (class_ / name).touch()
    (tmp_path / "link").symlink_to(class_)
    left = [("anna", "anna.ipynb"), ("ben", "ben/results/x.ipynb")]
    assert names(class_, class_ / "results", class_ / "secret") == left
    own = tmp_path / "link" / "results", tmp_path / "link" / "secret"
    assert names(class_, *own) == left
    monkeypatch.chdir(tmp_path)
    assert names(Path("class"), *own) == left
    for out in (class_, tmp_path / "link", Path("class/ben/..")):
        with pytest.raises(ValueError, match="class has the submissions; results need another"):
            handed_in(Path("class"), out)
    assert names(class_, class_ / "anna.ipynb")[0] == ("ben", "ben/results/x.ipynb")
    assert len(names(class_ / "ben", class_)) == 1, "results may lie around the submissions"
    with pytest.raises(ValueError, match="nothing to grade in it"):
        handed_in(class_ / "ben" / "results", class_ / "ben" / "results" / "x.ipynb")


def test_links_pipes_and_sockets_are_named_and_not_opened(tmp_path):
    secret = write(tmp_path / "secret.ipynb", ANSWER, CHECK)
    root = tmp_path / "class"
    (root / "emil").mkdir(parents=True)
    (root / "anna.ipynb").symlink_to(secret)
    (root / "ben").symlink_to(tmp_path)
    (root / "emil" / "folder").symlink_to("/")
    write(root / "emil" / "mine.ipynb", ANSWER, CHECK)
    os.mkfifo(root / "carl.ipynb")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "dora.ipynb"))
        found = [(who, contents(path, root)) for who, path in handed_in(root)]
    odd = "It is a pipe, a socket or a device and was not opened; expected a file."
    links = [(who, LINK.format(name)) for who, name in (("anna", "anna.ipynb"), ("ben", "ben"))]
    others = [("carl", odd), ("dora", odd), ("emil", LINK.format("folder")), ("emil", "")]
    assert [(who, file.problem) for who, file in found] == links + others
    assert [bool(file.data) for _, file in found] == [False] * 5 + [True]
    assert contents(root / "ben" / "secret.ipynb", root).problem == LINK.format("ben")


@pytest.mark.parametrize("by", [lambda path, secret: path.symlink_to(secret), lambda path, _: os.mkfifo(path)])  # fmt: skip
def test_a_file_that_is_exchanged_while_it_is_looked_at(by, tmp_path, monkeypatch):
    secret, path = write(tmp_path / "secret", ANSWER), write(tmp_path / "anna.ipynb", ANSWER)
    opened = os.open

    def late(name, flags):
        path.unlink()
        by(path, secret)
        return opened(name, flags)

    monkeypatch.setattr(os, "open", late)
    assert not contents(path, tmp_path).data


def test_bytes_that_are_too_many_are_not_kept(tmp_path, monkeypatch):
    path, opened = tmp_path / "anna.ipynb", os.open
    path.write_bytes(bytes(20_000_000))
    file = contents(path, tmp_path)
    assert (file.digest, file.problem) == (hashlib.sha256(file.data).hexdigest(), "")
    too_large = "It has {} MB; a notebook of at most 20 MB was expected."
    for size, said in ((21_000_000, "21.0"), (10**12, "1,000,000.0")):
        os.truncate(path, size)
        file = contents(path, tmp_path)
        assert (file.data, file.digest, file.problem) == (None, "", too_large.format(said))
    os.truncate(path, 1)

    def grown(name, flags):
        os.truncate(path, 30_000_000)
        return opened(name, flags)

    monkeypatch.setattr(os, "open", grown)
    assert contents(path, tmp_path).problem == too_large.format("30.0")


def test_names_of_odd_bytes_survive(tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n<b>.ipynb"))
    odd.write_bytes(b"{}")
    ((student, path),) = handed_in(tmp_path)
    assert os.fsencode(student) == b"\xff\n<b>"
    assert os.fsencode(contents(path, tmp_path).name) == b"\xff\n<b>.ipynb"
    noted = alike([(student, "a", "x"), ("ben", "b", "x")])["b"]
    assert noted.endswith("handed in by \ufffd\n<b>.")


def test_a_file_that_vanished_or_may_not_be_read(tmp_path):
    gone = contents(tmp_path / "gone.ipynb", tmp_path)
    assert gone.problem == "The file cannot be read: No such file or directory."
    (tmp_path / "dora").mkdir()
    assert "no file in it that can be graded" in contents(tmp_path / "dora", tmp_path).problem
    write(tmp_path / "anna.ipynb", ANSWER, CHECK).chmod(0)
    (tmp_path / "emil").mkdir(mode=0)
    (tmp_path / "fred" / "locked").mkdir(parents=True)
    (tmp_path / "fred" / "locked").chmod(0)
    write(tmp_path / "fred" / "mine.ipynb", ANSWER, CHECK)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from attngrade.submissions import contents, handed_in\n"
        "os.geteuid() or os.setegid(65534) or os.seteuid(65534)\n"
        "root = Path(sys.argv[1])\n"
        "for who, path in handed_in(root): print(who, contents(path, root).problem)\n"
        "print({'IPython', 'nbformat'} & {*sys.modules})"  # no parser is where bytes are read
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    ran = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    denied = "The file cannot be read: Permission denied."
    no_file = "The folder has no file in it that can be graded."
    said = [f"anna {denied}", f"dora {no_file}", f"emil {denied}", f"fred {denied}", "fred "]
    assert ran.stdout.splitlines() == [*said, "set()"], ran.stderr


def test_the_same_work_of_two_students_is_noted_in_both_rows():
    same = [(f"s{k}", f"s{k}.ipynb", "x") for k in range(6)]
    other = [("anna", "a/1", "y"), ("anna", "a/2", "y"), ("ben", "b", "z"), ("carl", "c", "")]
    notes = alike([*same, *other, ("dora", "d", "")])
    assert notes.keys() == {f"s{k}.ipynb" for k in range(6)}
    assert notes["s0.ipynb"] == "The same work was handed in by s1, s2, s3 and 2 more."
    assert alike(same[:2])["s1.ipynb"] == "The same work was handed in by s0."
