"""Seconds a student on the smallest exercise, beside nbgrader; all notebooks of a student beside one.

    python benchmarks/grading.py            # everything; the seeds take an hour or more
    python benchmarks/grading.py --seeds 0  # the speed alone
    python benchmarks/grading.py --thousand # 1,000 submissions, a judge and the grader killed on the way

Both graders get the same notebook: the exercise causal_mask, cut out of its chapter and solved. nbgrader gets ten
copies in one call, which is what it is best at. One student at a time, one thread.
"""

import argparse
import math
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grading_seeds
import nbformat
import torch
from grading_thousand import thousand
from results import write_table

from attngrade import Order, Result
from attngrade.grader import grade
from attngrade.settings import Settings
from attngrade.submissions import contents

ROOT = Path(__file__).resolve().parent.parent
GRADES = {"causal_mask", "causal_mask_answer"}
COPIES, WARM, TIMED = 10, 1, 10
MOST_OF_NBGRADER = 0.7
CONFIG = """c = get_config()
c.CourseDirectory.course_id = "a"
c.ClearSolutions.code_stub = {"python": "# your code here\\nraise NotImplementedError"}
"""


def smallest():
    """The chapter about masks, cut to its smallest exercise, solved."""
    notebook = nbformat.read(ROOT / "exercises/solutions/02_masks.ipynb", as_version=4)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") in GRADES
        or "bootstrap" in cell.metadata.get("tags", [])
        or cell.source.startswith("import math")
    ]
    return notebook


def copies(notebook, folder: Path, count: int) -> list[Path]:
    """So many files of different bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    text = nbformat.writes(notebook)
    paths = [folder / f"s{k:04}.ipynb" for k in range(count)]
    for k, path in enumerate(paths):
        path.write_text(text.rstrip() + "\n" * (k + 1), encoding="utf-8")
    return paths


def points(result: Result) -> int:
    """What a student has earned."""
    assert result.complete, result
    return sum(verdict.points for file in result.files for verdict in file.verdicts)


def ours(paths: list[list[Path]]) -> list[tuple[float, int]]:
    """Seconds of each student, one after the other, and the points."""
    settings, found = Settings(secrets.token_bytes(32)), []
    for number, files in enumerate(paths):
        order = Order(f"s{number}", tuple(contents(path, path.parent) for path in files))
        start = time.perf_counter()
        result = grade(order, settings)
        found.append((time.perf_counter() - start, points(result)))
    return found


def exercises(path: Path) -> list[Path]:
    """The solved notebooks of the course."""
    return sorted(path.glob("[0-9]*.ipynb"))


def timed(folder: Path, *command: str) -> float:
    """Seconds of a Python command that must succeed."""
    paths = {name: str(folder) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | paths | {"PATH": path, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise RuntimeError(ran.stdout + ran.stderr)
    return time.perf_counter() - start


def nbgrader(folder: Path) -> float:
    """`nbgrader autograde` of a class: seconds of one submission."""
    solved = smallest()
    (folder / "source/m").mkdir(parents=True)
    (folder / "nbgrader_config.py").write_text(CONFIG)
    nbformat.write(solved, folder / "source/m/n.ipynb")
    timed(folder, "nbgrader", "generate_assignment", "m", "--create")
    released = nbformat.read(folder / "release/m/n.ipynb", as_version=4)
    for theirs, own in zip(released.cells, solved.cells, strict=True):
        theirs.source = own.source
    for k in range(COPIES):
        (folder / f"submitted/s{k}/m").mkdir(parents=True)
        nbformat.write(released, folder / f"submitted/s{k}/m/n.ipynb")
    return timed(folder, "nbgrader", "autograde", "m", "--create", "--force") / COPIES


def speed() -> None:
    """Measure both, and write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ours"
        found = ours([[path] for path in copies(smallest(), place, WARM + TIMED)])[WARM:]
        assert all(earned == 1 for *_, earned in found)
        other = Path(folder) / "nbgrader"
        other.mkdir()
        theirs = nbgrader(other)
    own = statistics.median(seconds for seconds, _ in found)
    ratio = own / theirs
    rows = [["attngrade", round(own, 2)], ["nbgrader autograde", round(theirs, 2)]]
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    write_table(
        "grading",
        caption="What one student with one small notebook costs",
        note=f"Median of {TIMED} students one after the other, each in a sandbox of its own. nbgrader gets {COPIES} "
        f"in one call, its start shared. Ratio: {ratio:.2f}; its limit of "
        f"{MOST_OF_NBGRADER} is {'kept' if ratio <= MOST_OF_NBGRADER else 'broken'}. Load of the machine: {load}.",
        columns=["grader", "seconds"],
        rows=rows,
    )  # fmt: skip
    print(rows, f"{ratio:.2f}", flush=True)


def whole_course() -> None:
    """One notebook of a student beside all, alone and together, and write the table."""
    paths = exercises(ROOT / "exercises" / "solutions")
    apart = ours([[path] for path in paths])
    ((together, earned),) = ours([paths])
    alone = sum(seconds for seconds, _ in apart)
    rows = [[x.stem, round(took, 2), got] for x, (took, got) in zip(paths, apart, strict=True)]
    rows.append(["all in one sandbox", round(together, 2), earned])
    write_table(
        "grading_notebooks",
        caption="The notebooks of a student, each alone and all together",
        note=f"Solved ones. Each alone they need {alone:.0f} seconds, together {together:.0f}: "
        f"{len(paths) - 1} starts of a sandbox fewer. What the longest need is what they train.",
        columns=["notebook", "seconds", "points"],
        rows=rows,
    )  # fmt: skip
    print(*rows, sep="\n", flush=True)


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--far-seeds", type=int, default=20, help="of these in the sandbox")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of each part of the seeds")
    parser.add_argument("--thousand", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.thousand:
        return thousand(copies, smallest())
    speed()
    whole_course()
    if options.seeds:
        grading_seeds.benchmark(options.seeds, options.far_seeds, options.minutes)
    return None


if __name__ == "__main__":
    main()
