"""One graded exercise, and all the words that its file is written with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from attncourse.grading.card import Card, card_of
from attncourse.grading.compare import Described, Raised, difference, plain
from attncourse.grading.dataflow import Dataflow
from attncourse.grading.explain import Explainer, explain
from attncourse.grading.explain.asked import Asked
from attncourse.grading.inputs import normal, seeded, sized_cases
from attncourse.grading.isolation import torch_defaults
from attncourse.grading.judges import (
    GIVEN,
    Calls,
    Counts,
    Facts,
    Judge,
    Number,
    Observations,
    cases_of,
    differences,
    expected_of,
)
from attncourse.grading.mistake import Mistake
from attncourse.grading.observe import Case, NotAttempted, run
from attncourse.grading.verdict import Verdict, left_out

__all__ = [
    "GIVEN", "Asked", "Calls", "Case", "Counts", "Dataflow", "Described", "Exercise", "Facts",
    "Mistake", "NotAttempted", "Number", "Raised", "cases_of", "normal",
    "plain", "run", "seeded", "sized_cases",
]  # fmt: skip

# Added to every seed: an answer that seeds torch with 0 must not draw the inputs of its judge.
SEEDS = 0x5EED_0000


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One graded exercise.

    Args:
        name: ``"split_heads"``, as its file is called.
        answer: what the answer is called in the notebook, if not by the name of the exercise.
        judge: `Calls` of a function, `Counts`, `Layers`, `Number`, `Facts` or another `Judge`.
        right: one readable right answer; a `Dataflow` where its values have names.
        ideas: at most twelve wrong answers that no explainer tells, each with its sentence.
        explain: questions of this exercise, asked before those of all.
        axes: the letters of the axes of each result, ``("b h n e", "b h n m")``.
        results: what several results are called.
        asks_for: a function, a class, a layer (a class of modules), a number or a model.
        keeps_memory: does the answer keep anything between calls?
        requires: a package; where it is missing, the exercise is left out of the total.
        card: of an exercise that is in no notebook; the others have theirs in cards.json.
    """

    name: str
    answer: str = ""
    judge: Judge
    right: Any = field(default=None, repr=False)
    ideas: Sequence[Mistake] = field(default=(), repr=False)
    explain: tuple[Explainer, ...] = field(default=(), repr=False)
    axes: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    asks_for: Literal["function", "class", "layer", "number", "model"] = "function"
    keeps_memory: bool = False
    requires: str = ""
    card: Card | None = field(default=None, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "answer", self.answer or self.name)

    @property
    def title(self) -> str:
        return self._card.title

    @property
    def kind(self) -> str:
        return self._card.kind

    @property
    def points(self) -> int:
        return self._card.points

    @property
    def hints(self) -> tuple[str, ...]:
        return self._card.hints

    @property
    def _card(self) -> Card:
        return self.card or card_of(self.name)

    def left_out(self) -> Verdict | None:
        """The verdict where what it requires is not installed: nothing won, and nothing lost."""
        return left_out(self.name, self.requires)

    @property
    def out_of(self) -> int:
        """The points that can be had here: none where it is left out."""
        return 0 if self.left_out() else self.points

    def grade(self, answer: Any, seed: int = 0) -> Verdict:
        """Judge an answer on the inputs of this seed."""
        if verdict := self.left_out():
            return verdict
        seed += SEEDS
        try:
            if answer is None or answer is ...:
                raise NotAttempted
            with torch_defaults():
                seen = dict(self.judge.observe(answer, seed))
        except NotAttempted:
            return Verdict(self.name, "not attempted", 0, self.points)
        findings = tuple(differences(expected_of(self.judge, seed), seen))
        if not findings:
            return Verdict(self.name, "passed", self.points, self.points)
        with torch_defaults():
            asked = Asked(self, answer, expected_of(self.judge, seed), seen, seed)
            idea = self._idea(seen, seed)
            noticed = "" if idea else explain(asked, self.explain)
        findings = (noticed, *findings) if noticed else findings
        return Verdict(self.name, "failed", 0, self.points, findings, idea)

    def _idea(self, seen: Observations, seed: int) -> str:
        """The sentence of the idea that shows what was seen; '' where none does."""
        for idea in self.ideas:
            if shows(self.judge.observe(idea.answer, seed), seen):
                return idea.says
        return ""


def shows(observed: Iterable[tuple[str, Any]], seen: Observations) -> bool:
    """Is this what was seen, and nothing else? Observed no further than that takes."""
    left = set(seen)
    for what, x in observed:
        if what not in seen or difference(x, seen[what]):
            return False
        left.discard(what)
    return not left
