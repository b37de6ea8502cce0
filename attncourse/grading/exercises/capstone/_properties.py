"""What can be seen of a decoder from outside: who reads whom, what is stored, what pieces give."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.compare import Described
from attncourse.grading.inputs import seeded

VOCAB = 19
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
        return f"a {type(logits).__name__} of shape ({named})"
    if not logits.isfinite().all():
        return "some are not finite"
    one = torch.allclose(logits.sum(-1), torch.ones(tokens.shape).to(logits), atol=1e-3)
    return "each row sums to 1, as probabilities do" if one and (logits >= 0).all() else True


def influence(logits: Callable[[Tensor], Tensor], tokens: Tensor, vocab: int = VOCAB) -> Tensor:
    """How far token j moves the logits at i, in units of their spread, (j, i); tokens are (1, n)."""
    n = tokens.size(1)
    before, other = logits(tokens.expand(n, n).clone()), tokens.repeat(n, 1)
    every = torch.arange(n)
    other[every, every] = (other[every, every] + 7) % vocab
    moved = (logits(other) - before).abs().amax(-1)
    return moved / before.std()


def causal(moves: Tensor) -> bool | str:
    """True where no position reads a later token."""
    leaks = (moves > 1e-4).tril(-1)
    if not leaks.any():
        return True
    ahead = {j - i for j, i in leaks.nonzero().tolist()}
    if max(ahead) <= 2:  # of two layers
        return "a position reads the next token"
    first = leaks[:, 1:].any()
    return "positions read later tokens" if first else "only position 0 reads later tokens"


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
