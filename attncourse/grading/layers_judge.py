"""Judges layers: what does one store, and what does it compute and learn with known parameters?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.callable import takes, takes_what
from attncourse.grading.compare import Raised
from attncourse.grading.inputs import seeded
from attncourse.grading.judges import Facts
from attncourse.grading.observe import Case, NotAttempted, calls_of, observe_call, run


@dataclass(frozen=True)
class Layers:
    """Judges a class by the layers that it builds, compared with those of a definition.

    Args:
        definition: builds the right layers, slow and obvious.
        names: of the arguments of the constructor, ``"embed_dim num_heads"``; the width first.
        sizes: (special, arguments, (batch, n), how loud x is) for each layer. Loud is a
            factor, or a function that changes x and the parameters; unless it is 1, only results
            are compared.
        drawn: makes sizes that no list knows of three numbers between 2 and 4.
        calls: ``calls(n, seed)`` lists how ``forward`` is called: what follows x, as `Case`.
        also: what else must hold of the class.
    """

    definition: Callable[..., nn.Module]
    names: str
    sizes: tuple[tuple[str, tuple[int, ...], tuple[int, int], float | Callable], ...]
    drawn: Callable[..., tuple[int, ...]]
    calls: Callable[[int, int], list[Case]]
    also: Facts | None = None

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        why = self._no_class(answer)
        yield "is a class", why or True
        if why:
            return
        for number, (label, sizes, shape, loud) in enumerate(self.layers(seed)):
            try:
                yield from self._look(answer, label, sizes, shape, loud, seed, more=not number)
            except NotAttempted:
                if not number:
                    raise
                # Other layers gave results, so this is no stub any more.
                yield f"{label}, layer", Raised("NotImplementedError", "")
        if self.also:
            yield from self.also.observe(answer, seed)

    def _no_class(self, answer: Any) -> str:
        """Why this builds no layers; '' where it can."""
        if not callable(answer) or isinstance(answer, nn.Module | Tensor | tuple | list):
            kind = "an instance" if isinstance(answer, nn.Module) else f"a {type(answer).__name__}"
            return f"it is {kind}; pass the class itself"
        if takes(answer, self.sizes[0][1], {}):
            return ""
        wanted = ", ".join(self.names.split())
        return f"it is built with ({wanted}), but yours takes {takes_what(answer)}"

    def layers(self, seed: int) -> list[tuple[str, tuple[int, ...], tuple[int, int], Any]]:
        """(label, arguments of the constructor, (batch, n), how loud x is) for each layer."""
        three = torch.randint(2, 5, (3,), generator=seeded(seed, "sizes")).tolist()
        drawn = ", sizes drawn at random", self.drawn(*three), (3, 5), 0.5
        listed = (*self.sizes, drawn)
        return [(self.called(sizes) + what, sizes, n, loud) for what, sizes, n, loud in listed]

    def called(self, sizes: tuple[int, ...]) -> str:
        """A layer by the arguments of its constructor."""
        each = zip(self.names.split(), sizes, strict=True)
        return ", ".join(f"{name} {size}" for name, size in each)

    def expected(self, seed: int) -> dict[str, Any]:
        right = replace(self, also=None).observe(self.definition, seed)
        return dict(right) | (self.also.expected(seed) if self.also else {})

    def _look(self, answer, label, sizes, shape, loud, seed, more) -> Iterator[tuple[str, Any]]:
        """One layer: how many numbers it stores and where; outputs and gradients.

        With ``more`` it then reads a longer sequence, for which nothing that it keeps is enough.
        """
        made = run(built, answer, sizes)
        yield f"{label}, layer", made if isinstance(made, Raised) else True
        if isinstance(made, Raised):
            return
        layer, stored = made
        yield f"{label}, parameters", sum(p.numel() for p in stored.values())
        frozen = [name for name, p in stored.items() if not p.requires_grad]
        yield f"{label}, all parameters learn", not frozen or f"no, frozen: {' and '.join(frozen)}"
        for name in names_of(self.definition, sizes):
            size = " x ".join(map(str, stored[name].shape)) if name in stored else "none of its own"
            yield f"{label}, shape of {name}", size
        x = draw("x", (*shape, sizes[0]), seed, label)
        known = {name: draw(name, tuple(p.shape), seed, label) for name, p in stored.items()}
        if callable(loud):
            run(loud, x, known)
        else:
            x *= loud
        yield from self.called_with(layer, x, known, label, seed, loud == 1)
        if more:
            x = draw("longer", (shape[0], shape[1] + 3, sizes[0]), seed, label)
            label = f"{label}, then 3 tokens more"
            yield from self.called_with(layer, x, known, label, seed)

    def called_with(self, layer, x, known, label, seed, gradients=False) -> Iterator:
        """What a layer with these parameters makes of x in evaluation, in all calls."""
        stored = dict(layer.named_parameters())
        for name, p in stored.items():
            p.data = known[name].clone()
        calls = self.calls(x.size(1), seed)
        layer.eval()
        cases = [Case(label + c.label, (x, *c.args), c.kwargs) for c in calls]
        for call in calls_of(learning(layer), cases, gradients, stored):
            yield from observe_call(call, ["x", "attn_mask"])


@lru_cache(maxsize=64)
def names_of(definition: Callable[..., nn.Module], sizes: tuple[int, ...]) -> list[str]:
    """What a layer must store."""
    return [name for name, _ in definition(*sizes).named_parameters()]


def built(answer: Callable, sizes: tuple[int, ...]) -> tuple[nn.Module, dict[str, nn.Parameter]]:
    """A layer and its parameters."""
    layer = answer(*sizes)
    if not isinstance(layer, nn.Module):
        raise TypeError(f"a {type(layer).__name__} is no torch.nn.Module")
    stored = dict(layer.named_parameters())
    sum(p.numel() for p in stored.values())  # raises where one has no shape yet
    return layer, stored


def learning(layer: nn.Module) -> Callable:
    """The layer; gradients flow through its output, which is the first result."""

    def call(*args, **kwargs):
        result = layer(*args, **kwargs)
        if not isinstance(result, tuple | list) or not result:
            return result
        return (result[0], *(x.detach() if isinstance(x, Tensor) else x for x in result[1:]))

    return call


def draw(name: str, shape: tuple[int, ...], seed: int, stage: str = "") -> Tensor:
    """The same numbers for the same name, shape, seed and stage."""
    x = torch.randn(shape, generator=seeded(seed, name, stage))
    return x / shape[-1] ** 0.5 if shape and name.endswith("weight") else x


def far_apart(x: Tensor, known: dict[str, Tensor]) -> None:
    """Make the scores exactly -2**27 - 2**7 j for even keys j, 2**27 + 2**7 j for odd ones.

    With a mask, query 0 (of a head_dim of 1) sees but a score far below those that are hidden.
    """
    j = torch.arange(x.size(1))
    x[..., 0] = -((-1.0) ** j) * (2**12 + 2**-8 * j)
    for name, weight, bias in ("q", 0.0, 2.0**15), ("k", 1.0, 0.0), ("kv", 1.0, 0.0):
        if f"{name}_proj.weight" in known:
            known[f"{name}_proj.weight"].zero_()[:, 0] = weight
            known[f"{name}_proj.bias"].fill_(bias)
