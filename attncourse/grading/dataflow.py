"""A right answer as a dataflow: it yields its values on the way, each with its name.

    @Dataflow
    def right(log_decay):
        total = yield "the running sums", log_decay.cumsum(-1)
        pairs = yield "their differences", total[..., :, None] - total[..., None, :]
        past = yield "those of the past", pairs.masked_fill(later(pairs), -math.inf)
        return past.exp()

Called like a function it is the right answer: what is yielded comes back as it is. Its values tell
an explainer up to which step a wrong answer is right (`explain.steps`).
"""

from collections.abc import Callable, Generator
from functools import update_wrapper
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse.grading.mistake import Mistake


class Value(NamedTuple):
    """One value on the way, called as a student would call it, in the plural: "the weights"."""

    called: str
    number: Any


class Dataflow:
    """A right answer in named steps.

    Args:
        steps: a generator function that yields each `Value` and goes on with what comes back.
        changes: what is sent back in the place of the value of this name; nothing in what is right.
    """

    def __init__(self, steps: Callable[..., Generator], **changes: Callable[[Any], Any]):
        self.steps, self.changes = steps, changes
        update_wrapper(self, steps)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(args, kwargs, [])

    def values(self, *args: Any, **kwargs: Any) -> list[Value]:
        """The values of one call in the order in which they are made, without the arguments."""
        kept: list[Value] = []
        self._run(args, kwargs, kept)
        return kept

    def _run(self, args: tuple, kwargs: dict[str, Any], kept: list[Value]) -> Any:
        flow, back = self.steps(*args, **kwargs), None
        while True:
            try:
                made = Value(*flow.send(back))
            except StopIteration as end:
                return end.value
            kept.append(made)
            change = self.changes.get(made.called)
            back = change(made.number) if change else made.number

    def but(self, says: str, called: str, change: Callable[[Any], Any]) -> Mistake:
        """The mistake that changes one value, with the sentence that a student reads."""
        return Mistake(says, Dataflow(self.steps, **{called: change}))

    def changed(self, called: str) -> "Dataflow":
        """The same with other numbers in the place of a value: what depends on it changes."""
        return Dataflow(self.steps, **{called: _other})


def _other(number: Tensor) -> Tensor:
    """Other numbers, or other booleans."""
    return ~number if number.dtype == torch.bool else 2 * number + 1
