"""The judges on fresh seeds: what is right must pass, what is wrong must fail.

    python benchmarks/grading_seeds.py --seeds 200 --far-seeds 20

Every right answer and every idea of a mistake of every exercise is judged on inputs that it has never seen:
in this process, then in the sandbox. The seeds are drawn anew at every run; a verdict that is wrong is printed with its seed.
"""

import argparse
import copy
import math
import multiprocessing
import secrets
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from results import write_table

import attncourse
from attncourse.grading import load, names
from attncourse.grading.compare import Close
from attncourse.grading.exercise import Exercise
from attncourse.grading.exercises import CHAPTERS, chapter_of
from attncourse.grading.verdict import Verdict
from attngrade import Cell
from attngrade.sandbox import bwrap, course
from attngrade.session import Session
from attngrade.settings import Settings

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "exercises"))
import styles  # noqa: E402

COURSE = Path(attncourse.__file__).parent
STYLES = COURSE.parent / "tests" / "exercises" / "styles"
BLOCK = 5  # seeds of one exercise in one worker, before the next exercise comes
SECONDS = 120
# A judge may change the weights of a model, so each seed gets a copy of it.
FIRST = "import copy\nimport styles\nfrom attncourse.grading.exercises import load\nexercise = load({name!r})"


class Wrong(NamedTuple):
    """A verdict that should have been another one."""

    exercise: str
    answer: str
    seed: int
    verdict: str

    @property
    def kind(self) -> str:
        return "accepted" if is_wrong(self.answer) else "rejected"


def is_wrong(expression: str) -> bool:
    """Is this the expression of a wrong answer?"""
    return expression.startswith("exercise.ideas")


def answers(name: str) -> list[str]:
    """The answers of an exercise, as expressions; patterns of numbers are no answers."""
    ideas = load(name).ideas
    wrong = [k for k, mistake in enumerate(ideas) if not isinstance(mistake.answer, Close)]
    return [
        "exercise.right",
        *(f"styles.of({name!r})[{style!r}]" for style in styles.of(name)),
        *(f"exercise.ideas[{k}].answer" for k in wrong),
    ]


@contextmanager
def at_home(name: str, exercise: Exercise):
    """Judges an answer in this process, as `check` does in a notebook."""
    own = {"exercise": load(name), "styles": styles}
    yield lambda text, seed: exercise.grade(copy.deepcopy(eval(text, own)), seed)


def everything() -> list[str]:
    """The options of bubblewrap that show the whole course; what a worker has of its own comes first."""
    folders, shown = ("attncourse", "attncourse/grading"), []
    for folder in folders:
        shown += ["--perms", "0755", "--dir", f"{course.PLACE}/{folder}"]
    for folder in folders:
        for path in sorted((COURSE.parent / folder).iterdir()):
            name = f"{folder}/{path.name}"
            if name not in {*course.FILES, *folders} and path.name != "__pycache__":
                shown += ["--ro-bind", str(path), f"{course.PLACE}/{name}"]
    return [*shown, *course.binds(), "--ro-bind", str(STYLES), f"{course.PLACE}/styles"]


@contextmanager
def far_away(name: str, exercise: Exercise):
    """Judges an answer in a sandbox; here alone it shows the task files, which hold the answers."""
    bwrap.binds = everything
    first = FIRST.format(name=name)

    def judge(text: str, seed: int) -> Verdict:
        answer = f"{exercise.answer} = copy.deepcopy({text})"
        session.open([Cell(1, f"{first}\n{answer}")])
        return session.judge(exercise, seed)

    with Session(Settings(b"", SECONDS)) as session:
        yield judge


def judged(name: str, seeds: list[int], until: float, far: bool) -> tuple[str, list[int], list]:
    """Judge all answers of an exercise on these seeds.

    Returns: the name, the seeds that were done in time, and the wrong verdicts.
    """
    exercise = replace(load(name), ideas=(), right=None)  # no time for diagnoses
    done, wrong = [], []
    with (far_away if far else at_home)(name, exercise) as judge:
        for seed in seeds:
            if time.monotonic() > until:
                break
            for text in answers(name):
                verdict = judge(text, seed)
                if verdict.status != ("failed" if is_wrong(text) else "passed"):
                    what = f"{verdict.status} {verdict.findings[:1]}"
                    wrong.append(Wrong(name, text, seed, what))
            done.append(seed)
    return name, done, wrong


def _judged(work: tuple):
    return judged(*work)


def measure(seeds: int, processes: int, minutes: float, far: bool) -> tuple[Counter, list[Wrong]]:
    """How many seeds each exercise was judged on, and the wrong verdicts."""
    drawn, start = [secrets.randbits(127) | 1 << 127 for _ in range(seeds)], time.monotonic()
    parts = [drawn[k : k + BLOCK] for k in range(0, seeds, BLOCK)]
    work = [(name, part, start + 60 * minutes, far) for part in parts for name in names()]
    done, wrong = Counter(), []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for number, (name, used, found) in enumerate(pool.imap_unordered(_judged, work), start=1):
            done[name] += len(used)
            wrong += found
            for one in found:
                print(f"{one.kind}: {one.exercise} {one.answer} on seed {one.seed}: {one.verdict}")
            if number % len(names()) == 0:
                spent = (time.monotonic() - start) / 60
                print(f"{min(done.values())} to {max(done.values())} seeds, {spent:.0f} minutes", flush=True)  # fmt: skip
        pool.close()
        pool.join()
    return done, wrong


def write(done: Counter, done_far: Counter, wrong: list[Wrong]) -> None:
    """The table: by chapter, how many answers were judged and how many verdicts were wrong."""
    kinds = Counter((chapter_of(one.exercise), one.kind) for one in wrong)
    rows = []
    for chapter in CHAPTERS:
        group = names(chapter)
        right = sum(1 + len(styles.of(name)) for name in group)
        wrong_ones = sum(len(answers(name)) for name in group) - right
        verdicts = [sum(len(answers(x)) * d[x] for x in group) for d in (done, done_far)]
        found = [kinds[chapter, kind] for kind in ("rejected", "accepted")]
        rows.append([chapter, len(group), right, wrong_ones, *verdicts, *found])
    which = sorted({f"{one.exercise} {one.answer}" for one in wrong})
    write_table(
        "grading_seeds",
        caption="Right and wrong answers judged on fresh seeds",
        note=f"{_spread(done)} seeds an exercise in this process and {_spread(done_far)} in the sandbox, drawn anew for this run. "
        + (f"Wrong verdicts on {', '.join(which)}." if which else "No verdict was wrong."),
        columns=["chapter", "exercises", "right answers", "wrong answers", "verdicts here", "verdicts in the sandbox", "right ones rejected", "wrong ones accepted"],
        rows=rows,
    )  # fmt: skip


def _spread(done: Counter) -> str:
    least, most = min(done[name] for name in names()), max(done[name] for name in names())
    return f"{least}" if least == most else f"{least} to {most}"


def benchmark(seeds: int, far_seeds: int, minutes: float) -> None:
    """Judge on so many seeds here and in the sandbox, in two processes, and write the table."""
    done, wrong = measure(seeds, 2, minutes, far=False)
    done_far, more = measure(far_seeds, 2, minutes, far=True)
    write(done, done_far, wrong + more)


def main() -> None:
    """Judge, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--far-seeds", type=int, default=20, help="in the sandbox, which is slower")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of each part, at most")
    options = parser.parse_args()
    benchmark(options.seeds, options.far_seeds, options.minutes)


if __name__ == "__main__":
    main()
