"""How much memory an answer takes on its way, judged beside its results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from attncourse.grading.answer import RemoteAnswer, as_answer
from attncourse.grading.compare import Described, difference
from attncourse.grading.inputs import seeded
from attncourse.grading.judges import Calls, differences, expected_of
from attncourse.grading.observe import run

MIB = 2**20


@dataclass(frozen=True)
class Budget:
    """A call that only fits into its memory if nothing large is made; the kernel keeps the limit.

    A remote answer can lie about its allocations, so it must give the result under this limit.

    Args:
        call: ``call(generator)``: arguments; the forbidden tensor is much larger than the budget.
        expected: what is right, computed from the same arguments.
        mib: the budget, beyond the arguments.
    """

    call: Callable[[torch.Generator], tuple]
    expected: Callable
    mib: int = 40

    def holds(self, answer: RemoteAnswer, seed: int) -> bool | str:
        """True when the remote answer is right within the budget; else what happened."""
        args = self.call(seeded(seed))
        try:
            seen = answer.within(self.mib * MIB, *args)
        except (Exception, SystemExit) as error:
            why = f": {error}" if isinstance(error, MemoryError) else ""
            return Described(f"with large inputs, {self.mib} MiB beyond them are not enough{why}")
        wrong = difference(self.expected(*args), seen)
        return f"with large inputs, {wrong}" if wrong else True


@dataclass(frozen=True)
class MemoryLimited:
    """Judges the results like `Calls` and, where they are right, the memory that the answer takes.

    Args:
        calls: the judge of the results.
        title: the fact that the memory suffices.
        memory: ``memory(answer)``: True, or what was too large.
        budget: what a remote answer must keep to, besides.
        instead: what to do where it does not suffice, as a sentence.
    """

    calls: Calls
    title: str
    memory: Callable
    budget: Budget
    instead: str = ""

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        seen = {}
        for what, found in self.calls.observe(answer, seed):
            seen[what] = found
            yield what, found
        if not differences(expected_of(self.calls, seed), seen):
            yield self.title, self._memory(answer, seed)

    def _memory(self, answer: Callable, seed: int) -> Any:
        found = run(self.memory, answer)
        if found is True and isinstance(answer, RemoteAnswer):
            return self.budget.holds(answer, seed)
        return found

    def expected(self, seed: int) -> dict[str, Any]:
        return expected_of(self.calls, seed) | {self.title: True}


def grows_linearly(call: Callable[[int], tuple], n: int, answer: Callable) -> bool | str:
    """True where twice as many tokens take about twice as many numbers, all operations together.

    Args:
        call: ``call(n)``: the arguments for n tokens.
        n: all pairs of twice as many would be four times as many.
        answer: measured.
    """
    made, twice = (as_answer(answer).allocations(*call(tokens)) for tokens in (n, 2 * n))
    if twice.total <= 2.4 * made.total:
        return True
    if twice.new >= (2 * n) ** 2:
        return Described(f"all pairs at once: {twice.how}")
    return Described(f"{made.total:,} numbers for {n} tokens, and {twice.total:,} for {2 * n}")
