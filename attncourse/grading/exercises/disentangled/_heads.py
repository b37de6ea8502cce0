"""The judge of a test that tells tables of biases apart: a truth value for each head."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attncourse.grading.compare import Described, Raised, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.exercises.disentangled._biases import Kind, shuffled

WORDS = {True: "relative", False: "absolute"}
GOOD = "one truth value for each head"


@dataclass(frozen=True)
class Heads(Calls):
    """`Calls` that hears a truth value for every head, and calls the heads by their kinds."""

    gradients: bool = False

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        kinds = self._kinds(seed)
        for what, found in super().observe(answer, seed):
            label = what.removesuffix(", output")
            if label not in kinds:
                yield what, found
                continue
            said = truths(found, len(kinds[label]))
            yield what, Described(GOOD) if isinstance(said, list) else said
            if isinstance(said, list):
                for number, (kind, true) in enumerate(zip(kinds[label], said, strict=True)):
                    yield f"{label}; head {number}, {kind.name}", WORDS[true]

    def _kinds(self, seed: int) -> dict[str, list[Kind]]:
        labels = [case.label for case in cases_of(self, seed)]
        return {label: heads for label, (_, _, heads) in zip(labels, shuffled(seed), strict=True)}

    def notice(self, expected, seen, seed: int) -> str:
        """What holds for the heads that are told wrong."""
        told, wrong, raised = {}, [], []
        for label, heads in self._kinds(seed).items():
            raised += [label] * isinstance(seen.get(f"{label}, output"), Raised)
            keys = {
                f"{label}; head {number}, {kind.name}": kind for number, kind in enumerate(heads)
            }
            told[label] = [seen[key] for key in keys if key in seen]
            wrong += [
                (seen[key], kind)
                for key, kind in keys.items()
                if seen.get(key, expected[key]) != expected[key]
            ]
        if raised and len(raised) < len(told):
            square = [
                label
                for label in told
                if len(set(re.findall(r"\d+(?= queries| keys)", label))) == 1
            ]
            if not set(square) & set(raised):
                return "It runs on square tables, and not on all with other numbers of queries and keys: n stands where m belongs, or m for n."
        return _of_the_wrong(told, wrong) if wrong else ""


def _of_the_wrong(told: dict[str, list[str]], wrong: list[tuple[str, Kind]]) -> str:
    """What holds for verdicts of which some are wrong."""
    every, called = [word for words in told.values() for word in words], {word for word, _ in wrong}
    if len(set(every)) == 1:
        return f"Every head of every table is called {every[0]}."
    if all(len(set(words)) <= 1 for words in told.values()):
        return "All heads of a table get one and the same verdict; each has a table of its own."
    if len(wrong) == len(every):
        return "Every head is told wrong: True and False are exchanged."
    direction = {
        ("relative",): "All that is relative is known, but more passes: not every pair on a diagonal decides, or the tolerance is too large.",
        ("absolute",): "All that is absolute is found, but more is refused: pairs decide that stand on two diagonals, or the tolerance is too small, or NaN is there.",
    }  # fmt: skip
    both = f"{len(wrong)} of {len(every)} heads are told wrong, in both directions."
    first = direction.get(tuple(called), both)
    why = [f"Called {word}: {kind.name}. {kind.why}." for word, kind in wrong[:3]]
    return " ".join((first, *why))


def truths(found: Any, heads: int) -> Any:
    """The truth values of the heads as a list; what came instead in words."""
    if isinstance(found, Raised):
        return found
    if type(found).__name__ in ("ndarray", "bool_") or plain(found):
        found = found.tolist()
    if isinstance(found, bool):
        return Described("one truth value for all heads; return one for each")
    if not isinstance(found, list | tuple):
        return found
    several = [
        x.item() if isinstance(x, Tensor) and x.numel() == 1 or type(x).__name__ == "bool_" else x
        for x in found
    ]
    if len(several) != heads:
        return Described(f"another number of results: {len(several)} for {heads} heads")
    if any(isinstance(x, list | tuple | Tensor) for x in several):
        one = len(str(several[0]).split(",")) == 1
        return Described("an axis too many" if one else "more than one truth value for a head")
    if not all(isinstance(x, bool | int | float) and x in (0, 1) for x in several):
        kind = "words" if isinstance(several[0], str) else "numbers"
        return Described(f"{kind} instead of True and False")
    return [bool(x) for x in several]
