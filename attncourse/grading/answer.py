"""The answer to a function exercise: one that runs here, or one that lives in another process."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from attncourse.grading.allocations import Allocations, made_by

Arguments = tuple[list, dict[str, Any]]


class Answer(Protocol):
    """What judges ask of an answer."""

    def results(self, calls: list[Arguments]) -> list[Callable[[], Any]]:
        """For each call a function that gives its result, or raises what it raised."""

    def allocations(self, *args: Any) -> Allocations:
        """How large the tensors are that a call makes on its way."""


class RemoteAnswer(ABC):
    """An answer in another process. Only explicit subclasses count: a submission cannot pretend to be one.

    It can lie about its allocations, so it must also give its result under a limit of memory.
    """

    @abstractmethod
    def results(self, calls: list[Arguments]) -> list[Callable[[], Any]]: ...

    @abstractmethod
    def allocations(self, *args: Any) -> Allocations: ...

    @abstractmethod
    def within(self, most_bytes: int, *args: Any) -> Any:
        """The result of a call that may take so many bytes beyond its arguments.

        Raises:
            Exception: the call takes more.
        """


class LocalAnswer:
    """A function of this process."""

    def __init__(self, function: Callable):
        self.function = function

    def results(self, calls: list[Arguments]) -> list[Callable[[], Any]]:
        return [partial(self.function, *args, **kwargs) for args, kwargs in calls]

    def allocations(self, *args: Any) -> Allocations:
        return made_by(self.function, *args)


def as_answer(answer: Callable) -> Answer:
    """The answer itself if it is remote, else a `LocalAnswer`."""
    return answer if isinstance(answer, RemoteAnswer) else LocalAnswer(answer)
