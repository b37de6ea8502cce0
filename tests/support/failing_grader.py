"""Loaded into workers of dask by tests: here a grader dies, or is broken, as a notebook wishes."""

import os
import signal
from pathlib import Path

from attngrade import duty
from attngrade.grade import Grader

DIARY = "DEADLY_DIARY"


class Deadly(Grader):
    """A grader that a notebook can kill: no honest one can, so that a test must."""

    def judge(self, submission, root):
        text = "\n".join(cell.source for cell in submission.cells)
        with Path(os.environ[DIARY]).open("a") as diary:
            diary.write(f"{submission.student}\n")
        if "KILLS" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "BREAKS" in text:
            raise RuntimeError("it is broken")
        return super().judge(submission, root)


def dask_setup(worker) -> None:
    """Dask calls this when a worker starts."""
    duty.Grader = Deadly
