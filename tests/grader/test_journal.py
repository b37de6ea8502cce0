"""The journal of a run: what is written is read again, whatever a kill has left of it."""

import pytest
from support.grader.results import result

from attngrade import File, Order
from attngrade.journal import Journal, locked
from attngrade.settings import Stopped


def order(student: str, *digests: str) -> Order:
    return Order(student, tuple(File(f"{k}.ipynb", digest) for k, digest in enumerate(digests)))


def written(student: str, *digests: str):
    return result(student, order(student, *digests).digest)


def known(folder, key="key") -> set[str]:
    with Journal(folder, key) as journal:
        return {student for student, _ in journal.known}


def test_what_is_written_is_read(tmp_path):
    anna = written("anna", "d1", "d2")
    with Journal(tmp_path, "key") as journal:
        journal.add(anna)
        assert journal.find(order("anna", "d1", "d2")) == anna
    with Journal(tmp_path, "key") as journal:
        assert journal.find(order("anna", "d1", "d2")) == anna
        assert journal.find(order("anna", "d2", "d1")) is None
        assert journal.find(order("ben", "d1", "d2")) is None
    assert known(tmp_path, "another key") == set()


@pytest.mark.parametrize("length", [1, 40, -1])
def test_a_half_written_line_is_cut_off_and_overwritten(tmp_path, length):
    with Journal(tmp_path, "key") as journal:
        journal.add(written("anna", "d"))
        journal.add(written("ben", "d"))
    whole = (tmp_path / "journal.jsonl").read_bytes()
    first = whole.index(b"\n") + 1
    end = first + length if length > 0 else len(whole) + length
    (tmp_path / "journal.jsonl").write_bytes(whole[:end])
    with Journal(tmp_path, "key") as journal:
        assert {student for student, _ in journal.known} == {"anna"}
        journal.add(written("ben", "d"))
    assert (tmp_path / "journal.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    "line", ["not json", "[]", "{}", '{"settings": "key"}', '{"settings": "key", "files": 3}']
)
def test_a_spoilt_line_is_as_good_as_none(tmp_path, line):
    with Journal(tmp_path, "key") as journal:
        journal.add(written("anna", "d"))
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with Journal(tmp_path, "key") as journal:
        journal.add(written("ben", "d"))
    assert known(tmp_path) == {"anna", "ben"}


def test_a_bad_control_withdraws_what_came_since_the_last_good_one(tmp_path):
    """Also of a run before, which was killed: no control has proven it."""
    with Journal(tmp_path, "key") as journal:
        journal.add(written("anna", "d"))
        began = journal.size
        journal.add(written("ben", "d"))  # graded while the control was
        journal.prove(began)
    with Journal(tmp_path, "key") as journal:
        journal.add(written("carl", "d"))
        assert journal.unproven == 2
        journal.withdraw()
        assert journal.find(order("anna", "d"))
    assert known(tmp_path) == {"anna"}
    with Journal(tmp_path, "key") as journal:
        assert journal.unproven == 0
        journal.add(written("carl", "d"))
        assert journal.unproven == 1
        journal.prove(journal.size)
        journal.withdraw()
    assert known(tmp_path) == {"anna", "carl"}


def test_two_graders_cannot_share_a_folder(tmp_path):
    busy = pytest.raises(Stopped, match="Another attngrade is writing into")
    with locked(tmp_path), busy, locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
