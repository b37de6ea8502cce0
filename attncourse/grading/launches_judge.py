"""Judges kernels: programs that return nothing, and are judged by what they leave in memory."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import Raised
from attncourse.grading.explain.asked import Asked
from attncourse.grading.judges import GIVEN
from attncourse.grading.observe import NotAttempted, run

ELSE = "everything else is left alone"


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Args:
        label: what is special about it.
        buffers: what it may read and write, by name; it gets copies.
        numbers: the other arguments, in their order.
        programs: how many run, one after the other.
        written: of each buffer that is written, which flat part must be; everything else stays.
    """

    label: str
    buffers: dict[str, Tensor]
    numbers: tuple
    programs: int
    written: dict[str, slice]


@dataclass(frozen=True)
class Launches:
    """Judges a kernel by the memory that it leaves behind.

    Args:
        definition: ``definition(launch)`` gives what must stand in the parts that are written.
        launches: ``launches(seed)`` lists them.
        start: ``start(kernel, buffers, launch)`` runs the programs of a launch.
        refuse: ``refuse(answer)`` says why this cannot be a kernel, or nothing.
    """

    definition: Callable[[Launch], dict[str, Tensor]]
    launches: Callable[[int], list[Launch]]
    start: Callable[[Any, list[Tensor], Launch], None]
    refuse: Callable[[Any], str]

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        if why := self.refuse(answer):
            yield GIVEN, why
            return
        for number, launch in enumerate(self.launches(seed)):
            buffers = {name: x.clone() for name, x in launch.buffers.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a wrong kernel may divide by 0
                ended = run(self.start, answer, list(buffers.values()), launch)
            if isinstance(ended, Raised):
                # Triton's interpreter wraps what a kernel raises, the bare error of a stub too.
                if not number and ended.message == "NotImplementedError()":
                    raise NotAttempted
                yield f"{launch.label}, output", ended
                continue
            yield f"{launch.label}, output", self._written(launch, buffers)
            yield f"{launch.label}, {ELSE}", _left_alone(launch, buffers)

    def _written(self, launch: Launch, buffers: dict[str, Tensor]) -> Any:
        """What stands in the parts that are written, in the shapes of the definition."""
        right = self.definition(launch)
        parts = launch.written.items()
        found = [buffers[x].flatten()[part].view(right[x].shape).clone() for x, part in parts]
        return tuple(found) if len(found) > 1 else found[0]

    def expected(self, seed: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for launch in self.launches(seed):
            right = tuple(self.definition(launch).values())
            found[f"{launch.label}, output"] = right if len(right) > 1 else right[0]
            found[f"{launch.label}, {ELSE}"] = True
        return found


def _left_alone(launch: Launch, buffers: dict[str, Tensor]) -> bool | str:
    changed = []
    for name, before in launch.buffers.items():
        same = torch.isclose(before, buffers[name], rtol=0, atol=0, equal_nan=True).flatten()
        same[launch.written.get(name, slice(0))] = True
        changed += [f"{int((~same).sum())} numbers of {name}"] * (not same.all())
    return not changed or f"no, {' and '.join(changed)} changed that are none of its business"


def overwritten(asked: Asked) -> str:
    """What should be written is right, and what stands beside it is overwritten."""
    wrong = [k for k, x in asked.seen.items() if k.endswith(ELSE) and x is not True]
    if asked.wrong or not wrong:
        return ""
    label = wrong[0].removesuffix(f", {ELSE}")
    changed = str(asked.seen[wrong[0]]).removeprefix("no, ")
    return f"What is asked is right, but in the launch '{label}' {changed}: mask the stores."


def unwritten(asked: Asked) -> str:
    """The first row of an output that still holds what was there before."""
    seen = {call.label: call.seen for call in asked.shaped}
    for launch in asked.judge.launches(asked.seed):
        found = seen.get(launch.label, ())
        rows = zip(launch.written.items(), found if isinstance(found, tuple) else (found,))  # noqa: B905
        for (name, part), now in rows:
            before = launch.buffers[name].flatten()[part].view(now.shape)
            still = (before == now).flatten(1).all(1) if now.dim() > 1 else before == now
            if still.any():
                at = int(still.nonzero()[0])
                return f"In the launch '{launch.label}' row {at} of {name} is not written."
    return ""


LOOKS = overwritten, unwritten


class Program:
    """Runs like a kernel of Triton, without Triton.

    Args:
        program: ``program(number, *arguments)`` does the work of one program.
        steps: further arguments, such as steps that are replaced.
    """

    def __init__(self, program: Callable, **steps: Any):
        self.program, self.steps = program, steps

    def run(self, *arguments: Any, grid: tuple[int], warmup: bool) -> None:
        for number in range(grid[0]):
            self.program(number, *arguments, **self.steps)


def no_program(answer: Any) -> str:
    """Why this cannot be a program in Python."""
    got = type(answer).__name__
    return "" if callable(answer) else f"expected a function, got {got}; pass the function itself"


def triton_starts(kernel: Any, buffers: list[Tensor], launch: Launch) -> None:
    """Runs a kernel of Triton."""
    kernel.run(*buffers, *launch.numbers, grid=(launch.programs,), warmup=False)


def no_kernel(answer: Any) -> str:
    """Why this cannot be a kernel of Triton, run by its interpreter."""
    got = type(answer).__name__
    if got == "JITFunction":
        return (
            "Triton was imported before TRITON_INTERPRET was set to 1, so it wants a graphics "
            "card; restart the kernel and run the notebook from the top"
        )
    if got in ("InterpretedFunction", "Kernel", "Program"):  # of Triton, and what runs like one
        return ""
    return f"expected a kernel with @triton.jit above it, got {got}; pass the kernel itself"
