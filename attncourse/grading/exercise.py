"""What an exercise is: data and functions, with no notebook in them.

A *judge* turns an answer into observations, a dict from a readable property to what was seen. The
answer is right when it shows what the specification shows. When it is not, the known mistakes are
observed in the same way: one that shows exactly the same names what went wrong.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from attncourse.grading.compare import (
    Case,
    NotAttempted,
    Raised,
    difference,
    in_float64,
    is_stub,
    observe_call,
    observe_number,
    prepared,
)
from attncourse.grading.isolation import torch_defaults

Observations = dict[str, Any]


class Judge(Protocol):
    """Observes answers, and knows what a right one shows."""

    def observe(self, answer: Any, seed: int) -> Observations: ...

    def expected(self, seed: int) -> Observations: ...


@dataclass(frozen=True)
class Calls:
    """Judges a function by calling it: outputs, gradients, untouched inputs.

    Args:
        spec: the definition, slow and obvious; same arguments, same return values.
        cases: ``cases(generator)`` lists the calls; seeded, axes of pairwise different sizes.
        gradients: also compare the gradients of every floating-point input.
    """

    spec: Callable
    cases: Callable[..., list[Case]]
    gradients: bool = True

    def observe(self, answer: Callable, seed: int) -> Observations:
        if not callable(answer):
            return {"is a function": f"{type(answer).__name__}, which cannot be called"}
        names = list(inspect.signature(self.spec).parameters)
        seen = {}
        for call in prepared(answer, self.cases(seed), self.gradients):
            try:
                seen |= observe_call(call, names)
            except NotAttempted:
                if not seen:
                    raise
                # Other calls gave results, so this is no stub any more.
                seen[f"{call.case.label}, output"] = Raised("NotImplementedError", "")
        return seen

    def expected(self, seed: int) -> Observations:
        seen = self.observe(in_float64(self.spec), seed)
        # Where the definition refuses, any error of its kind is right, whatever it says.
        return {k: Raised(x.kind) if isinstance(x, Raised) else x for k, x in seen.items()}


@dataclass(frozen=True)
class Number:
    """Judges a number (or several), within a relative tolerance.

    Args:
        value: computes the right number; called once.
        rtol: allowed relative error.
    """

    value: Callable[[], Any]
    rtol: float = 1e-6

    def observe(self, answer: Any, seed: int) -> Observations:
        return {"the number": observe_number(answer, self.rtol)}

    def expected(self, seed: int) -> Observations:
        return {"the number": observe_number(self.value(), self.rtol)}


@dataclass(frozen=True)
class Facts:
    """Judges by properties that must hold: ``facts(answer, seed)`` maps each to True or to what was seen.

    For answers whose values are free, such as a trained model or a layer.
    """

    facts: Callable[[Any, int], dict[str, Any]]
    names: tuple[str, ...]

    def observe(self, answer: Any, seed: int) -> Observations:
        try:
            return self.facts(answer, seed)
        except NotAttempted:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, NotImplementedError) and is_stub(error):
                raise NotAttempted from None
            return {self.names[0]: Raised.by(error)}

    def expected(self, seed: int) -> Observations:
        return dict.fromkeys(self.names, True)


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give, and the sentence they should read."""

    says: str
    answer: Any


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


@dataclass(frozen=True)
class Verdict:
    """What a check found: status is ``passed``, ``failed`` or ``not attempted``."""

    name: str
    status: str
    points: int
    out_of: int
    findings: tuple[str, ...] = ()
    diagnosis: str = ""


@dataclass(frozen=True)
class Exercise:
    """One graded exercise.

    Args:
        name: ``"split_heads"``; no two exercises of the course share one.
        answer: what the answer is called in the notebook.
        title, kind, points, difficulty (1 to 5), minutes, needs: what its card says.
        judge: `Calls`, `Number` or `Facts`.
        hints: three, of increasing strength.
        accepted: right answers in different styles, by the name of the style.
        mistakes: wrong answers, each with its sentence.
        forbids: ready-made answers, such as ``torch.nn.MultiheadAttention``; the grader for classes
            must know how to block them. The course's own code is never allowed.
    """

    name: str
    answer: str
    title: str
    kind: str
    points: int
    difficulty: int
    minutes: int
    needs: str
    judge: Judge
    hints: tuple[str, str, str]
    accepted: dict[str, Any] = field(repr=False)
    mistakes: list[Mistake] = field(repr=False)
    forbids: tuple[str, ...] = ()

    def card(self) -> str:
        """The line under the title of the exercise, in Markdown."""
        return (
            f"{self.kind} · {self.points} point{'s' * (self.points > 1)} · "
            f"difficulty {self.difficulty} of 5 · about {self.minutes} minutes · "
            f"needs {self.needs}{self._not_allowed()}"
        )

    def _not_allowed(self) -> str:
        # Short names: the card must fit a phone.
        names = [f"`{path.rpartition('.')[2]}`" for path in self.forbids]
        return f" · not allowed: {' and '.join(names)} of torch" if names else ""

    def grade(self, answer: Any, seed: int = 0) -> Verdict:
        """Judge an answer on the inputs of this seed."""
        try:
            if answer is None or answer is ...:
                raise NotAttempted
            with torch_defaults():
                seen = self.judge.observe(answer, seed)
        except NotAttempted:
            return Verdict(self.name, "not attempted", 0, self.points)
        findings = tuple(differences(expected_of(self.judge, seed), seen))
        if not findings:
            return Verdict(self.name, "passed", self.points, self.points)
        return Verdict(self.name, "failed", 0, self.points, findings, self._diagnose(seen, seed))

    def _diagnose(self, seen: Observations, seed: int) -> str:
        """The sentence of the mistake that shows the same; failing that, the same where it ran."""
        shown = []
        for mistake in self.mistakes:
            with torch_defaults():
                shown.append((self.judge.observe(mistake.answer, seed), mistake.says))
            if not differences(shown[-1][0], seen):
                return mistake.says
        ran = {what: x for what, x in seen.items() if not isinstance(x, Raised)}
        right = expected_of(self.judge, seed)
        wrong = [what for what in ran if what not in right or difference(right[what], ran[what])]
        if len(ran) == len(seen) or not wrong:
            return ""
        for other, says in shown:
            if ran.keys() <= other.keys() and not any(difference(other[k], ran[k]) for k in ran):
                return says
        return ""


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
    missing = [f"{what}: nothing was found" for what in expected.keys() ^ seen.keys()]
    return outputs or found or sorted(missing)


def _sentence(what: str, expected: Any, seen: Any) -> str:
    problem = difference(expected, seen)
    sentence = f"{what}: {problem}" if problem else ""
    return sentence if len(sentence) <= 300 else sentence[:297] + "..."
