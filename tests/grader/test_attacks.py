"""Hostile submissions: none earns a point that is not honest, harms the grader, or spoils the next student's."""

import os
import socket
import subprocess
from importlib import import_module
from itertools import chain

import pytest
from grader.attacks import EVERYWHERE, FAMILIES, Attack, all_of
from support.grader.hostile import Service, Yard, descendants, ended, peak_memory, processes
from support.grader.sandbox import ORDINARY, lent, run_as, walls_stand

IS_ROOT = os.geteuid() == 0
# Whether an ordinary user grades, and whether cgroups are in sight.
SETTINGS = {
    "root": (False, False),
    "root, cgroup": (False, True),
    "ordinary user": (True, False),
    "ordinary user, cgroup": (True, True),
}
FULL = "root" if IS_ROOT else "ordinary user"  # what answers compute is the same everywhere
COMPUTED = FAMILIES[len(EVERYWHERE) :]
# A service is dear: tests are ordered by it, and so the families have no scope.
SERVED = {"indirect": True, "scope": "module"}


@pytest.fixture(scope="module")
def service(request):
    ordinary, cgroup = SETTINGS[request.param]
    if not (IS_ROOT or ordinary):
        pytest.skip("only root can be both")
    with lent() as folders:
        command = run_as(ordinary, cgroup, folders * (ordinary and cgroup))
        with Service(command, Yard(ORDINARY if ordinary and IS_ROOT else os.getuid())) as service:
            states = {x.split(":")[0]: state for x, state in service.honest().protections}
            walls_stand(states["bubblewrap"])
            service.has_cgroup = states["a cgroup"] == "in force"
            assert not service.has_cgroup or cgroup
            if cgroup and not service.has_cgroup:
                pytest.skip(f"no cgroup here: {states['a cgroup']}")
            yield service


def students(family: str, cgroup: bool) -> list[list[Attack]]:
    """The attacks of a family, by the students who hand them in: those that the clock must end apart from others."""
    there = [attack for attack in all_of(family) if cgroup or not attack.cgroup]
    together = [x for x in there if not x.apart]
    groups = [[x for x in together if x.endless == endless] for endless in (False, True)]
    return [group for group in groups if group] + [[x] for x in there if x.apart]


def tried(service: Service, family: str, then_honest: bool) -> None:
    """The attacks of a family gain nothing and leave nothing; an honest student after them has the own points."""
    before = service.limits()
    found = list(chain.from_iterable(map(service.harm, students(family, service.has_cgroup))))
    assert not found, "\n".join(found)
    if then_honest:
        after = service.honest()
        assert after.files[0].verdicts[0].status == "passed", after
    assert service.limits() == before
    assert not service.yard.traces()
    assert service.yard.contents() == service.yard.put


@pytest.mark.parametrize("service", SETTINGS, **SERVED)
@pytest.mark.parametrize("family", EVERYWHERE)
def test_an_attack_on_the_machine_gains_nothing_and_harms_nobody(service, family):
    tried(service, family, then_honest=True)


@pytest.mark.parametrize("service", [FULL], **SERVED)
@pytest.mark.parametrize("family", COMPUTED)
def test_an_attack_on_the_judge_gains_nothing_and_harms_nobody(service, family):
    """Behind each comes the next family, whose wrong answers must be judged as well."""
    tried(service, family, then_honest=family == COMPUTED[-1])


def test_every_trap_shuts():
    yard = Yard(os.getuid())
    port, nap = int(yard.words["PORT"]), yard.words["NAP"]
    assert not yard.reached
    assert not yard.traces()
    peak = peak_memory(reset=True)
    socket.create_connection(("127.0.0.1", port)).close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", port))
    for address in (yard.words["SOCKET"], f"\0{yard.tag}"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(address)
    trace = yard.folder / f"{yard.tag}-WAS-HERE"
    trace.touch()
    (yard.folder / "results" / "scores.csv").write_text("mallory,99")
    assert len(bytes(10**8).replace(b"\0", b"x")) == 10**8 <= peak_memory() - peak + 10**7
    with subprocess.Popen(["sh", "-c", "echo; read line", nap], stdin=-1, stdout=-1) as program:
        program.stdout.readline()
        assert processes(nap)
        assert descendants() >= {program.pid}
        assert not ended({program.pid}, seconds=0.1)
        program.stdin.close()
    assert ended({program.pid})
    assert yard.traces() == [str(trace)]
    assert yard.contents() != yard.put
    assert len(yard.reached) == 4
    yard.close()


@pytest.mark.quick
def test_attacks_are_many_and_of_all_kinds():
    attacks = list(chain.from_iterable(map(all_of, FAMILIES)))
    assert len({(x.family, x.exercise, x.name) for x in attacks}) == len(attacks) >= 250
    assert min(len(all_of(family)) for family in FAMILIES) >= 5
    for attack in attacks:
        for cell in attack.cells:
            if "\n!" not in cell and attack.family != "text":
                compile(cell, attack.name, "exec")


@pytest.mark.tables
def test_the_table_of_attacks_is_that_of_the_suite(book_table):
    rows, through = [], []
    for family in FAMILIES:
        says = import_module(f"grader.attacks.{family}").__doc__.split("\n")[0]
        known = [attack for attack in all_of(family) if attack.known]
        through += [f"{attack.name}: {attack.known}" for attack in known]
        where = len(SETTINGS) if family in EVERYWHERE else 1
        rows.append([family, len(all_of(family)), where, len(known), says])
    rows.append(["all", sum(row[1] for row in rows), "", sum(row[3] for row in rows), ""])
    book_table(
        "attacks",
        caption="Hostile notebooks in the test suite",
        note="Each is graded when the suite runs. In four settings: as root and as an ordinary user, with and without "
        f"a cgroup. Known to get through: {'; '.join(through) or 'none'}.",
        columns=["family", "notebooks", "settings", "known to get through", "what they try"],
        rows=rows,
    )
