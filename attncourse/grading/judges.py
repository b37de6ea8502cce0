"""Judges turn an answer into observations: pairs of a readable property and what was seen.

An answer is right when it shows what the definition shows. `Calls` are functions, `Counts` those
that return whole numbers, `Number` is a prediction, and `Facts` are properties that must hold.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Protocol

from torch import Tensor

from attncourse.grading.callable import no_function, signature
from attncourse.grading.companions import with_companions
from attncourse.grading.compare import Close, Described, Raised, difference, plain
from attncourse.grading.isolation import torch_defaults
from attncourse.grading.numerals import observe_number, opened, whole
from attncourse.grading.observe import (
    FINITE,
    Case,
    NotAttempted,
    calls_of,
    detached,
    in_float64,
    observe_call,
    run,
)

AGAIN = "asked again in the opposite order, each call gives the same"
OVERWRITTEN = "no, overwritten"
MOST_AGAIN = 4096  # numbers in a call that is made once more
GIVEN = "the answer"  # shown where the answer is no function and should be one
Observations = dict[str, Any]


class Judge(Protocol):
    """Observes answers, and knows what a right one shows."""

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]: ...

    def expected(self, seed: int) -> Observations: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Calls:
    """Judges a function by calling it: outputs, gradients, untouched inputs.

    Args:
        spec: the definition, slow and obvious; same arguments, same return values.
        cases: ``cases(seed)`` lists the calls, with axes of pairwise different sizes.
        gradients: also compare the gradients of every floating-point input.
        also: ``also(output)`` yields further properties of each output, as pairs of a readable name
            and what is seen; for those that a comparison within a tolerance overlooks.
        reads: ``reads(output)`` is compared in its place, where an output may have several forms.
    """

    spec: Callable
    cases: Callable[..., list[Case]]
    gradients: bool = True
    also: Callable[[Any], Iterator[tuple[str, Any]]] | None = None
    reads: Callable[[Any], Any] | None = None

    def observe(self, answer: Callable, seed: int) -> Iterator[tuple[str, Any]]:
        if problem := no_function(answer, self.spec, cases_of(self, seed)):
            yield GIVEN, problem
            return
        outputs: Observations = {}
        kept: Observations = {}
        yield from self._calls(answer, seed, outputs, kept)
        yield AGAIN, self._again(answer, seed, outputs, kept)

    def _calls(self, answer, seed, outputs, kept) -> Iterator[tuple[str, Any]]:
        """What is seen of each call; ``outputs`` gets its output, ``kept`` the very object."""
        names = list(signature(self.spec).parameters)
        for number, call in enumerate(calls_of(answer, cases_of(self, seed), self.gradients)):
            label = call.case.label
            call = replace(call, result=partial(_keep, kept, label, call.result))
            try:
                for what, found in observe_call(call, names):
                    if not what.endswith(", output"):
                        yield what, found
                        continue
                    outputs[label] = found = self.told(found)
                    yield what, found
                    if self.also and not isinstance(found, Raised):
                        yield from _further(self.also, label, found)
            except NotAttempted:
                if not number:
                    raise
                # Other calls gave results, so this is no stub any more.
                outputs[label] = Raised("NotImplementedError", "")
                yield f"{label}, output", outputs[label]

    def told(self, output: Any) -> Any:
        """What is compared of an output."""
        return self.reads(output) if self.reads and not isinstance(output, Raised) else output

    def _again(self, answer, seed, outputs, kept) -> bool | str:
        """True where nothing that is kept between calls makes a difference."""
        if not all(_comparable(x) and not difference(x, x) for x in outputs.values()):
            return True  # that is another fault
        for label, output in kept.items():
            if difference(outputs[label], self.told(detached(output))):
                return Described(f"{OVERWRITTEN}: a later call changed the result of '{label}'")
        small = [case for case in cases_of(self, seed)[::-1] if _quick(case)]
        for call in calls_of(answer, small, False):
            found = run(call.result)
            found = found if isinstance(found, Raised) else self.told(detached(found.output))
            if difference(outputs[call.case.label], found):
                return Described(f"no: '{call.case.label}' gives another result the second time")
        return True

    def expected(self, seed: int) -> Observations:
        seen = dict(self._calls(in_float64(self.spec), seed, {}, {})) | {AGAIN: True}
        seen |= {what: True for what in seen if what.endswith(FINITE)}
        # Where the definition refuses, any error of its kind is right, whatever it says.
        return {k: Raised(x.kind) if isinstance(x, Raised) else x for k, x in seen.items()}


def _further(also: Callable, label: str, output: Any) -> Iterator[tuple[str, Any]]:
    """What ``also`` sees in an output; nothing where it cannot look at it."""
    found = run(lambda: list(also(output)))
    yield from () if isinstance(found, Raised) else ((f"{label}, {k}", x) for k, x in found)


def _quick(case: Case) -> bool:
    """Is a call cheap enough to be made once more? A function in its arguments may be a model."""
    size = sum(x.numel() for x in case.args if isinstance(x, Tensor))
    return size <= MOST_AGAIN and not any(map(callable, case.args))


def _keep(kept: Observations, label: str, result: Callable) -> Any:
    outcome = result()
    kept[label] = outcome.output
    return outcome


def _comparable(output: Any) -> bool:
    """Is this of the kinds whose equality is meant?"""
    if isinstance(output, tuple):
        return all(map(_comparable, output))
    return plain(output) or isinstance(output, int | float | Close)


@lru_cache(maxsize=64)
def cases_of(judge: Calls, seed: int) -> list[Case]:
    """The cases of a judge and their companions, drawn once for each seed; answers get copies."""
    names = list(signature(judge.spec).parameters)
    with torch_defaults():
        return with_companions(in_float64(judge.spec), judge.cases(seed), names)


@dataclass(frozen=True)
class Counts(Calls):
    """`Calls` whose results are whole numbers, or several of them, as `numerals.opened` reads them.

    A float, or any other number, is one where it is whole but for rounding.
    """

    gradients: bool = False

    def told(self, output: Any) -> Any:
        return output if isinstance(output, Raised) else self._count(output)

    def _count(self, found: Any) -> Any:
        found = opened(found)
        if found is None:
            return None
        if isinstance(found, tuple):
            return tuple(map(self._count, found))
        count = run(whole, found)
        return found if isinstance(count, Raised) else count


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
    """Judges by properties: ``facts(answer, seed)`` maps each to True or to what was seen.

    It returns a dict, or yields the pairs one after the other. For answers whose values are free,
    such as a trained model or a layer.
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
    lacking = {what: seen.get(what) for what in expected.keys() ^ seen.keys()}
    missing = [
        f"{what}: {difference(True, x) if isinstance(x, Raised) else 'nothing was found'}"
        for what, x in lacking.items()
    ]
    given = [f"{GIVEN}: {seen[GIVEN]}"] if GIVEN in seen else []
    return given or outputs or found or sorted(missing)


def _sentence(what: str, expected: Any, seen: Any) -> str:
    sentence = f"{what}: {problem}" if (problem := difference(expected, seen)) else ""
    return sentence if len(sentence) <= 300 else sentence[:297] + "..."
