"""What an answer does in the calls of its judge, observed again and apart from the judge and its explainers."""

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from attncourse.grading import exercise as grading
from attncourse.grading.judges import cases_of

NEAR = 2e-3


@dataclass(frozen=True)
class Question:
    """One call that the judge asks for, and the right result, in double precision.

    Args:
        label: of the case.
        given: the arguments, by name; `named` are passed so.
        right: the result of the definition, or its error.
    """

    label: str
    given: dict[str, Any]
    named: frozenset[str]
    right: Any


@dataclass(frozen=True)
class Call(Question):
    """A question and what an answer gives.

    Args:
        seen: the result, or the error.
        changed: the names of tensors that are not what they were.
    """

    seen: Any
    changed: tuple[str, ...]

    @property
    def wrong(self) -> bool:
        """Is what came back not the right result?"""
        if isinstance(self.right, BaseException):
            return not isinstance(self.seen, BaseException)
        return not alike(self.right, self.seen)


class Questions:
    """What a judge asks on the inputs of a seed; nothing where it does not list cases and a definition.

    Args:
        exercise: judged.
        seed: of `Exercise.grade`.
    """

    def __init__(self, exercise: Any, seed: int):
        judge = getattr(exercise.judge, "calls", exercise.judge)
        self.spec, listed = getattr(judge, "spec", None), hasattr(judge, "cases")
        self.cases = partial(cases_of, judge) if listed else None
        self.names = tuple(getattr(exercise, "results", ()) or getattr(judge, "names", ()))
        self.reads = getattr(judge, "reads", None) or (lambda found: found)
        self.seed = seed + getattr(grading, "SEEDS", 0)
        self._gradients: dict[str, dict] = {}

    @cached_property
    def all(self) -> list[Question]:
        if not callable(self.spec) or not callable(self.cases):
            return []
        return [self._asked(case) for case in self.cases(self.seed)]

    def gradients(self, question: Question) -> dict[str, Tensor | None]:
        """The right gradients, computed once."""
        if (label := question.label) not in self._gradients:
            found = gradients(self.spec, double(question.given), question.named)
            self._gradients[label] = found
        return self._gradients[label]

    def _asked(self, case: Any) -> Question:
        names = list(inspect.signature(self.spec).parameters)
        given = dict(zip(names, case.args, strict=False)) | case.kwargs
        named = frozenset(case.kwargs)
        return Question(case.label, given, named, result(self.spec, double(given), named))


class Evidence:
    """What an answer does when it is asked.

    Args:
        questions: of its judge.
        answer: to observe.
    """

    def __init__(self, questions: Questions, answer: Callable):
        self.questions, self.answer, self.names = questions, answer, questions.names

    @cached_property
    def calls(self) -> list[Call]:
        return [self._called(question) for question in self.questions.all]

    @property
    def wrong(self) -> list[Call]:
        """The calls whose result is wrong."""
        return [call for call in self.calls if call.wrong]

    def labelled(self, label: str) -> Call | None:
        """The call of a case."""
        return next((call for call in self.calls if call.label == label), None)

    def again(self, call: Call, **changed: Any) -> tuple[Any, Any]:
        """Right and seen results with some arguments replaced."""
        given, named = call.given | changed, call.named
        right = result(self.questions.spec, double(given), named)
        return right, result(self.answer, copied(given), named)

    def gradients(self, call: Call) -> tuple[dict, dict]:
        """The gradients of a weighted sum of the results, by the names of the arguments: right and seen."""
        seen = gradients(self.answer, copied(call.given), call.named)
        return self.questions.gradients(call), seen

    def _called(self, question: Question) -> Call:
        mine = copied(question.given)
        seen = self.questions.reads(result(self.answer, mine, question.named))
        tensors = {k: x for k, x in mine.items() if isinstance(x, Tensor)}
        changed = [k for k, x in tensors.items() if not _kept(x, question.given[k])]
        return Call(**vars(question), seen=seen, changed=tuple(changed))


def result(f: Callable, given: dict[str, Any], named: frozenset[str]) -> Any:
    """What a call returns, or its error. An answer may call its arguments as it likes: most come by place."""
    by_place = [x for k, x in given.items() if k not in named]
    try:
        found = f(*by_place, **{k: given[k] for k in given if k in named})
    except Exception as error:
        return error
    return tuple(found) if isinstance(found, list) else found


def copied(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, tensors copied."""
    return {k: x.clone() if isinstance(x, Tensor) else x for k, x in given.items()}


def double(given: dict[str, Any]) -> dict[str, Any]:
    """Copies in double precision."""
    floats = {k: x for k, x in given.items() if isinstance(x, Tensor) and x.is_floating_point()}
    return copied(given) | {k: x.double() for k, x in copied(floats).items()}


def parts(found: Any) -> tuple:
    """Several results, or one."""
    return found if isinstance(found, tuple) else (found,)


def pairs(call: Call) -> Iterator[tuple[Any, Any]]:
    """Right and seen results that belong together."""
    right, seen = parts(call.right), parts(call.seen)
    return zip(right, seen, strict=True) if len(right) == len(seen) else iter(())


def alike(a: Any, b: Any, near: float = NEAR) -> bool:
    """The same results but for rounding."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        a, b = parts(a), parts(b)
        return len(a) == len(b) and all(alike(x, y, near) for x, y in zip(a, b, strict=True))
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        # No more than the judge allows of half precision: it is refused, however near.
        if a.shape != b.shape or (a.dtype == torch.bool) != (b.dtype == torch.bool):
            return False
        x, y = a.detach().double(), b.detach().double()
        return torch.allclose(y, x, rtol=near, atol=near / 10, equal_nan=True)
    if isinstance(a, int | float) and isinstance(b, int | float | Tensor):
        return math.isclose(float(a), float(b), rel_tol=near)
    return type(a) is type(b) and a == b


def _kept(x: Tensor, before: Tensor) -> bool:
    return x.shape == before.shape and torch.equal(x.nan_to_num(), before.nan_to_num())


def gradients(f: Callable, given: dict, named: frozenset[str]) -> dict[str, Tensor | None]:
    """The gradients of a weighted sum of the results, by the names of the arguments."""
    leaves = {k: x for k, x in given.items() if isinstance(x, Tensor) and x.is_floating_point()}
    for x in leaves.values():
        x.requires_grad_()
    # Not the leaves themselves, so that an answer may change its inputs in place.
    found = result(f, {k: x * 1 if k in leaves else x for k, x in given.items()}, named)
    outputs = [x for x in parts(found) if isinstance(x, Tensor) and x.requires_grad]
    if isinstance(found, Exception) or not outputs:
        return dict.fromkeys(leaves)
    total = sum((places(x).to(x) * x).sum() for x in outputs)
    found = torch.autograd.grad(total, [*leaves.values()], allow_unused=True)
    return dict(zip(leaves, found, strict=True))


def places(x: Tensor) -> Tensor:
    """A weight of its own for each number of a result."""
    return torch.arange(x.numel()).cos().view(x.shape)
