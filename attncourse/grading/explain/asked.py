"""A wrong answer, and all that explainers may look at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any, NamedTuple

from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain, same
from attncourse.grading.judges import Calls, cases_of
from attncourse.grading.observe import Case, calls_of, in_float64, observe_call, run

OUTPUT = ", output"
GRADIENT = ", gradient of "


class Wrong(NamedTuple):
    """A call whose output is wrong: its case (None without any), the right output, the output."""

    label: str
    case: Any
    expected: Any
    seen: Any


@dataclass(frozen=True)
class Asked:
    """A wrong answer, what it showed, and what a right one shows.

    Args:
        exercise: its judge, right answer and names of axes.
        answer: may be asked again.
        expected, seen: by property.
        seed: of the inputs.
        memory: for explainers that ask the same.
    """

    exercise: Any
    answer: Any
    expected: dict[str, Any]
    seen: dict[str, Any]
    seed: int
    memory: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def judge(self) -> Any:
        """The judge of the results, without the one that measures memory around it."""
        inner = getattr(self.exercise.judge, "calls", None)
        return inner if hasattr(inner, "observe") else self.exercise.judge

    @cached_property
    def cases(self) -> dict[str, Case]:
        """The calls of the judge by their labels; none where it makes no list of calls."""
        judge = self.judge
        cases = cases_of(judge, self.seed) if isinstance(judge, Calls) else []
        return {case.label: case for case in cases}

    @cached_property
    def arguments(self) -> list[str]:
        """The names of the arguments of the right function; none where there is none."""
        spec = getattr(self.judge, "spec", None)
        return list(signature(spec).parameters) if spec else []

    @cached_property
    def only_loud(self) -> bool:
        """Are all wrong calls of those with large scores, which say so in their labels?"""
        return bool(self.wrong) and all("scores" in x.label for x in self.wrong)

    @cached_property
    def calls(self) -> list[Wrong]:
        """All calls of the answer whose output was seen, right ones too."""
        return [
            Wrong(label, self.cases.get(label), right, self.seen[what])
            for what, right in self.expected.items()
            if what in self.seen and what.endswith(OUTPUT)
            for label in [what.removesuffix(OUTPUT)]
        ]

    @cached_property
    def wrong(self) -> list[Wrong]:
        """The calls whose output is not what was expected."""
        return [call for call in self.calls if difference(call.expected, call.seen)]

    @cached_property
    def far(self) -> list[Wrong]:
        """The calls whose output is wrong by more than rounding."""
        return [call for call in self.calls if not same(call.expected, call.seen)]

    @cached_property
    def shaped(self) -> list[Wrong]:
        """The wrong calls whose output has the right shapes."""
        return [call for call in self.wrong if _shaped(call.expected, call.seen)]

    @cached_property
    def results(self) -> list[tuple[Wrong, int, Any, Any]]:
        """Each result of these calls: the call, the number of the result, the right one, and it."""
        return [
            (call, number, *both)
            for call in self.shaped
            for number, both in enumerate(tensors(call.expected, call.seen))
        ]

    @cached_property
    def differs(self) -> list[str]:
        """The properties that are seen, and are not as expected."""
        both = ((what, right) for what, right in self.expected.items() if what in self.seen)
        return [what for what, right in both if difference(right, self.seen[what])]

    @cached_property
    def errors(self) -> dict[str, Raised]:
        """Errors where none belongs, by property."""
        return {
            what: x
            for what, x in self.seen.items()
            if isinstance(x, Raised) and not isinstance(self.expected.get(what), Raised)
        }

    @cached_property
    def stops(self) -> bool:
        """Do as many calls end in an error as give a wrong result? Then the error says more."""
        calls = [what for what in self.errors if GRADIENT not in what]
        return bool(calls) and 2 * len(calls) >= len(self.wrong)

    def again(self, cases: list[Case]) -> Iterator[tuple[Case, Any, Any]]:
        """Other calls, without gradients: the case, the right output, and that of the answer."""
        names: list[str] = []
        right = calls_of(in_float64(self.judge.spec), cases, False)
        found = calls_of(self.answer, cases, False)
        for case, one, other in zip(cases, right, found, strict=True):
            what = f"{case.label}{OUTPUT}"
            yield case, dict(observe_call(one, names))[what], dict(observe_call(other, names))[what]

    @cached_property
    def largest(self) -> Any:
        """The case of the wrong call with the most numbers, ordinary ones first; None without any.

        Of large scores weights are 0 or 1, and so equal by chance.
        """
        cases = (call.case for call in self.wrong if call.case)
        return max(cases, key=lambda x: (x.gradients is True, _size(x)), default=None)

    @cached_property
    def right(self) -> list[Any]:
        """The named values of the right answer in the largest wrong call, in their order."""
        values, case = getattr(self.exercise.right, "values", None), self.largest
        found = run(lambda: values(*case.args, **case.kwargs)) if values and case else []
        return [] if isinstance(found, Raised) else found


def _size(case: Case) -> int:
    """How many different numbers are given: what most of them share tells little."""
    return sum(x.unique().numel() for x in case.args if isinstance(x, Tensor))


def _shaped(expected: Any, seen: Any) -> bool:
    """Are these tensors, or tuples of them, of the same shapes?"""
    if isinstance(expected, tuple):
        alike = isinstance(seen, tuple) and len(seen) == len(expected)
        return alike and all(map(_shaped, expected, seen))
    return plain(expected) and plain(seen) and seen.shape == expected.shape


def tensors(expected: Any, seen: Any) -> list[tuple[Any, Any]]:
    """Each result of a call beside the right one, where there are as many."""
    if isinstance(expected, tuple) and isinstance(seen, tuple) and len(expected) == len(seen):
        return list(zip(expected, seen, strict=True))
    return [(expected, seen)]


def sizes_of(names: list[str], case: Case) -> Iterator[tuple[str, int]]:
    """The whole numbers of a call, and the sizes of the axes of its tensors, by their names."""
    for name, x in (*zip(names, case.args, strict=False), *case.kwargs.items()):
        if isinstance(x, int) and not isinstance(x, bool):
            yield name, x
        if isinstance(x, Tensor):
            yield from ((f"{name}.size({k})", size) for k, size in enumerate(x.shape))


def off(calls: list[Wrong]) -> list[tuple[Any, Any]]:
    """The results that are wrong by more than rounding."""
    return [both for x in calls for both in tensors(x.expected, x.seen) if not same(*both)]


def listed(names: Sequence[str]) -> str:
    """``"a, b and c"``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def labels(calls: list[Wrong]) -> str:
    """The first three calls, by what is special about them."""
    return "; ".join(call.label for call in calls[:3])


def axis_names(asked: Asked, result: Tensor, number: int = 0) -> list[str]:
    """The letters of the axes of a result, or their numbers where the exercise names none."""
    named = asked.exercise.axes[number].split() if number < len(asked.exercise.axes) else []
    return named if len(named) == result.dim() else [f"axis {k}" for k in range(result.dim())]
