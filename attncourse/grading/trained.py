"""Looking at a trained model: on new inputs, with its own parameters and with others."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.compare import LIBRARIES, Described, plain
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import NotAttempted, run


class Unlike(Exception):
    """What came back is of another kind than what it should be put beside; the message says how."""


def of_answer(error: BaseException) -> bool:
    """Was it raised by a module or by the answer's own code, and not by who looks at results?"""
    step = error.__traceback__
    while step:
        code, frame = step.tb_frame.f_code, str(step.tb_frame.f_globals.get("__name__"))
        root = frame.partition(".")[0]
        far = root == "attngrade"  # where the answer of another process raises
        if far or code is nn.Module._call_impl.__code__ or root not in LIBRARIES:
            return True
        step = step.tb_next
    return isinstance(error, TypeError) and "__init__" in str(error)


def looked(look: Callable, *args: Any) -> Any:
    """What a look at an answer shows; where it fails, `Raised` if the answer did, else words.

    Raises:
        NotAttempted: the answer is the stub of the exercise.
    """

    def look_or_words() -> Any:
        try:
            return look(*args)
        except Unlike as unlike:
            return str(unlike)
        except Exception as error:
            if of_answer(error) or isinstance(error, NotAttempted | NotImplementedError):
                raise
            kind = type(error).__name__
            return f"what comes back does not fit what came before ({kind}: {error})"

    return run(look_or_words)


def by_name(names: Sequence[str], pairs: Iterable) -> Iterator[tuple[str, Any]]:
    """Pairs of these names and what was seen of each; a look that fails is told, and ends them."""
    left, pairs = list(names), iter(pairs)
    while isinstance(pair := looked(next, pairs, None), tuple):
        left.remove(pair[0])
        yield pair
    if pair is not None:
        yield left[0], pair


def kind_of(x: Any) -> str:
    """What kind of object this is, in words."""
    if isinstance(x, tuple | list):
        return f"a {type(x).__name__} of {len(x)}"
    shape = getattr(x, "shape", None)
    return f"a {type(x).__name__}{'' if shape is None else f' of shape {tuple(shape)}'}"


def answered(said: Any, shape: tuple[int, ...], model: nn.Module) -> bool | str:
    """True for a tensor of finite numbers in this shape; else what it is."""
    if not plain(said) or said.dtype == torch.bool or said.shape != shape:
        strange = f" and dtype {said.dtype}" if isinstance(said, Tensor) else ""
        odd = strange if getattr(said, "shape", None) == shape else ""
        return f"{kind_of(said)}{odd}; it should be a tensor of shape {shape}"
    return finite(said, model)


def finite(said: Tensor, model: nn.Module) -> bool | str:
    """True where all numbers are finite; else how many are not, and whether parameters are."""
    nan, infinite = int(said.isnan().sum()), int(said.isinf().sum())
    fine = all(bool(p.isfinite().all()) for p in model.parameters())
    where = "all parameters are finite" if fine else "parameters are NaN or infinite, too"
    found = f"{nan:,} of {said.numel():,} numbers are NaN and {infinite:,} infinite; {where}"
    return not nan + infinite or found


@torch.no_grad()
def facts_of(
    model: Any, names: Sequence[str], most: int, inputs: Tensor, judge: Callable[..., Iterable]
) -> dict[str, Any]:
    """The facts of a trained model by their names.

    The first says that it is a module, the second that it learns at most ``most`` numbers, the last
    that ``inputs`` are left unchanged. Those between are yielded by ``judge(model, inputs)`` in
    evaluation mode, as far as it comes; everything is put back.
    """
    if not isinstance(model, nn.Module):
        kind = "a class; make an instance" if isinstance(model, type) else type(model).__name__
        return {names[0]: kind}
    modes = [(module, module.training) for module in model.modules()]
    own = [(p, p.data) for p in model.parameters()]
    given = inputs.to(own[0][0].device if own else inputs.device, copy=True)
    count = sum(p.numel() for p, _ in own)
    small = count <= most or Described(f"too many: it learns {count:,}")
    seen, between = {names[0]: True, names[1]: small}, names[2:-1]
    try:
        seen |= by_name(between, zip(between, judge(model.eval(), given), strict=False))
    finally:
        for module, mode in modes:
            module.training = mode
        for p, data in own:
            p.data = data
    return seen | {names[-1]: torch.equal(inputs, given.cpu())}


def with_parameters(model: nn.Module, numbers: Sequence[Tensor], inputs: Tensor) -> Any:
    """What a model of any kind (scripted, traced) says with these numbers in its parameters."""
    for p, data in zip(model.parameters(), numbers, strict=True):
        p.data = data
    return model(inputs.clone())


def drawn_like(model: nn.Module, generator: torch.Generator) -> list[Tensor]:
    """Random numbers in place of its parameters."""
    return [torch.randn(p.shape, generator=generator).to(p) for p in model.parameters()]


def cannot(model: nn.Module, look: Callable[[], str]) -> str:
    """What a look finds with the parameters of a model, if it finds the same with others."""
    own, drawn = [p.data for p in model.parameters()], drawn_like(model, seeded(0))
    found = look()
    for p, x in zip(model.parameters(), drawn, strict=True):
        p.data = 0.3 * x
    same = found == look()
    for p, data in zip(model.parameters(), own, strict=True):
        p.data = data
    return found if same else ""


def share(a: Tensor, b: Tensor) -> float:
    """Share of the places in which two tensors agree."""
    return (a == b).double().mean().item()


def moved_by(model: nn.Module, inputs: Tensor, others: Tensor) -> Tensor:
    """How far a number in another's place moves what is said, (place, place of the answer, ...)."""
    said, found = model(inputs.clone()), []
    for place in range(inputs.size(1)):
        changed = inputs.clone()
        changed[:, place] = others[:, place]
        found.append((model(changed) - said).abs().amax(0) / said.std())
    return torch.stack(found)


def sure(logits: Tensor, targets: Tensor) -> str:
    """Whether a model that is hardly ever right guesses, or is sure of something else."""
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
    guess = math.log(logits.size(-1))
    what = "is sure of other tokens" if loss > guess + 0.7 else "does little more than guess"
    return f"it {what}; its loss is {loss:.2f}, that of a guess {guess:.2f}"


def near(a: Tensor, b: Tensor) -> bool:
    """The same numbers but for rounding?"""
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def independent(
    model: nn.Module, inputs: Tensor, said: Tensor, alike: Callable[[Tensor, Tensor], bool]
) -> bool | str:
    """True where each of three inputs is answered alone as in its batch."""
    alone = [model(inputs[k : k + 1].clone()) for k in range(3)]
    again = model(inputs)  # here it may change them
    for x in alone:
        if (seen := answered(x, (1, *said.shape[1:]), model)) is not True:
            gives = "gives" if "tensor of shape" in str(seen) else "is not finite:"
            return f"a batch of one {gives} {seen}"
    if alike(torch.cat(alone), said[:3]):
        return True
    return "no" if alike(again, said) else "no; asked twice, it says something else"


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
