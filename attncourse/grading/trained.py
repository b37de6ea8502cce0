"""Looking at a trained model: on new inputs, with its own parameters and with others."""

import math
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.answer import tensors_of
from attncourse.grading.compare import Described, plain, same
from attncourse.grading.inputs import seeded
from attncourse.grading.judges import Facts
from attncourse.grading.observe import run


class Unlike(Exception):
    """What came back is of another kind than what it should be put beside; the message says how."""


def up_to_wrong(names: Sequence[str], pairs: Iterable) -> Iterator[tuple[str, Any]]:
    """Pairs of these names and what was seen, up to a wrong one; those behind it need it.

    Of what cannot be compared, an `Unlike`, the words are told.
    """
    left = list(names)
    try:
        for what, seen in pairs:
            left.remove(what)
            yield what, seen
            if seen is not True:
                return
    except Unlike as unlike:
        yield left[0], str(unlike)


def kind_of(x: Any) -> str:
    """What kind of object this is, in words."""
    if isinstance(x, tuple | list):
        return f"a {type(x).__name__} of {len(x)}"
    odd = f" and dtype {x.dtype}" if isinstance(x, Tensor) and not x.is_floating_point() else ""
    shape = f" of shape {tuple(x.shape)}" if hasattr(x, "shape") else ""
    return f"a {type(x).__name__}{shape}{odd}"


def answered(said: Any, shape: tuple[int, ...], model: nn.Module) -> bool | str:
    """True for a tensor of finite numbers in this shape; else what it is."""
    if not plain(said) or said.dtype == torch.bool or said.shape != shape:
        return f"{kind_of(said)}; it should be a tensor of shape {shape}"
    return finite(said, model)


def finite(said: Tensor, model: nn.Module) -> bool | str:
    """True where all numbers are finite; else how many are not, and whether parameters are."""
    nan, infinite = int(said.isnan().sum()), int(said.isinf().sum())
    fine = all(p.isfinite().all() for p in model.parameters())
    where = "all parameters are finite" if fine else "parameters are NaN or infinite, too"
    found = f"{nan:,} of {said.numel():,} numbers are NaN and {infinite:,} infinite; {where}"
    return not nan + infinite or found


TWICE = "asked twice, it says the same"


def judged(
    judge: Callable[..., Iterator],
    facts: Sequence[str],
    most: int,
    inputs: Callable[[int], Tensor],
    what: str,
) -> Facts:
    """Judges a trained model: a module that learns few numbers, ``facts``, and nothing changed.

    Args:
        judge: ``judge(model, inputs, seed)`` yields the facts, which it is asked for in evaluation
            mode and up to a wrong one; whatever it changes in the model is put back.
        facts: their names.
        most: so many numbers may be learned.
        inputs: for a seed; the first axis is that of samples.
        what: they are, in words.
    """
    module, small = "it is a torch.nn.Module", f"it learns at most {most:,} numbers"
    names = module, small, TWICE, *facts, f"{what} left unchanged"

    @torch.no_grad()
    def of_model(model: Any, seed: int) -> Iterator[tuple[str, Any]]:
        if not isinstance(model, nn.Module):
            kind = "a class; make an instance" if isinstance(model, type) else type(model).__name__
            yield module, kind
            return
        modes = [(part, part.training) for part in model.modules()]
        own, drawn = [(p, p.data) for p in model.parameters()], inputs(seed)
        given = drawn.to(own[0][0].device if own else drawn.device, copy=True)
        count = sum(p.numel() for p, _ in own)
        yield module, True
        yield small, count <= most or Described(f"too many: it learns {count:,}")
        found = judge(model.eval(), given, seed)
        try:
            once, again = (tensors_of(run(model, given[:2].clone())) for _ in "ab")
            yield TWICE, (settled := same(once, again))
            if settled:
                yield from up_to_wrong(facts, zip(facts, found, strict=False))
        finally:
            for part, mode in modes:
                part.training = mode
            for p, data in own:
                p.data = data
        yield names[-1], torch.equal(drawn, given.cpu())

    return Facts(of_model, names)


def put(model: nn.Module, numbers: Iterable[Tensor]) -> None:
    """Puts these numbers into the parameters of a model of any kind (scripted, traced)."""
    for p, data in zip(model.parameters(), numbers, strict=True):
        p.data = data


def with_parameters(model: nn.Module, numbers: Iterable[Tensor], inputs: Tensor) -> Any:
    """What a model says with these numbers in its parameters."""
    put(model, numbers)
    return model(inputs.clone())


def drawn_like(model: nn.Module, generator: torch.Generator) -> list[Tensor]:
    """Random numbers in place of its parameters."""
    return [torch.randn(p.shape, generator=generator).to(p) for p in model.parameters()]


def cannot(model: nn.Module, look: Callable[[], str]) -> str:
    """What a look finds with the parameters of a model, if it finds the same with others."""
    own, found = [p.data for p in model.parameters()], look()
    put(model, [0.3 * x for x in drawn_like(model, seeded(0))])
    same = found == look()
    put(model, own)
    return found if same else ""


def share(a: Tensor, b: Tensor) -> float:
    """Share of the places in which two tensors agree."""
    return (a == b).double().mean().item()


def moved_by(model: Callable[[Tensor], Tensor], inputs: Tensor, others: Tensor) -> Tensor:
    """How far a number in another's place moves what is said, (place, place of the answer, ...)."""
    (b, n), each = inputs.shape, torch.arange(inputs.numel())
    changed, place = inputs.repeat(n, 1), each // b
    changed[each, place] = others[each % b, place]
    said = model(inputs.repeat(n, 1))  # not in one batch: what a model keeps of a call shows itself
    return ((model(changed) - said).abs() / said.std()).unflatten(0, (n, b)).amax(1)


def unread(model: nn.Module, inputs: Tensor, others: Tensor, asks: Tensor) -> str:
    """Which inputs, or what of their order, make no difference where they should; '' if none.

    Args:
        others: take their places.
        asks: (n, m), which input belongs to which answer.
    """
    n, asked = inputs.size(1), asks.any(1)
    moved = moved_by(model, inputs, others).reshape(n, asks.size(1), -1).amax(-1) * asks
    if never := ((moved.amax(1) < 1e-6).cpu() & asked).nonzero().flatten().tolist():
        where = f"at the places {never}" if len(never) < asked.sum() else "at every place"
        return f"what stands {where} makes no difference where it should"
    order = [0, *range(n - 2, 0, -1), n - 1]
    same = near(model(inputs[:, order])[:, -1], model(inputs.clone())[:, -1])
    return "the order of all but the first and the last makes no difference" * same


def never_right(right: Tensor, numbers: Tensor, what: str) -> str:
    """Which numbers (tokens or positions) are hardly ever right, where all others are; or ''."""
    shares = torch.stack([right[numbers == k].double().mean() for k in numbers.unique()])
    low = shares < 0.2
    told = f"some {what} are never right: {numbers.unique()[low].tolist()}"
    return told if low.any() and not low.all() and shares[~low].min() > 0.9 else ""


def sure(logits: Tensor, targets: Tensor) -> str:
    """Whether a model that is hardly ever right guesses, or is sure of something else."""
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
    guess = math.log(logits.size(-1))
    what = "is sure of other tokens" if loss > guess + 0.7 else "does little more than guess"
    return f"it {what}; its loss is {loss:.2f}, that of a guess {guess:.2f}"


def near(a: Tensor, b: Tensor) -> bool:
    """The same numbers but for rounding?"""
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def alike(logits: Tensor, others: Tensor) -> bool:
    """Nearly the same logits, or the same answers?"""
    return near(logits, others) or share(logits.argmax(-1), others.argmax(-1)) > 0.99


def independent(
    model: nn.Module, inputs: Tensor, said: Tensor, same: Callable[[Tensor, Tensor], bool] = alike
) -> bool | str:
    """True where each of three inputs is answered alone as in its batch."""
    alone = [model(inputs[k : k + 1].clone()) for k in range(3)]
    again = model(inputs)  # here it may change them
    for x in alone:
        if (seen := answered(x, (1, *said.shape[1:]), model)) is not True:
            gives = "gives" if "tensor of shape" in str(seen) else "is not finite:"
            return f"a batch of one {gives} {seen}"
    told = "no" if same(again, said) else "no; asked twice, it says something else"
    return same(torch.cat(alone), said[:3]) or told


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
    for how, factor in (
        ("set to 0", 0),
        ("drawn at random", 1),
        ("drawn at random", -1),
        ("small", 0.1),
    ):
        if knows(with_parameters(model, [factor * p for p in drawn], inputs)):
            return f"with all parameters {how} it still does"
    nudged = [p * (1 + by * x) for p, x in zip(own, drawn, strict=True)]
    changed = f"all parameters changed by {by:g} of themselves"
    for words, numbers in (changed, nudged), ("the same", own):
        if moved(with_parameters(model, numbers, inputs)):
            return f"with {words} it says something else"
    return True


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
    """The time of a model in that of another, the better of two of each."""
    own, other = (
        min(timeit.repeat(lambda one=one: one(inputs.clone()), number=1, repeat=2))
        for one in (model, reference)
    )
    return own / other


def order_learned(
    model: nn.Module,
    tokens: Tensor,
    others: Tensor,
    to: Tensor,
    generator: torch.Generator,
    built_in: Sequence[int] = (0,),
) -> bool | str:
    """True where a token moves other answers than its own, with parameters drawn at random.

    Small ones show what is built in: where all scores are about 0, all places are read alike.

    Args:
        others: a token for each, which takes its place in one of the sequences.
        to: the place of its answer, for the token of each place, from the first.
        built_in: how far behind it, around the end, a token may be said without attention.
    """
    n, each, replaced = tokens.size(1), torch.arange(len(tokens)), tokens.clone()
    place = each % len(to)
    replaced[each, place] = others[each, place]
    around = (to[place][:, None] + torch.arange(n)) % n
    first, second = (drawn_like(model, generator) for _ in range(2))
    for size in 0, 1, 0.1:
        moved = torch.zeros(n, dtype=torch.float64)
        for factor, drawn in (size, first), (-size, first), (size, second):
            numbers = [factor * p for p in drawn]
            before, after = (with_parameters(model, numbers, x) for x in (tokens, replaced))
            change = (after - before).nan_to_num(0.0, 0.0, 0.0).abs().amax(-1)
            kinds = (after.isfinite() != before.isfinite()).any(-1)  # may become NaN, too
            change[kinds] = change.max().clamp(min=1e-9)
            relative = change.double().cpu().gather(1, around).mean(0)
            moved += relative / relative.max().clamp(min=1e-12)
        elsewhere = max(x for k, x in enumerate(moved.tolist()) if k not in built_in)
        if elsewhere < 0.3 * moved[0]:
            return (
                "forward knows the order: for any parameters, a token moves little but its answer"
            )
    return bool(moved.any()) or "with parameters drawn at random, no token changes anything"
