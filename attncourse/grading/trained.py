"""Looking at a trained model: on new inputs, with its own parameters and with others."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
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

    The first says that it is a module, the second that it learns at most ``most`` numbers, the last
    that ``inputs`` are left unchanged. Those between are told by ``judge(model, inputs)`` in
    evaluation mode, as far as it comes; everything is put back.
    """
    if not isinstance(model, nn.Module):
        kind = "a class; make an instance" if isinstance(model, type) else type(model).__name__
        return {names[0]: kind}
    modes = [(module, module.training) for module in model.modules()]
    own = [(p, p.data) for p in model.parameters()]
    given = inputs.to(own[0][0].device if own else inputs.device, copy=True)
    try:
        judged = run(lambda: tuple(judge(model.eval(), given)))
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


def independent(
    model: nn.Module, inputs: Tensor, said: Tensor, alike: Callable[[Tensor, Tensor], bool]
) -> bool | str:
    """True where each of three inputs is answered alone as in its batch."""
    alone = torch.cat([model(inputs[k : k + 1].clone()) for k in range(3)])
    again = alike(model(inputs), said)
    return alike(alone, said[:3]) or ("no" if again else "no; asked twice, it says something else")


def skill(
    model: nn.Module,
    inputs: Tensor,
    generator: torch.Generator,
    knows: Callable[[Tensor], bool],
    moved: Callable[[Tensor], bool],
    by: float,
) -> bool | str:
    """True where other parameters know nothing, but almost the same ones do.

    Args:
        knows: of what is said with other parameters.
        moved: is this something else than what is said with its own?
        by: the share by which almost the same ones differ.
    """
    own, drawn = [p.data for p in model.parameters()], drawn_like(model, generator)
    for how, factor in ("set to 0", 0), ("drawn at random", 1), ("drawn at random", -1):
        if knows(with_parameters(model, [factor * p for p in drawn], inputs)):
            return f"with all parameters {how} it still does"
    nudged = [p * (1 + by * x) for p, x in zip(own, drawn, strict=True)]
    changed = f"all parameters changed by {by:g} of themselves"
    for words, numbers in (changed, nudged), ("the same", own):
        if moved(with_parameters(model, numbers, inputs)):
            return f"with {words} it says something else"
    return True


def up_to_wrong(facts: Callable[..., Iterator]) -> Callable[..., Iterator]:
    """The same facts up to the first that is wrong; those behind it need it."""

    @wraps(facts)
    def few(*args: Any, **named: Any) -> Iterator:
        for fact in facts(*args, **named):
            yield fact
            if (fact[1] if isinstance(fact, tuple) else fact) is not True:
                return

    return few


@torch.enable_grad()
def gradients(model: nn.Module, say: Callable[[], Tensor]) -> bool | str:
    """True where what the model says gives every parameter a gradient."""
    said = say()
    if not said.requires_grad:
        return "none does: all is computed under torch.no_grad(), or behind detach()"
    said.sum().backward()
    none = [name for name, p in model.named_parameters() if p.grad is None]
    return not none or f"these get none, they are detached or never used: {', '.join(none)}"


def times_as_slow(model: nn.Module, reference: nn.Module, inputs: Tensor) -> float:
    """The time of a model in that of another, the better of two of each, taken in turns."""
    best = [float("inf")] * 2
    for _ in range(2):
        for k, one in enumerate((reference, model)):
            start = time.perf_counter()
            one(inputs.clone())
            best[k] = min(best[k], time.perf_counter() - start)
    return best[1] / best[0]


def mixes(
    model: nn.Module, tokens: Tensor, others: Tensor, to: Callable, generator: torch.Generator
) -> bool | str:
    """True where a token moves more than the place ``to(place)``, also with other parameters.

    Args:
        others: a token for each, which takes its place in one of the sequences.
        to: the place where a model without attention would say the token of this place.
    """
    drawn, every, n = drawn_like(model, generator), range(len(tokens)), tokens.size(1)
    place, replaced = torch.arange(len(tokens)) % n, tokens.clone()
    replaced[every, place] = others[every, place]
    mixed = moves = False
    for factor in (1, -1):
        numbers = [factor * p for p in drawn]
        before, after = (with_parameters(model, numbers, x) for x in (tokens, replaced))
        moved = (after - before).nan_to_num(0.0, 0.0, 0.0).abs().amax(-1)
        kinds = (after.isfinite() != before.isfinite()).any(-1)  # may become NaN, too
        most, moves = moved.max(), moves or bool(moved.any() or kinds.any())
        for x in (moved, kinds):
            x[every, to(place)] = 0
        mixed |= bool(moved.max() > 0.01 * most or kinds.any())
    if not moves:
        return "with parameters drawn at random, no token changes anything"
    return mixed or "with parameters drawn at random, a token changes its own place only"
