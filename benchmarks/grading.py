"""Submissions a second on the smallest exercise, beside nbgrader and nbval; then the judges on fresh seeds.

    python benchmarks/grading.py            # everything; the seeds take an hour or more
    python benchmarks/grading.py --seeds 0  # the speed alone
    python benchmarks/grading.py --thousand # 1,000 submissions, grader and worker killed on the way

All three get the same notebook: the exercise causal_mask, cut out of its chapter and solved. nbgrader and
nbval get ten copies in one call, which is what they are best at. One process, one thread.
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

from attngrade.grade import Grader

ROOT = Path(__file__).resolve().parent.parent
GRADES = {"causal_mask", "causal_mask_answer"}
COPIES, WARM, TIMED = 10, 20, 300
LEAST_A_SECOND, MOST_MILLISECONDS = 50, 30
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


def processor_seconds() -> float:
    """What this process and all below it have used, those that ended included."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    found, size = {os.getpid()}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return sum(used[pid] for pid in found) / os.sysconf("SC_CLK_TCK")


def ours(folder: Path) -> tuple[list[float], float]:
    """Seconds of each warm submission, and processor seconds of one."""
    paths, seconds = copies(smallest(), folder, WARM + TIMED), []
    with Grader(secrets.token_bytes(32)) as grader:
        for number, path in enumerate(paths):
            if number == WARM:
                before = processor_seconds()
            start = time.perf_counter()
            graded = grader.grade("anna", path, folder)
            seconds.append(time.perf_counter() - start)
            assert graded.points == 1, graded
        used = processor_seconds() - before
        print(dict(grader.protections))
    return seconds[WARM:], used / TIMED


def timed(folder: Path, *command: str) -> tuple[float, float]:
    """Wall and processor seconds of a Python command that must succeed."""
    paths = {name: str(folder) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | paths | {"PATH": path, "OMP_NUM_THREADS": "1"}
    before, start = processor_seconds(), time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise RuntimeError(ran.stdout + ran.stderr)
    return time.perf_counter() - start, processor_seconds() - before


def nbgrader(folder: Path) -> tuple[float, float]:
    """`nbgrader autograde` of a class: seconds of one submission, wall and processor."""
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
    wall, used = timed(folder, "nbgrader", "autograde", "m", "--create", "--force")
    return wall / COPIES, used / COPIES


def nbval(folder: Path) -> tuple[float, float]:
    """`pytest --nbval-lax`: seconds of one notebook, wall and processor."""
    copies(smallest(), folder, COPIES)
    options = "--nbval-lax", "--nbval-current-env", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"
    wall, used = timed(folder, "pytest", *options, "--rootdir", str(folder), str(folder))
    return wall / COPIES, used / COPIES


def speed() -> None:
    """Measure the three, and write the table."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, used = ours(Path(folder) / "ours")
        others = {}
        for name, measure in {"nbgrader autograde": nbgrader, "pytest --nbval-lax": nbval}.items():
            place = Path(folder) / measure.__name__
            place.mkdir()
            others[name] = measure(place)
    median = statistics.median(seconds)
    late = sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]
    rate = 1 / used
    rows = [["attngrade", *(round(x, 4) for x in (median, used)), round(rate, 1)]]
    rows += [[k, round(wall, 2), round(cpu, 2), round(1 / cpu, 2)] for k, (wall, cpu) in others.items()]  # fmt: skip
    kept = rate >= LEAST_A_SECOND and median * 1000 <= MOST_MILLISECONDS
    write_table(
        "grading",
        caption="What one submission of the smallest exercise costs",
        note=f"{TIMED} warm submissions one after the other, each in a sandbox and as a user of its own: median "
        f"{1000 * median:.0f} ms, 95 of 100 within {1000 * late:.0f} ms. The others get {COPIES} copies in one "
        f"call, their start shared. Limits: {LEAST_A_SECOND} a second and core, median {MOST_MILLISECONDS} ms. "
        f"The limits are {'kept' if kept else 'broken'}. Load of the machine while it ran: "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
        columns=["grader", "seconds a submission", "processor seconds", "submissions a second and core"],
        rows=rows,
    )  # fmt: skip
    for row in rows:
        print(row, flush=True)


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
    if options.seeds:
        grading_seeds.benchmark(options.seeds, options.far_seeds, options.minutes)
    return None


if __name__ == "__main__":
    main()
