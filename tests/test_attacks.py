"""Hostile submissions: none earns a point that is not honest, harms the grader, or spoils the next one."""

import itertools

import pytest
from attacks import BEFORE, FAMILIES, NAMES, RIGHT, WRONG
from yard import SECONDS, Yard, all_of, descendants, ended, harm, honest, missing

from attncourse.grading import load
from attncourse.grading.classroom.grade import Grader

# Cells that no notebook without IPython runs, and two that no Python reads.
NO_PYTHON = {
    "magics and shell commands",
    "a cell magic in front of the answer",
    "a cell that nests too deeply to be read",
    "a cell of a hundred thousand operators",
}


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_SECRET", "MARK-environment")
        yard = Yard(tmp_path_factory.mktemp("yard"))
        yield yard
        yard.close()


@pytest.fixture(scope="module")
def grader(yard):
    with Grader(yard.secret.encode(), SECONDS) as grader:
        yield grader


def attacks(families):
    return [
        pytest.param(attack, id=f"{attack.family}-{attack.name}")
        for family in families
        for attack in all_of(family)
    ]


@pytest.mark.parametrize("attack", attacks(FAMILIES))
def test_an_attack_gains_nothing(grader, yard, attack):
    if lacking := missing(grader, attack):
        pytest.skip(f"this machine lacks {lacking}")
    assert not harm(grader, yard, attack)


@pytest.mark.parametrize("exercise", NAMES)
def test_honest_answers_get_what_they_earn(yard, exercise):
    with Grader(yard.secret.encode(), seconds=60) as grader:
        for right in (True, False):
            path = yard.hand_in(honest(exercise, right))
            graded = grader.grade("anna", path, yard.submissions)
            assert graded.points == right * load(exercise).points, graded


def test_nothing_is_left_of_it(grader, yard):
    running = descendants()
    assert running
    grader.close()
    assert ended(running)
    assert yard.contents() == yard.put
    assert not yard.traces()
    assert not yard.reached


def test_attacks_are_many_and_of_all_kinds():
    names = [
        (attack.family, attack.exercise, attack.name) for f in FAMILIES for attack in all_of(f)
    ]
    assert len(names) == len(set(names)) >= 400
    assert min(len(all_of(family)) for family in FAMILIES) >= 10


def test_every_cell_is_python(yard):
    for attack in itertools.chain.from_iterable(map(all_of, FAMILIES)):
        for cell in attack.cells if attack.name not in NO_PYTHON else ():
            compile(yard.fill(cell), attack.name, "exec")
    for answers in (RIGHT, WRONG):
        assert answers.keys() == NAMES.keys() >= BEFORE.keys()
