"""A call far away with a budget of memory keeps it, whatever its worker says or does."""

import pytest
import torch
from grader.attacks import WRONG, right
from support.grader.sandbox import MEBIBYTE, walls_stand
from support.tiny import tiny

from attncourse.grading import load
from attngrade import Cell
from attngrade.sandbox.sandbox import PROTECTIONS
from attngrade.session import Session
from attngrade.settings import Settings


@pytest.fixture(scope="module")
def session():
    """One worker for all notebooks below: a limit must be gone when the next one begins."""
    with Session(Settings(b"secret", 60, 4096)) as session:
        session.open([])
        walls_stand(session.protections[0][1])
        yield session


def judged(session, judge, *sources: str):
    """The verdict on a notebook of these cells."""
    session.open(Cell(k, source) for k, source in enumerate(sources, start=1))
    assert session.problems == []
    exercise = load(judge) if isinstance(judge, str) else tiny(judge, answer="tell")
    return session.judge(exercise, 2**127 + 1)


# The worker says that nothing was made. Its memory is limited all the same.
LIES = """
import attngrade.sandbox.calls as calls
calls.made_by = lambda answer, *args: (answer(*args), (0, 0, "", 0))[1]
"""


def test_a_worker_that_lies_about_its_memory_gains_nothing(session):
    start, name = "import math\nimport torch", "decode_without_copy"
    said = judged(session, name, start, LIES, WRONG[name])
    assert said.status == "failed"
    why, fact = said.findings
    assert why.startswith("The results are right")
    assert "MiB" in fact
    box = session.box
    assert judged(session, name, start, right(name)).status == "passed"
    assert session.box is box, "the limit was lifted, and nothing started anew"


# A part of the largest library becomes memory that can be written to, and is; no address is new.
SCRATCH = """
import ctypes
from pathlib import Path

def tell(x):
    lines = Path("/proc/self/maps").read_text().splitlines()
    start = [int(line.split("-")[0], 16) for line in lines if " r-xp " in line and "torch_cpu" in line][0]
    for size in {}:
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size << 20), 7):
            raise MemoryError("mprotect")
        for page in range(start, start + (size << 20), 4096):
            byte = ctypes.c_ubyte.from_address(page)
            byte.value = byte.value
        start += size << 20
    return x[:2].sum()
"""


class Within:
    """Judges whether a call returns within 60 MiB."""

    def observe(self, answer, seed):
        try:
            self.told = answer.within(60 * MEBIBYTE, torch.ones(2**20))
        except Exception as error:
            self.told = error
        yield "seen", not isinstance(self.told, Exception)

    expected = staticmethod(lambda seed: {"seen": True})


def test_no_library_becomes_memory(session):
    ends = {(10,): {"passed"}, (40, 40): {"failed"}}  # MiB, of 60
    if dict(session.protections)[PROTECTIONS[2]] == "in force":  # a cgroup
        ends[200,] = {"did not finish", "failed"}
    for sizes, statuses in ends.items():
        assert judged(session, Within(), SCRATCH.format(sizes)).status in statuses, sizes


def test_the_limit_is_of_one_call(session):
    plain = "def tell(x): return x[:2].sum()"
    session.open([Cell(1, plain)])
    told = [session.judge(tiny(Within(), answer="tell"), 0).status for _ in range(4)]
    assert told == ["passed"] * 4
    plenty = "import torch\ntell = torch.ones(2**28, dtype=torch.uint8).sum().item()"
    judged(session, "causal_mask", plenty)
    session.peer.begin()
    assert session.peer.ask("begin", "", "tell")[2] == 2**28


HOARDS = "import mmap\nkept = [mmap.mmap(-1, 2**28)]\ndef tell(x): return x[:2].sum()"
COPIES = "import torch\nkept = []\ndef tell(x):\n    kept.clear()\n    y = torch.ones(2**25)\n    return y[:2].sum()"
SOURCES = {
    "copies": (COPIES, Exception),  # 128 MiB
    "shared": ("import mmap\ndef tell(x):\n    mmap.mmap(-1, 2**27)\n    return x[:2].sum()", Exception),
    "hoards": (HOARDS, MemoryError),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_neither_copies_nor_hoards_help(session, name):
    source, kind = SOURCES[name]
    judge = Within()
    judged(session, judge, source)
    assert isinstance(judge.told, kind), judge.told


def test_what_another_notebook_hoards_is_not_held_against_this_one(session):
    judge, hoard = Within(), "import builtins, mmap\nbuiltins.kept = mmap.mmap(-1, 2**28)"
    judged(session, "causal_mask", hoard)
    assert judged(session, judge, "def tell(x): return x[:2].sum()").status == "passed"
