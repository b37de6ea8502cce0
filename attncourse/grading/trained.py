"""Looking at a trained model: on new inputs, with its own parameters and with others, and everything is put back."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.compare import Described, Raised
from attncourse.grading.observe import run


@torch.no_grad()
def facts_of(
    model: Any, names: Sequence[str], most: int, inputs: Tensor, judge: Callable[..., tuple]
) -> dict[str, Any]:
    """The facts of a trained model by their names.

    The first says that it is a module, the second that it learns at most ``most`` numbers, the last that
    ``inputs`` are left unchanged. Those between are told by ``judge(model, inputs)`` in evaluation mode, as far
    as it comes.
    """
    if not isinstance(model, nn.Module):
        kind = "a class; make an instance" if isinstance(model, type) else type(model).__name__
        return {names[0]: kind}
    modes = [(module, module.training) for module in model.modules()]
    own = [(p, p.data) for p in model.parameters()]
    given = inputs.to(own[0][0].device if own else inputs.device, copy=True)
    try:
        judged = run(judge, model.eval(), given)
    finally:
        for module, mode in modes:
            module.training = mode
        for p, data in own:
            p.data = data
    judged = (judged,) if isinstance(judged, Raised) else judged
    count = sum(p.numel() for p, _ in own)
    small = count <= most or Described(f"too many: it learns {count:,}")
    seen = dict(zip(names, (True, small, *judged), strict=False))
    return seen | {names[-1]: torch.equal(inputs, given.cpu())}


def with_parameters(model: nn.Module, numbers: Sequence[Tensor], inputs: Tensor) -> Any:
    """What a model of any kind (scripted, traced) says with these numbers in its parameters."""
    for p, data in zip(model.parameters(), numbers, strict=True):
        p.data = data
    return model(inputs.clone())


def drawn_like(model: nn.Module, generator: torch.Generator) -> list[Tensor]:
    """Random numbers in place of its parameters."""
    return [torch.randn(p.shape, generator=generator).to(p) for p in model.parameters()]


def share(a: Tensor, b: Tensor) -> float:
    """Share of the places in which two tensors agree."""
    return (a == b).double().mean().item()
