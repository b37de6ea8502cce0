"""What an exercise is: data and functions, with no notebook in them.

A *judge* turns an answer into observations, pairs of a readable property and what was seen. The answer
is right when it shows what the specification shows. When it is not, the known mistakes are observed in
the same way: one that shows exactly the same names what went wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import index
from typing import Any, Literal, Protocol

from attncourse.grading.callable import no_function, signature
from attncourse.grading.card import Card, card_of
from attncourse.grading.compare import Close, Raised, difference
from attncourse.grading.diagnosis import Diagnosis, Observations
from attncourse.grading.explain import Explainer
from attncourse.grading.explain.asked import Asked
from attncourse.grading.isolation import torch_defaults
from attncourse.grading.mistake import Mistake
from attncourse.grading.numerals import observe_number, opened
from attncourse.grading.observe import (
    Case,
    NotAttempted,
    calls_of,
    in_float64,
    observe_call,
    run,
)
from attncourse.grading.verdict import Verdict, left_out

# Added to every seed: an answer that seeds torch with 0 must not draw the inputs of its judge.
SEEDS = 0x5EED_0000
GIVEN = "the answer"  # shown where the answer is no function and should be one


class Judge(Protocol):
    """Observes answers, and knows what a right one shows."""

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]: ...

    def expected(self, seed: int) -> Observations: ...


@dataclass(frozen=True)
class Calls:
    """Judges a function by calling it: outputs, gradients, untouched inputs.

    Args:
        spec: the definition, slow and obvious; same arguments, same return values.
        cases: ``cases(generator)`` lists the calls; seeded, axes of pairwise different sizes.
        gradients: also compare the gradients of every floating-point input.
        also: ``also(output)`` yields further properties of each output, as pairs of a readable name
            and what is seen; for those that a comparison within a tolerance overlooks.
    """

    spec: Callable
    cases: Callable[..., list[Case]]
    gradients: bool = True
    also: Callable[[Any], Iterator[tuple[str, Any]]] | None = None

    def observe(self, answer: Callable, seed: int) -> Iterator[tuple[str, Any]]:
        if problem := no_function(answer, self.spec, cases_of(self, seed)):
            yield GIVEN, problem
            return
        names = list(signature(self.spec).parameters)
        for number, call in enumerate(calls_of(answer, cases_of(self, seed), self.gradients)):
            try:
                for what, found in observe_call(call, names):
                    yield what, found
                    if self.also and what.endswith(", output") and not isinstance(found, Raised):
                        yield from self._further(call.case.label, found)
            except NotAttempted:
                if not number:
                    raise
                # Other calls gave results, so this is no stub any more.
                yield f"{call.case.label}, output", Raised("NotImplementedError", "")

    def _further(self, label: str, output: Any) -> Iterator[tuple[str, Any]]:
        """What ``also`` sees in an output; nothing where it cannot look at it."""
        found = run(lambda: list(self.also(output)))
        yield from () if isinstance(found, Raised) else ((f"{label}, {k}", x) for k, x in found)

    def listed(self, seed: int) -> list[Case]:
        """The calls on the inputs of a seed."""
        return cases_of(self, seed)

    def expected(self, seed: int) -> Observations:
        seen = dict(self.observe(in_float64(self.spec), seed))
        # Where the definition refuses, any error of its kind is right, whatever it says.
        return {k: Raised(x.kind) if isinstance(x, Raised) else x for k, x in seen.items()}


@lru_cache(maxsize=64)
def cases_of(judge: Calls, seed: int) -> list[Case]:
    """The cases of a judge, drawn once for each seed; answers get copies."""
    return judge.cases(seed)


@dataclass(frozen=True)
class Counts(Calls):
    """`Calls` whose results are whole numbers, or several of them, as `numerals.opened` reads them.

    Args:
        floats: also a float, or any other number, that is whole but for rounding.
    """

    gradients: bool = False
    floats: bool = False

    def observe(self, answer: Callable, seed: int) -> Iterator[tuple[str, Any]]:
        for what, found in super().observe(answer, seed):
            yield what, self._count(found) if what.endswith(", output") else found

    def _count(self, found: Any) -> Any:
        found = opened(found)
        if found is None:
            return None
        if isinstance(found, tuple):
            return tuple(map(self._count, found))
        if self.floats:
            return run(observe_number, found, 1e-9)
        count = run(index, found)
        return found if isinstance(found, bool) or isinstance(count, Raised) else count


@dataclass(frozen=True)
class Number:
    """Judges a number (or several), within a relative tolerance.

    Args:
        value: computes the right number; called once.
        rtol: allowed relative error.
        decimals: how many are asked; the error may then be half a unit of the last.
    """

    value: Callable[[], Any]
    rtol: float = 1e-6
    decimals: int | None = None

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        found = observe_number(answer, self.rtol)
        if self.decimals is not None and isinstance(found, Close):
            found = Close(found.value, 0.0, 0.5001 * 10**-self.decimals)
        yield "the number", found

    def expected(self, seed: int) -> Observations:
        return dict(self.observe(self.value(), seed))


@dataclass(frozen=True)
class Facts:
    """Judges by properties that must hold: ``facts(answer, seed)`` maps each to True or to what was seen.

    It returns a dict, or yields the pairs one after the other. For answers whose values are free, such
    as a trained model or a layer.
    """

    facts: Callable[[Any, int], dict[str, Any] | Iterator[tuple[str, Any]]]
    names: tuple[str, ...]

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        found = run(self.facts, answer, seed)
        found = [found] if isinstance(found, Raised) else found
        pairs = iter(found.items() if isinstance(found, dict) else found)
        left = dict.fromkeys(self.names)
        while pair := self._next(pairs, started=len(left) < len(self.names)):
            # An error stands where the next fact would.
            what, seen = (
                (next(iter(left), self.names[-1]), pair) if isinstance(pair, Raised) else pair
            )
            left.pop(what, None)
            yield what, seen

    def _next(self, pairs: Iterator, started: bool) -> Any:
        try:
            return run(next, pairs, None)
        except NotAttempted:
            if not started:
                raise
            # It did something before, so this is no stub any more.
            return Raised("NotImplementedError")

    def expected(self, seed: int) -> Observations:
        return dict.fromkeys(self.names, True)


class Accepted(dict[str, Any]):
    """Right answers in different styles; functions join by decoration: ``@ACCEPTED.add``."""

    def add(self, answer):
        self[answer.__name__] = answer
        return answer


class Mistakes(list[Mistake]):
    """A list that functions join by decoration: ``@MISTAKES.add("The scale is missing.")``."""

    def add(self, says: str) -> Callable:
        def register(answer):
            self.append(Mistake(says, answer))
            return answer

        return register


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One graded exercise.

    Args:
        name: ``"split_heads"``, as its file is called.
        answer: what the answer is called in the notebook, if not by the name of the exercise.
        judge: `Calls`, `Number`, `Facts` or another `Judge`.
        right: one readable right answer. Of a `Recipe` or a `Dataflow` one-step mistakes follow.
        ideas: at most twelve wrong answers that no explainer tells, each with its sentence.
        explain: questions of this exercise, asked before those of all.
        axes: the letters of the axes of each result, ``("b h n e", "b h n m")``.
        results: what several results are called.
        asks_for: what the answer is: a function, a class, a layer (a class of modules), a number or a model.
        keeps_memory: does the answer keep anything between calls?
        measures: what is measured beside results: "gradients", "memory", "parameters", "training".
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
    measures: tuple[str, ...] = ()
    accepted: dict[str, Any] = field(default_factory=dict, repr=False)
    mistakes: Sequence[Mistake] = field(default=(), repr=False)
    requires: str = ""
    card: Card | None = field(default=None, repr=False)
    _diagnoses: dict[int, Diagnosis] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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
            says, noticed = self._diagnosis(seed).of(asked)
        findings = (noticed, *findings) if noticed else findings
        return Verdict(self.name, "failed", 0, self.points, findings, says)

    def _diagnosis(self, seed: int) -> Diagnosis:
        """What the mistakes show on the inputs of a seed, kept for the next check."""
        if seed not in self._diagnoses:
            if len(self._diagnoses) > 3:
                self._diagnoses.clear()
            self._diagnoses[seed] = Diagnosis(self, seed)
        return self._diagnoses[seed]


@lru_cache(maxsize=64)
def expected_of(judge: Judge, seed: int) -> Observations:
    """What a right answer shows to this judge on the inputs of this seed."""
    with torch_defaults():
        return judge.expected(seed)


def differences(expected: Observations, seen: Observations) -> list[str]:
    """One sentence per property in which ``seen`` is not as expected.

    What follows from another fault is left out: a call that raised shows nothing else, and wrong
    outputs have wrong gradients.
    """
    shared = [_sentence(what, expected[what], seen[what]) for what in expected if what in seen]
    found = [sentence for sentence in shared if sentence]
    outputs = [sentence for sentence in found if ", gradient" not in sentence]
    missing = [
        f"{what}: {difference(True, seen[what]) if isinstance(seen.get(what), Raised) else 'nothing was found'}"
        for what in expected.keys() ^ seen.keys()
    ]
    given = [f"{GIVEN}: {seen[GIVEN]}"] if GIVEN in seen else []
    return given or outputs or found or sorted(missing)


def _sentence(what: str, expected: Any, seen: Any) -> str:
    sentence = f"{what}: {problem}" if (problem := difference(expected, seen)) else ""
    return sentence if len(sentence) <= 300 else sentence[:297] + "..."
