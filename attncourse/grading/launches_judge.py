"""Judges kernels: programs that return nothing, and are judged by what they leave in memory."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, difference
from attncourse.grading.explain import Explainer
from attncourse.grading.explain.asked import Asked, tensors
from attncourse.grading.explain.weights import says_of_map
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
        triton: a kernel of Triton, in its interpreter; else a function of the number of a program.
    """

    definition: Callable[[Launch], tuple[Tensor, ...]]
    launches: Callable[[int], list[Launch]]
    triton: bool = False

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        if why := _no_kernel(answer, self.triton):
            yield GIVEN, why
            return
        for number, launch in enumerate(self.launches(seed)):
            buffers = run(self.after, answer, launch)
            if isinstance(buffers, Raised):
                # Triton's interpreter wraps what a kernel raises, the bare error of a stub too.
                if not number and buffers.message == "NotImplementedError()":
                    raise NotAttempted
                yield f"{launch.label}, output", buffers
                continue
            yield f"{launch.label}, output", _output(self.written(launch, buffers))
            yield f"{launch.label}, {ELSE}", _left_alone(launch, buffers)

    def after(self, answer: Any, launch: Launch) -> dict[str, Tensor]:
        """The buffers after a launch."""
        buffers = {name: x.clone() for name, x in launch.buffers.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a wrong kernel may divide by 0
            arguments = *buffers.values(), *launch.numbers
            if self.triton:
                answer.run(*arguments, grid=(launch.programs,), warmup=False)
            else:
                for program in range(launch.programs):
                    answer(program, *arguments)
        return buffers

    def written(self, launch: Launch, buffers: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """What stands in the parts that are written, in the shapes of the definition."""
        parts = zip(launch.written.items(), self.definition(launch), strict=True)
        return tuple(buffers[x].flatten()[part].view(right.shape) for (x, part), right in parts)

    def expected(self, seed: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for launch in self.launches(seed):
            found[f"{launch.label}, output"] = _output(self.definition(launch))
            found[f"{launch.label}, {ELSE}"] = True
        return found


def _output(parts: tuple[Tensor, ...]) -> Any:
    return parts if len(parts) > 1 else parts[0]


def _left_alone(launch: Launch, buffers: dict[str, Tensor]) -> bool | str:
    changed = []
    for name, before in launch.buffers.items():
        same = torch.isclose(before, buffers[name], rtol=0, atol=0, equal_nan=True).flatten()
        same[launch.written.get(name, slice(0))] = True
        changed += [f"{int((~same).sum())} numbers of {name}"] * (not same.all())
    return not changed or f"no, it changes {' and '.join(changed)} as well: mask the stores"


def _no_kernel(answer: Any, triton: bool) -> str:
    """Why this cannot be a kernel of Triton, run by its interpreter, or a program in Python."""
    got = type(answer).__name__
    if not triton:
        return "" if callable(answer) else f"expected a function, got {got}; pass it itself"
    if got == "JITFunction":
        return (
            "Triton was imported before TRITON_INTERPRET was set to 1, so it wants a graphics "
            "card; restart the kernel and run the notebook from the top"
        )
    if got in ("InterpretedFunction", "Kernel", "Program"):  # of Triton, and what runs like one
        return ""
    return f"expected a kernel with @triton.jit above it, got {got}; pass the kernel itself"


class Program:
    """Runs like a kernel of Triton, without it: ``program(number, *arguments)``, one by one."""

    def __init__(self, program: Callable):
        self.program = program

    def run(self, *arguments: Any, grid: tuple[int], warmup: bool) -> None:
        for number in range(grid[0]):
            self.program(number, *arguments)


def looks(identity: Callable[[int], Launch]) -> tuple[Explainer, ...]:
    """Explainers of a kernel of attention: which row is not written, and which weights are wrong?

    Args:
        identity: ``identity(seed)``: values that are the identity, so its first output are weights.
    """

    def weights(asked: Asked) -> str:
        launch, judge = identity(asked.seed), asked.judge
        seen = judge.written(launch, judge.after(asked.answer, launch))[0]
        if (seen < 0).any():
            return ""  # these are no weights: other values are read
        right = judge.definition(launch)[0]
        return says_of_map(launch.label, right, seen) if difference(right, seen) else ""

    return _unwritten, weights


def _unwritten(asked: Asked) -> str:
    """The first row of an output that still holds what was there before."""
    launches = {launch.label: launch for launch in asked.judge.launches(asked.seed)}
    for call in asked.shaped:
        launch = launches[call.label]
        parts = zip(launch.written.items(), tensors(call.expected, call.seen), strict=True)
        for (name, part), (_, now) in parts:
            before = launch.buffers[name].flatten()[part].view(now.shape)
            still = (before == now).reshape(len(now), -1).all(1)
            if still.any():
                at = int(still.nonzero()[0])
                return f"In the launch '{launch.label}' row {at} of {name} is not written."
    return ""
