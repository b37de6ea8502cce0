"""Hostile submissions: none earns a point that is not honest, harms the grader, or spoils the next one."""

import itertools
import socket
import subprocess

import pytest
from grader.attacks import BEFORE, FAMILIES, NAMES, RIGHT, WRONG
from support.hostile_env import (
    BRIEF,
    LIMITS,
    PATIENT,
    Yard,
    all_of,
    descendants,
    ended,
    harm,
    honest,
    missing,
    peak_memory,
    processes,
)

from attncourse.grading import load
from attngrade.grade import Grader

# Cells that no notebook without IPython runs, and some that are meant to be too much for a reader.
NO_PYTHON = {
    "magics and shell commands",
    "a cell magic in front of the answer",
    "a cell that nests too deeply to be read",
    "a cell of a hundred thousand operators",
    *(f"{where} a sum of {n} ones" for where in ("below", "beside") for n in (2700, 2800, 2900)),
}


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_SECRET", "MARK-environment")
        # To look for two mistakes at once costs half of all time here, and finds none in an attack.
        patch.setattr("attncourse.grading.diagnosis.pairs_of", lambda mistakes: [])
        yard = Yard(tmp_path_factory.mktemp("yard"))
        yield yard
        yard.close()


@pytest.fixture(scope="module")
def graders(yard):
    with (
        Grader(yard.secret.encode(), BRIEF, LIMITS) as brief,
        Grader(yard.secret.encode(), PATIENT, LIMITS) as patient,
    ):
        yield {True: brief, False: patient}


def attacks(families):
    return [
        pytest.param(
            attack,
            id=f"{attack.family}-{attack.name}",
            marks=[pytest.mark.xfail(strict=True, reason=attack.known)] if attack.known else [],
        )
        for family in families
        for attack in all_of(family)
    ]


@pytest.mark.parametrize("attack", attacks(FAMILIES))
def test_an_attack_gains_nothing(graders, yard, attack):
    grader = graders[attack.endless]
    if lacking := missing(grader, attack):
        pytest.skip(f"this machine lacks {lacking}")
    assert not harm(grader, yard, attack)


@pytest.mark.parametrize("exercise", NAMES)
def test_honest_answers_get_what_they_earn_after_all_that(graders, yard, exercise):
    for right in (True, False):
        path = yard.hand_in(honest(exercise, right))
        graded = graders[False].grade("anna", path, yard.submissions)
        assert graded.points == right * load(exercise).out_of, graded


def test_nothing_is_left_of_it(graders, yard):
    running = set()
    for grader in graders.values():
        running |= descendants(grader.sandbox.process.pid)
        grader.close()
    assert ended(running)
    assert yard.contents() == yard.put
    assert not yard.traces()
    assert not yard.reached


def test_every_trap_shuts(tmp_path):
    yard = Yard(tmp_path)
    port, nap = int(yard.words["PORT"]), yard.words["NAP"]
    assert not yard.reached
    assert not yard.traces()
    assert not processes(yard.tag, nap)
    peak = peak_memory(reset=True)
    socket.create_connection(("127.0.0.1", port)).close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", port))
    for address in (yard.words["SOCKET"], f"\0{yard.tag}"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(address)
    trace = tmp_path / f"{yard.tag}-WAS-HERE"
    trace.touch()
    (yard.results / "scores.csv").write_text("mallory,99")
    assert len(bytes(10**8).replace(b"\0", b"x")) == 10**8 <= peak_memory() - peak + 10**7
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", "echo; read line", nap], **pipes) as program:
        program.stdout.readline()
        assert processes(nap)
        assert not ended({program.pid}, seconds=0.1)
    assert yard.traces() == [str(trace)]
    assert yard.contents() != yard.put
    yard.close()
    assert len(yard.reached) == 4


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
