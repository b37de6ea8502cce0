"""The journal of a run: what is written is read again, whatever a kill has left of it."""

import pytest
from handmade import ANSWER, CHECK, SETUP, write

from attncourse.grading.exercise import Verdict
from attngrade import Graded
from attngrade.batch import main
from attngrade.journal import Busy, Journal, Result, locked

VERDICTS = (
    Verdict("causal_mask", "failed", 0, 1, ("called with 3, 5: wrong", "\ud800"), "The mask."),
    Verdict("empty_row", "passed", 3, 3),
)
PROTECTIONS = (("a wall", "in force"), ("a roof", "it leaks"))


def result(student="anna", digest="d1", **more) -> Result:
    graded = Graded(student, f"{student}.ipynb", digest, VERDICTS, ("cell 3 raised ValueError",))
    return Result(graded, "likeness", False, PROTECTIONS, **more)


def test_what_is_written_is_read(tmp_path):
    with Journal(tmp_path, "mark") as journal:
        journal.add(result())
        assert journal.find("anna", "anna.ipynb", "d1") == result()
    with Journal(tmp_path, "mark") as journal:
        assert journal.find("anna", "anna.ipynb", "d1") == result()
        assert journal.find("anna", "anna.ipynb", "d2") is None
        assert journal.find("ben", "anna.ipynb", "d1") is None
    with Journal(tmp_path, "another") as journal:
        assert journal.find("anna", "anna.ipynb", "d1") is None


@pytest.mark.parametrize("length", [1, 40, -1])
def test_a_half_written_line_is_cut_off_and_overwritten(tmp_path, length):
    with Journal(tmp_path, "mark") as journal:
        journal.add(result("anna"))
        journal.add(result("ben"))
    whole = (tmp_path / "journal.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    end = first + length if length > 0 else len(whole) + length
    (tmp_path / "journal.jsonl").write_bytes(whole[:end])
    with Journal(tmp_path, "mark") as journal:
        assert journal.find("anna", "anna.ipynb", "d1")
        assert not journal.find("ben", "ben.ipynb", "d1")
        journal.add(result("ben"))
    assert (tmp_path / "journal.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    "line", ["not json", "[]", "{}", '{"mark": "mark"}', '{"mark": "mark", "graded": 3}']
)
def test_a_spoilt_line_is_as_good_as_none(tmp_path, line):
    with Journal(tmp_path, "mark") as journal:
        journal.add(result("anna"))
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with Journal(tmp_path, "mark") as journal:
        journal.add(result("ben"))
    with Journal(tmp_path, "mark") as journal:
        assert {key[0] for key in journal.known} == {"anna", "ben"}


def test_two_graders_cannot_share_a_folder(tmp_path, capsys):
    write(tmp_path / "anna.ipynb", SETUP, ANSWER, CHECK)
    out = tmp_path / "out"
    out.mkdir()
    with locked(out):
        with pytest.raises(Busy), locked(out):
            pass
        assert main([str(tmp_path), "--out", str(out)]) == 2
    assert "Another attngrade is writing into" in capsys.readouterr().err
    with locked(out):
        pass
