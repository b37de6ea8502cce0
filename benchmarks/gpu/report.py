"""Everything measured so far: on the disk after each result, and read again by the run that goes on."""

import json
from pathlib import Path

from gpu.candidates import OURS
from gpu.card import ROOT, slug
from gpu.jobs import failed
from gpu.tables import tables

SAME = ("card", "driver", "torch", "triton", "cuda", "python", "code")


def place(out: str | None, card: str) -> Path:
    """Where the file of a card lies."""
    out = Path(out) if out else ROOT / "benchmarks" / "results"
    path = out if out.suffix == ".json" else out / f"flash_{slug(card)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def frozen(x):
    """Lists, which JSON knows, as tuples, which can be keys; and named tuples without their names."""
    return tuple(map(frozen, x)) if isinstance(x, list | tuple) else x


class Report:
    """Cells {(table, row, column): value}, where ("failed", (table, row), column) says why there is none.

    Args:
        path: the file; with ``None`` nothing is written. What an earlier run left there counts, if card, versions and
            code are the same.
    """

    def __init__(self, path: Path | None, machine: dict[str, str]):
        self.path, self.machine = path, machine
        self.cells, self.problems, self.left_out = {}, [], {}
        if path and path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            changed = [name for name in SAME if kept.get(name) != machine.get(name)]
            if changed:
                print(f"{path} was measured with other {', '.join(changed)}: it is begun anew")
            else:
                self.cells = {frozen(key): frozen(value) for *key, value in kept["cells"]}
                print(f"Goes on with {len(self.cells)} results in {path}")

    def add(self, key: tuple, value) -> None:
        print(*key, value, flush=True)
        self.cells[frozen(key)] = value
        self.write()

    def fail(self, text: str) -> None:
        print("FAILED", text, flush=True)
        self.problems.append(text)
        self.write()

    def leave_out(self, what: str, why: str) -> None:
        print("left out", what, why, flush=True)
        self.left_out[what] = why
        self.write()

    def lacking(self, entries: list, goal) -> list:
        """The entries that have neither a result nor a reason why they have none."""
        done = self.cells.keys()
        return [e for e in entries if goal(e) not in done and failed(goal(e)) not in done]

    def is_right(self, name: str) -> bool:
        """Something was checked, and nothing failed."""
        found = [v for key, v in self.cells.items() if checked(key) and culprit(key) == name]
        return any(isinstance(v, float) for v in found) and not any(
            isinstance(v, str) for v in found
        )

    def failures(self) -> list[str]:
        """What is wrong with ours. What others cannot do, or what a trial cannot, is left out and no failure."""
        found = []
        for key, value in self.cells.items():
            if isinstance(value, str) and culprit(key) in OURS:
                found.append(f"{culprit(key)}: {in_words(key)}: {value}")
        return found + self.problems

    def write(self) -> None:
        """First beside its place, so that whoever is interrupted leaves a whole file."""
        if not self.path:
            return
        reasons = {in_words(key): why for key, why in self.cells.items() if key[0] == "failed"}
        content = self.machine | {
            "failures": self.failures(),
            "left_out": self.left_out | reasons,
            "tables": tables(self.cells, self.machine),
            "cells": [[*key, value] for key, value in self.cells.items()],
        }
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(self.path)


def plain(key: tuple) -> tuple:
    """The key of the result, also for the reason why there is none."""
    table, row, column = key
    return (*row, column) if table == "failed" else key


def checked(key: tuple) -> bool:
    return plain(key)[0] == "correctness"


def culprit(key: tuple) -> str:
    """The candidate that a result speaks of; '' where many ways are tried and some may fail."""
    table, row, column = plain(key)
    if table == "correctness":
        return row[0]
    return column if table in ("forward", "backward", "memory_by_length") else ""


def in_words(key: tuple) -> str:
    return " ".join(str(part) for part in plain(key))
