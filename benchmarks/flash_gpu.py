"""FlashAttention on an NVIDIA GPU: is it right, how fast is it, how much memory does it take?

    python3 benchmarks/flash_gpu.py                        everything that fits into seven and a half minutes
    python3 benchmarks/flash_gpu.py                        again: what is there counts, the rest is measured
    python3 benchmarks/flash_gpu.py --quick                two lengths, fewer shapes
    python3 benchmarks/flash_gpu.py --part speed ladder    correctness first, then only these
    python3 benchmarks/flash_gpu.py --backends triton FLASH_ATTENTION
    python3 benchmarks/flash_gpu.py --seconds 120          begin nothing after that, and end what is under way
    python3 benchmarks/flash_gpu.py --out FOLDER           flash_CARD.json goes there; also FILE.json

Needs torch with CUDA, and Triton, which comes with it; attncourse need not be installed. The file is
benchmarks/results/flash_CARD.json unless --out says otherwise; where only an output folder survives a run, name
that folder, and name the same one again to go on. It goes on only with the same card, versions and code.

Correctness always comes first, and a candidate that is wrong is not timed. Whatever can hang has a process of its
own, and the file is written, as a whole, after every single result, so that nothing else is lost. On a card before
Ampere, such as Colab's T4, Triton's kernels cannot run; what torch offers and `tiled` are then measured.

Two parts need no card: `--part check` runs the kernels in Triton's interpreter (and the Gluon kernel in a model of the
card) at small sizes and writes nothing, `--part code` writes what the compiler makes of them. The exit code is 1 if a
candidate of ours failed anywhere.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 0)]

from gpu import card, check, ladder, lengths, machine_code, roofline, speed, sweep  # noqa: E402
from gpu.apart import OutOfTime, apart, in_short, stripes  # noqa: E402
from gpu.candidates import FLEX, NAMES, OURS, THEIRS, lacks  # noqa: E402
from gpu.report import Report, place  # noqa: E402

PARTS = ("check", "speed", "ladder", "lengths", "roofline", "tiles", "code")
WITHOUT_CARD = ("check", "code")
WORKERS = min(8, os.cpu_count() or 1)
SECONDS = 450  # a run that may take eight minutes has time to end
NO_GPU = (
    "An NVIDIA GPU was expected; torch {version} finds none. Run this where nvidia-smi lists a card and torch "
    "was installed with CUDA. Without a card there are --part check and --part code, and for a CPU "
    "benchmarks/flash.py"
)


class Run:
    """A report, and the time until which it may be filled."""

    def __init__(self, report: Report, options: argparse.Namespace):
        self.report, self.options = report, options
        self.until = time.monotonic() + options.seconds
        self.unfinished = []

    def collect(self, what: str, job, *hands: list) -> None:
        """Run a job apart for each hand of entries; one that hangs, crashes or raises is a failure of ours."""
        if not any(hands):
            return
        if time.monotonic() > self.until:
            self.unfinished.append(what)
            return
        print(f"== {what}", flush=True)
        try:
            for key, value in apart(*((job, hand) for hand in hands), until=self.until):
                self.report.add(key, value)
        except OutOfTime:
            self.unfinished.append(what)
        except (RuntimeError, TimeoutError) as problem:
            self.report.fail(f"{what}: {in_short(problem)}")

    def lacking(self, part, entries: list) -> list:
        return self.report.lacking(entries, part.goal)

    def unchecked(self, name: str) -> list:
        """What a candidate still has to compute before it is trusted."""
        shapes = check.QUICK if self.options.quick else check.SHAPES
        dtypes = [x for x in check.DTYPES if x != "bfloat16" or card.has_bfloat16()]
        return self.lacking(check, check.entries([name], shapes, dtypes))

    def check(self, names: list[str]) -> None:
        """Each candidate in processes of its own: it is compiling that takes time, and that can be shared."""
        for name in names:
            hands = stripes(self.unchecked(name), WORKERS)
            self.collect(f"{name}: correctness", check.job, *hands)

    def trusted(self, names: list[str]) -> list[str]:
        """Those of ours that were right in all that they were asked, and torch's."""
        wrong = [x for x in names if x in OURS and not self.is_right(x)]
        for name in wrong:
            if f"{name}: correctness" not in self.unfinished:
                self.report.fail(f"{name}: not shown to be right")
        return [x for x in names if x not in wrong or self.options.even_if_wrong]

    def is_right(self, name: str) -> bool:
        return self.report.is_right(name) and not self.unchecked(name)

    def speed(self, names: list[str]) -> None:
        """What torch brings shares a process, ours have one each. `tiled` runs where Triton cannot."""
        if "triton" in names:
            names = [name for name in names if name != "tiled"]
        groups = [[x] for x in names if x in OURS]
        groups.insert(1, [x for x in names if x in THEIRS])
        for group in filter(None, groups):
            cases = speed.entries(group, speed.KEY_LENGTHS if self.options.quick else speed.LENGTHS)
            self.collect(f"speed: {', '.join(group)}", speed.job, self.lacking(speed, cases))

    def ladder(self, names: list[str]) -> None:
        """PyTorch and Triton share a process; the other kernels have one each."""
        todo = self.lacking(ladder, ladder.entries(names))
        kernels = lambda entry: ladder.needs(entry[1])  # noqa: E731
        for group in (("", "tiled", "triton"), ("descriptors",), ("hopper",), ("gluon",)):
            mine = [entry for entry in todo if kernels(entry) in group]
            self.collect(f"ladder: {group[-1]}", ladder.job, mine)

    def lengths(self, names: list[str]) -> None:
        """Ours have a process each."""
        sizes = lengths.QUICK if self.options.quick else lengths.LENGTHS
        theirs = [lengths.PLAIN, *(x for x in THEIRS if x in lengths.NAMES)]
        for group in (theirs, ["tiled"], ["triton"]):
            todo = lengths.entries([x for x in group if x in (lengths.PLAIN, *names)], sizes)
            self.collect(f"lengths: {', '.join(group)}", lengths.job, self.lacking(lengths, todo))

    def roofline(self, names: list[str]) -> None:
        fused = [x for x in ("triton", "EFFICIENT_ATTENTION") if x in names][:1]
        todo = roofline.entries([roofline.PLAIN, *fused])
        self.collect("roofline", roofline.job, self.lacking(roofline, todo))

    def tiles(self, names: list[str]) -> None:
        """Compile by many hands, then time by one; the Hopper kernels have a process each."""
        for name in (x for x in names if x in sweep.KERNELS):
            todo = self.lacking(sweep, sweep.entries([name]))
            if self.options.quick:
                todo = [x for x in todo if x.tile == sweep.in_use(x.kernel, *x[2:])]
            ready = lambda trial: ("ready", trial, None)  # noqa: E731
            hands = stripes(self.report.lacking(todo, ready), WORKERS)
            self.collect(f"tiles: {name}, compiling", sweep.compiled, *hands)
            self.collect(f"tiles: {name}", sweep.job, self.lacking(sweep, todo))

    def code(self, names: list[str]) -> None:
        todo = self.lacking(machine_code, machine_code.entries(names))
        self.collect("code", machine_code.job, todo)


def lack_of(name: str) -> str:
    """What a candidate lacks on this card, in words."""
    if name in OURS:
        return lacks(name, 64, 64, card.narrow())
    old = name == FLEX and card.capability() < (8, 0)
    return "Triton's kernels, and those an Ampere card or newer" if old else ""


def with_card(run: Run) -> None:
    """All parts that were asked for, of all candidates that can run on this card."""
    names = []
    for name in run.options.backends:
        if lack := lack_of(name):
            run.report.leave_out(name, f"needs {lack}")
        else:
            names.append(name)
    ours = [name for name in names if name in OURS]
    run.check(ours)
    names = run.trusted(names)
    first = [name for name in names if name != FLEX]
    for part in run.options.part:
        if part == "code":
            run.code(list(machine_code.KERNELS))
        elif part != "check":
            getattr(run, part)(first)
    if "speed" in run.options.part and FLEX in names:
        run.speed([FLEX])  # last, because compiling it takes as long as the others together


def without_card(options: argparse.Namespace, machine: dict) -> list[Run]:
    """In the interpreter, and by the compiler."""
    runs = []
    if "check" in options.part:
        os.environ["TRITON_INTERPRET"] = "1"  # for the processes that are started
        runs.append(Run(Report(None, machine), options))
        names = [name for name in options.backends if name in OURS]
        todo = check.entries(names, check.SMALL, ("float16", "float32"))
        runs[-1].collect("correctness", check.job, *stripes(todo, WORKERS))
        for name in names:
            if not runs[-1].report.is_right(name):
                runs[-1].report.fail(f"{name}: not shown to be right")
    if "code" in options.part:
        os.environ.pop("TRITON_INTERPRET", None)
        runs.append(Run(Report(place(options.out, "code"), machine), options))
        runs[-1].code(options.backends)
    return runs


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="two lengths and fewer shapes")
    add("--part", nargs="+", default=PARTS, choices=PARTS, help="what to measure after correctness")
    add("--backends", nargs="+", default=NAMES, choices=NAMES, help="who takes part")
    add("--seconds", type=float, default=SECONDS, help="how long this run may take")
    add("--out", metavar="FILE_OR_FOLDER", help="default: benchmarks/results")
    add("--even-if-wrong", action="store_true", help="time what failed, too")
    options = parser.parse_args(arguments)
    options.part = [part for part in PARTS if part in options.part]
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if card.is_here():
        machine = card.about()
        runs = [Run(Report(place(options.out, machine["card"]), machine), options)]
        with_card(runs[0])
    elif set(options.part) <= set(WITHOUT_CARD):
        runs = without_card(options, card.about())
    else:
        print(NO_GPU.format(version=card.torch.__version__), file=sys.stderr)
        return 1
    failures = [text for run in runs for text in run.report.failures()]
    for run in runs:
        run.report.write()
        print(
            f"Written to {run.report.path}" if run.report.path else "Nothing was timed or written."
        )
        for what in dict.fromkeys(run.unfinished):
            print(f"No time was left for {what}: run the same command again, and it goes on.")
    for text in failures:
        print("FAILED", text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
