"""What can be seen of a decoder from outside: who reads whom, what is stored, what pieces give."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.compare import Described
from attncourse.grading.inputs import seeded

VOCAB = 19
NOT_FINITE = "some are not finite"
LAYERS, GRADIENT = "each layer brings its own parameters", "every parameter gets a gradient"
IS_CLASS, IS_MODULE = "it is a class", "it builds a torch.nn.Module"


def logits_of(result: Any) -> Tensor:
    """The logits, where a cache may stand beside them."""
    return result[0] if isinstance(result, tuple | list) and result else result


def drawn_into(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """Random numbers of a size with which every step has an effect; in evaluation mode."""
    for name, p in model.eval().named_parameters():
        x = torch.randn(p.shape, generator=generator)
        if p.dim() > 1:
            x *= 1.5 * p.shape[-1] ** -0.5
        else:
            x = 0.3 * x + name.endswith("weight")
        p.data = x.to(p)
    return model


def no_class(answer: Any) -> bool:
    """Can nothing be built with it? A model instead of its class, or a value."""
    return isinstance(answer, nn.Module) or not callable(answer)


def built(answer: Any) -> Iterator[tuple[str, Any]]:
    """Is it a class that builds a module? The first two facts of every decoder."""
    if no_class(answer):
        kind = "an instance" if callable(answer) else f"a value of type {type(answer).__name__}"
        yield IS_CLASS, f"it is {kind}; pass the class itself"
        return
    made = answer(VOCAB, 12, 2, 1, 16)  # before any fact, so that a stub is told from an answer
    yield IS_CLASS, isinstance(answer, type) or f"a {type(answer).__name__}; pass the class itself"
    yield IS_MODULE, isinstance(made, nn.Module) or f"it builds a {type(made).__name__}"


def shape_of(logits: Any, tokens: Tensor) -> bool | str:
    """True for finite logits (b, n, vocab) that are no probabilities."""
    wanted, shape = (*tokens.shape, VOCAB), tuple(getattr(logits, "shape", ()))
    if shape != wanted:
        axes = {tokens.size(0): "b", tokens.size(1): "n", VOCAB: "vocab"}
        named = ", ".join(axes.get(size, str(size)) for size in shape)
        return f"a {type(logits).__name__}{f' of shape ({named})' * hasattr(logits, 'shape')}"
    if not logits.isfinite().all():
        return not_finite(~logits.isfinite().all(-1))
    one = torch.allclose(logits.sum(-1), torch.ones(tokens.shape).to(logits), atol=1e-3)
    return "each row sums to 1, as probabilities do" if one and (logits >= 0).all() else True


def not_finite(bad: Tensor) -> str:
    """Where the logits are not finite: ``bad`` is (b, n)."""
    bad, count = bad.any(0), int(bad.any(0).sum())
    if bad[-count:].all() and count == 1:
        return "those of the last position are not finite"
    if bad[:count].all() and count < len(bad):
        first = "first position are" if count == 1 else "first positions are"
        return Described(f"those of the {first} not finite: {count} of {len(bad)}")
    return NOT_FINITE


def influence(logits: Callable[[Tensor], Tensor], tokens: Tensor, vocab: int = VOCAB) -> Tensor:
    """How far token j moves the logits at i, in units of their spread, (j, i); tokens are (1, n)."""
    n = tokens.size(1)
    before, other = logits(tokens.expand(n, n).clone()), tokens.repeat(n, 1)
    every = torch.arange(n)
    other[every, every] = (other[every, every] + 7) % vocab
    moved = (logits(other) - before).abs().amax(-1)
    return moved / before.std()


NEXT, FIRST = "a position reads the next token", "only position 0 reads later tokens"
EVERY, SOME = "positions read all later tokens", "positions read some later tokens and not others"
TURNED = "positions read later tokens instead of earlier ones"


NO_MASK = (
    "Every position reads all later tokens: there is no causal mask, or it does not act. It sets scores of later tokens to "
    "minus infinity before the softmax, and the softmax runs over the keys, dim=-1. If yours does, look for a norm or a "
    "softmax that runs over positions."
)
RESHAPED = (
    "Positions read some later tokens and not others, as happens where a reshape mixes positions and heads. Split with "
    "unflatten(-1, (num_heads, -1)).transpose(1, 2), and go back with transpose(1, 2) before flatten(2)."
)


def causal(moves: Tensor, one: Callable[[], Tensor] | None = None) -> bool | str:
    """True where no position reads a later token, else which are read.

    Args:
        moves: the `influence` of each token.
        one: gives that in a single layer, where it shows what one step of attention does.
    """
    if not (moves > 1e-4).tril(-1).any():
        return True
    if one is not None:
        moves = one()
    leaks = (moves > 1e-4).tril(-1)
    ahead = {j - i for j, i in leaks.nonzero().tolist()}
    if not ahead:
        return "positions read later tokens, but not in one layer"
    if max(ahead) <= (1 if one else 2):  # of two layers
        return NEXT
    if not leaks[:, 1:].any():
        return FIRST
    if not (moves > 1e-6).triu(1)[:, :-1].any():
        return TURNED
    if one is None:
        return "positions read later tokens"
    band = torch.ones_like(leaks).triu(-max(ahead)).tril(-1)
    if torch.equal(leaks, band) and max(ahead) < len(leaks) / 2:
        return Described(f"positions read some of the next tokens: {max(ahead)} of them")
    every = leaks.sum() > 0.4 * leaks.numel()  # of a half; rounding hides some
    return EVERY if every else SOME


def reads_all(moves: Tensor) -> bool | str:
    """True where the last position reads every token."""
    unread = (moves[:, -1] < 1e-6).nonzero().flatten().tolist()
    if not unread:
        return True
    if len(unread) == len(moves) - 1:
        return "the last position reads one token only"
    return Described(f"the last position does not read some: {unread}")


def close(a: Tensor, b: Tensor) -> bool:
    """Equal but for rounding?"""
    same = a.shape == b.shape and bool(a.isfinite().all()) and bool(b.isfinite().all())
    return same and bool(((a - b).abs() < 2e-3 * b.std() + 1e-5).all())


def random_tokens(seed: int, label: str, batch: int, n: int) -> Tensor:
    """Tokens of which none stands beside its like."""
    steps = torch.randint(1, VOCAB - 1, (batch, n), generator=seeded(seed, label))
    return steps.cumsum(1) % VOCAB


def size(model: nn.Module) -> int:
    """How many numbers it learns."""
    return sum(p.numel() for p in model.parameters())


def adds_parameters(make: Callable[[int], nn.Module]) -> bool:
    """True where each layer brings parameters; ``make(layers)`` builds a model."""
    counts = [size(make(layers)) for layers in (1, 2, 3)]
    return counts[0] < counts[1] < counts[2]


@torch.enable_grad()
def gradients(model: nn.Module, tokens: Tensor) -> bool | Described:
    """True where a loss reaches every parameter."""
    logits = logits_of(model(tokens.clone()))
    if not logits.requires_grad:
        return "none does, so nothing could be learned"
    nn.functional.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
    none = [name for name, p in model.named_parameters() if p.grad is None]
    return not none or Described(f"some get none: {', '.join(none)}")
