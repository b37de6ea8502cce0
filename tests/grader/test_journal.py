"""The journal of a run: what is written is read again, whatever a kill has left of it."""

import pytest
from support.notebooks_fixture import ANSWER, CHECK, SETUP, write
from support.results import result

from attngrade.batch import main
from attngrade.journal import Busy, Journal, locked


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
