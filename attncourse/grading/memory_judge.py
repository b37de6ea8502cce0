"""How much memory an answer takes on its way, judged beside its results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from attncourse.grading.compare import difference
from attncourse.grading.exercise import Calls, Judge, differences, expected_of

MIB = 2**20


@dataclass(frozen=True)
class Budget:
    """A call that only fits into its memory if nothing large is made; the kernel keeps the limit.

    What a function far away says of its memory need not be true. What it can do with little is.

    Args:
        call: ``call(generator)``: arguments, the forbidden tensor being much larger than the budget.
        expected: what is right, computed from the same arguments.
        mib: the budget, beyond the arguments.
    """

    call: Callable[[torch.Generator], tuple]
    expected: Callable
    mib: int = 40

    def proof(self, judge: Judge, answer: Any, seed: int, seen: dict, title: str) -> dict:
        """Have an answer far away prove the fact ``title``, if all that was seen of it is right."""
        if not hasattr(answer, "far_within") or differences(expected_of(judge, seed), seen):
            return {}
        return {title: self.holds(answer, seed)}

    def holds(self, answer: Any, seed: int) -> bool | str:
        """True when the answer far away is right within the budget; else what happened."""
        args = self.call(torch.Generator().manual_seed(seed))
        try:
            seen = answer.far_within(self.mib * MIB, *args)
        except (Exception, SystemExit) as error:
            why = f": {error}" if isinstance(error, MemoryError) else ""
            return f"with large inputs, {self.mib} MiB beyond them are not enough{why}"
        wrong = difference(self.expected(*args), seen)
        return f"with large inputs, {wrong}" if wrong else True


@dataclass(frozen=True)
class MemoryLimited:
    """Judges the results like `Calls`, and ``memory(answer)``: True, or what was too large."""

    calls: Calls
    title: str
    memory: Callable
    budget: Budget

    def observe(self, answer, seed: int) -> dict:
        seen = self.calls.observe(answer, seed)
        if not callable(answer):
            return seen
        seen[self.title] = self.memory(answer)
        return seen | self.budget.proof(self, answer, seed, seen, self.title)

    def expected(self, seed: int) -> dict:
        return self.calls.expected(seed) | {self.title: True}
