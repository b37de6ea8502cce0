"""Judges kernels: programs that return nothing, and are judged by what they leave in memory."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import Raised
from attncourse.grading.judges import GIVEN
from attncourse.grading.observe import NotAttempted, run


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
                yield f"{launch.label}, {next(iter(launch.written))}", ended
                continue
            for name, part in launch.written.items():
                yield f"{launch.label}, {name}", buffers[name].flatten()[part].clone()
            yield f"{launch.label}, everything else is left alone", _left_alone(launch, buffers)

    def expected(self, seed: int) -> dict[str, Any]:
        found = {}
        for launch in self.launches(seed):
            right = self.definition(launch)
            found |= {f"{launch.label}, {name}": right[name].flatten() for name in launch.written}
            found[f"{launch.label}, everything else is left alone"] = True
        return found


def _left_alone(launch: Launch, buffers: dict[str, Tensor]) -> bool | str:
    changed = []
    for name, before in launch.buffers.items():
        same = torch.isclose(before, buffers[name], rtol=0, atol=0, equal_nan=True).flatten()
        same[launch.written.get(name, slice(0))] = True
        changed += [f"{int((~same).sum())} numbers of {name}"] * (not same.all())
    return not changed or f"no, {' and '.join(changed)} changed that are none of its business"
