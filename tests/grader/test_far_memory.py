"""A call far away with a budget of memory keeps it, whatever its worker says or does."""

import pytest
import torch
from grader.attacks import RIGHT, WRONG
from support.sandbox_helpers import MEBIBYTE, exercise, inside, judged

from attngrade import Cell
from attngrade.far.sandbox import Sandbox
from attngrade.session import MOST_RESTARTS, Session


@pytest.fixture(scope="module")
def box():
    with Sandbox() as box:
        yield box


# The worker says that nothing was made. Its memory is limited all the same.
LIES = """
import attngrade.far.calling as calling
calling.made_by = lambda answer, *args: (answer(*args), (0, 0, ""))[1]
"""
BUDGETS = (
    "decode_without_copy",
    "grouped_query_attention",
    "absorbed_attention",
    "tiled_forward",
    "linear_window",
    "gather_c2p",
)


@pytest.mark.parametrize("name", BUDGETS)
def test_a_worker_that_lies_about_its_memory_gains_nothing(box, name):
    start = "import math\nimport torch\nimport torch.nn.functional as F"
    said = judged(box, start, LIES, WRONG[name], name=name, seconds=60)[0]
    assert (said.status, len(said.findings)) == ("failed", 1), "right, but for its memory"
    assert "MiB" in said.findings[0]
    assert judged(box, start, RIGHT[name], name=name, seconds=60)[0].status == "passed"


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


def test_no_library_becomes_memory(box):
    ends = {(10,): "passed", (40, 40): "failed"}  # MiB, of 60
    if box.cgroup.state == "in force":
        ends[200,] = "did not finish"
    for sizes, status in ends.items():
        with Session(box, [Cell(1, SCRATCH.format(sizes))], 30) as session:
            assert session.judge(exercise(Within()), 0).status == status, sizes
    source = "def tell(x): return x[:2].sum()"
    with Session(box, [Cell(1, source)], 30) as session:
        told = {session.judge(exercise(Within()), 0).status for _ in range(2 + MOST_RESTARTS)}
    assert told == {"passed"}, "each got a worker of its own, and no restart was counted"
    plenty = "import torch\ndef tell(): return torch.ones(2**27, dtype=torch.uint8).shape[0]"
    assert inside(box, plenty) == 2**27, "the limit was of one worker"


def test_hoarding_before_the_call_does_not_help(box):
    copies = "import torch\nkept = []\ndef tell(x):\n    kept.clear()\n    y = torch.ones(2**25)\n    return y[:2].sum()"
    sources = {
        "import torch\ndef tell(x): return x[:2].sum()": float,
        copies: Exception,  # 128 MiB
        "import mmap\ndef tell(x):\n    shared = mmap.mmap(-1, 2**27)\n    return x[:2].sum()": Exception,
        copies.replace("kept = []", "kept = [torch.ones(2**25)]"): MemoryError,
        copies.replace("kept = []", "import mmap\nkept = mmap.mmap(-1, 2**28)").replace("kept.clear()", "kept.close()"): MemoryError,
    }  # fmt: skip
    for source, kind in sources.items():
        judge = Within()
        with Session(box, [Cell(1, source)], 30) as session:
            session.judge(exercise(judge), 0)
        told = judge.told.item() if isinstance(judge.told, torch.Tensor) else judge.told
        assert isinstance(told, kind), (source, told)
