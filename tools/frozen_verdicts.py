"""Hold today's judges to the answers that an older commit listed: right styles, mistakes, and those of `unseen`.

    python tools/frozen_verdicts.py ac98f67
    python tools/frozen_verdicts.py ac98f67 --names odd_window decay_mask --seeds 0 1 2 --show 5 --out FILE.json

Every right one must pass, every wrong one must fail, and a mistake should still hear a sentence: its old one or
another. Exits with 1 where a right one is refused or a wrong one accepted. The older tree is unpacked once, under
another name, so that none of its answers depends on today's.
"""

import argparse
import importlib
import io
import json
import os
import pkgutil
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_INTERPRET", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "exercises")]

from fresh.apart import Lost, TooLong, apart, limited  # noqa: E402
from fresh.heard import sentences  # noqa: E402

UNSEEN = "tests/exercises/unseen"
PACKAGES = {"attncourse": "frozen_attncourse", "unseen": "frozen_unseen"}
SECONDS, OF_AN_EXERCISE = (
    20.0,
    1800.0,
)  # of the processor for an answer; on the clock for all of an exercise
BROKE = "the judge raised"
STUBS = {"NotAttempted", "NotImplementedError"}  # by name: the older ones are other classes
COLUMNS = "right", "refused", "mistakes", "accepted", "same", "other", "silent", "unseen", "unseen wrong", "unsaid", "late", "broke"  # fmt: skip


@dataclass
class Row:
    """An older answer, and today's verdict.

    Args:
        of: ``"right"``, ``"mistake"`` or ``"unseen"``.
        what: the name of the style, the sentence of the mistake, or where the entry stands.
        wanted: ``"passed"`` or ``"failed"``.
        got: the status, ``"late"``, or an error of the judge.
        seed: of the first verdict that is not as wanted, else the first.
        heard: ``"same"``, ``"other"`` or ``"silent"``: the old sentence, another one, or only numbers.
        shown: what the student reads.
        missing: words of an unseen entry that are not said, or are and should not.
    """

    of: str
    what: str
    wanted: str
    got: str
    seed: int
    heard: str = ""
    shown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def broke(self) -> bool:
        """Did the judge raise an error?"""
        return self.got.startswith(BROKE)

    @property
    def wrong(self) -> bool:
        """Is a right answer refused, a wrong one accepted, or does the judge break? A stub is neither."""
        if self.broke:
            return True
        return self.got != "passed" if self.wanted == "passed" else self.got == "passed"


def unpacked(commit: str) -> Path:
    """A folder with the older package and its `unseen`, under other names."""
    sha = _git("rev-parse", "--short=12", f"{commit}^{{commit}}").decode().strip()
    folder = ROOT / ".proofs" / f"frozen-{sha}"
    if (folder / ".complete").exists():
        return folder
    with tarfile.open(fileobj=io.BytesIO(_git("archive", sha, "attncourse", UNSEEN))) as archive:
        archive.extractall(folder, filter="data")
    for old, new in (("attncourse", "attncourse"), (UNSEEN, "unseen")):
        (folder / old).rename(folder / PACKAGES[new])
    for path in folder.glob("frozen_*/**/*.py"):
        path.write_text(_renamed(path.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / ".complete").touch()
    return folder


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def _renamed(source: str) -> str:
    """The source, importing the renamed packages."""
    source = re.sub(r"\battncourse\b", PACKAGES["attncourse"], source)
    return re.sub(r"^(from|import) unseen\b", rf"\1 {PACKAGES['unseen']}", source, flags=re.M)


def answers(name: str) -> Iterator[tuple[str, str, str, Any, Any]]:
    """(of, what, wanted, answer, entry) for every older answer to an exercise."""
    old = importlib.import_module(f"{PACKAGES['attncourse']}.grading").load(name)
    for style, answer in old.accepted.items():
        yield "right", style, "passed", answer, None
    for mistake in old.mistakes:
        yield "mistake", mistake.says, "failed", plain(mistake.answer), None
    unseen = importlib.import_module(PACKAGES["unseen"])
    for found in pkgutil.iter_modules(unseen.__path__):
        importlib.import_module(f"{unseen.__name__}.{found.name}")
    for entry in sum(unseen.ENTRIES.values(), []):
        if entry.exercise == name:
            made = entry.answer() if entry.made else entry.answer
            yield "unseen", entry.where, "passed" if entry.passes else "failed", made, entry


def plain(answer: Any) -> Any:
    """The number or numbers of an answer that stands in an older observation's class, which today's judge does not know."""
    if isinstance(answer, tuple | list):
        return type(answer)(map(plain, answer)) if type(answer) in (tuple, list) else answer
    return plain(answer.value) if type(answer).__name__ == "Close" else answer


def verdicts(name: str, seeds: list[int]) -> list[dict]:
    """Today's verdicts on the older answers to an exercise; called in a process of its own."""
    import torch

    from attncourse.grading import load

    torch.manual_seed(0)  # an answer may be a model that nobody trained
    exercise = load(name)
    if exercise.left_out():
        return []
    return [
        asdict(judged(exercise, of, what, wanted, answer, entry, seeds))
        for of, what, wanted, answer, entry in answers(name)
    ]


def judged(exercise, of, what, wanted, answer, entry, seeds: list[int]) -> Row:
    """The first verdict that is not as wanted, or that on the first seed."""
    rows = []
    for seed in seeds:
        rows.append(row := Row(of, what, wanted, *_graded(exercise, answer, seed)))
        if row.wrong:
            break
    row = row if row.wrong else rows[0]
    read = "\n".join(row.shown)
    if wanted == "failed":
        told = bool(sentences(row.shown))
        row.heard = "same" if of == "mistake" and what in read else "other" if told else "silent"
    if entry is not None:
        missing = [words for words in entry.says if words not in read]
        row.missing = (*missing, *(f"not: {words}" for words in entry.never if words in read))
    return row


def _graded(exercise: Any, answer: Any, seed: int) -> tuple:
    """(status, seed, heard, shown) of one verdict."""
    from attncourse.grading.check import shown

    try:
        with limited(SECONDS):
            verdict = exercise.grade(answer, seed)
            return verdict.status, seed, "", tuple(shown(verdict))
    except TooLong:
        return "late", seed
    except Exception as error:
        kind = type(error).__name__
        return "not attempted" if kind in STUBS else f"{BROKE} {kind}: {error}", seed


def counts(rows: list[Row]) -> Counter:
    """A line of the table."""
    found = Counter()
    for row in rows:
        found[{"right": "right", "mistake": "mistakes", "unseen": "unseen"}[row.of]] += 1
        found["late"] += row.got == "late"
        found["refused"] += row.of == "right" and row.wrong
        found["accepted"] += row.of == "mistake" and row.got == "passed"
        found["broke"] += row.broke
        found["unseen wrong"] += row.of == "unseen" and row.wrong
        found["unsaid"] += bool(row.missing)
        if row.of == "mistake":
            found[row.heard] += 1
    return found


def printed(names: list[str], found: dict[str, list[Row]], show: int) -> Counter:
    """Print the table and what is behind it; the sums."""
    width = max(map(len, names))
    print(f"{'':{width}}  {'  '.join(COLUMNS)}")
    total = Counter()
    for name in names:
        line = counts(found.get(name, []))
        total += line
        _line(name, line, width)
        for row in found.get(name, []):
            if row.wrong:
                print(f"    {row.of} {row.got} (seed {row.seed}): {row.what}")
        for row in [x for x in found.get(name, []) if x.heard == "silent"][:show]:
            print(f"    silent: {row.what}\n         now: {' | '.join(row.shown[:2])}")
        for row in [x for x in found.get(name, []) if x.missing][:show]:
            print(
                f"    unsaid: {row.what}: {row.missing}\n         now: {' | '.join(row.shown[:2])}"
            )
    _line("all", total, width)
    told, silent = total["same"] + total["other"], total["silent"]
    print(f"{told / max(1, told + silent):.1%} of the mistakes hear a sentence, {silent} hear none")
    return total


def _line(name: str, line: Counter, width: int) -> None:
    print(f"{name:{width}}  {'  '.join(f'{line[x]:>{len(x)}}' for x in COLUMNS)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--names", nargs="*", metavar="EXERCISE")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--show", type=int, default=0, help="so many silent ones of each exercise")
    parser.add_argument("--out", type=Path, help="all verdicts, as JSON")
    args = parser.parse_args()
    sys.path.insert(0, str(unpacked(args.commit)))

    import torch

    torch.set_num_threads(1)
    from attncourse.grading import names as today

    old = importlib.import_module(f"{PACKAGES['attncourse']}.grading").names()
    names = args.names or [name for name in old if name in today()]
    gone = [name for name in old if name not in today()] if not args.names else []
    found, lost = {}, []
    for name, rows in apart(partial(verdicts, seeds=args.seeds), names, OF_AN_EXERCISE, at_once=2):
        if isinstance(rows, Lost):
            lost.append(f"{name}: {rows}")
            continue
        found[name] = [Row(**row) for row in rows]
        print(f"{len(found)} of {len(names)} judged: {name}", file=sys.stderr)
    total = printed(names, found, args.show)
    print(*(f"no exercise is called {name} any more" for name in gone), *lost, sep="\n")
    if args.out:
        rows = {name: [asdict(row) for row in rows] for name, rows in found.items()}
        args.out.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
    return int(
        bool(lost) or any(total[x] for x in ("refused", "accepted", "unseen wrong", "broke"))
    )


if __name__ == "__main__":
    sys.exit(main())
