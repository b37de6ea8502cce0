"""What a decoder answers and who reads whom; and where that is wrong, what it means."""

from collections.abc import Callable, Generator
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.compare import plain
from attncourse.grading.exercises.capstone._net import VOCAB, close, logits_of
from attncourse.grading.trained import finite, kind_of, moved_by

SHAPE = "logits have shape (b, n, vocab) and are finite"
TWICE, APART = "asked twice, it answers the same", "samples of a batch are apart"
CAUSAL, READS = "no position reads a later token", "the last position reads every token"
DRAWS = "no; something random is left in evaluation mode, or a call leaves something behind"
MIXED = "it depends on others of its batch: does attention or a norm run over samples?"
MASK = "Does a mask act before the softmax over the keys? Does a view mix positions and heads?"

Facts = Generator[tuple[str, Any], None, Any]


def looked(model: nn.Module, one: nn.Module, tokens: Tensor, of: Callable = logits_of) -> Facts:
    """The facts SHAPE to CAUSAL of decoders of two layers and of one; it returns the `influence`.

    Tokens are (3, n); ``of`` takes the logits out of a result.
    """
    shapes = (shape_of(of(x(tokens.clone())), tokens) for x in (one, model))
    yield SHAPE, next((x for x in shapes if x is not True), True)
    logits = of(model(tokens.clone()))
    yield TWICE, close(of(model(tokens.clone())), logits) or DRAWS
    alone = of(model(tokens[1:2].clone()))
    shape = shape_of(alone, tokens[1:2])
    yield APART, close(alone, logits[1:2]) or (MIXED if shape is True else f"alone it is {shape}")
    moves = influence(model, tokens[:1, :12])
    yield CAUSAL, causal(moves, lambda: influence(one, tokens[:1, :12]))
    return moves


def shape_of(
    logits: Any, tokens: Tensor, vocab: int = VOCAB, model: nn.Module | None = None
) -> bool | str:
    """True for finite logits that are no probabilities; of a trained model, why they are not."""
    (b, n), shape = tokens.shape, tuple(getattr(logits, "shape", ()))
    if shape in ((b, vocab), (b, 1, vocab)) and n > 1:
        return "only the last position is answered; return logits for all, (b, n, vocab)"
    if shape != (b, n, vocab) or not plain(logits) or logits.dtype == torch.bool:
        return f"{kind_of(logits)}; it should be a tensor of shape {(b, n, vocab)}"
    if not (fine := logits.isfinite().all(-1).all(0)).all():
        why = finite(logits, model) if model else "may each position read itself, at least?"
        return f"those at {listed(~fine)} are not finite: {why}"
    one = torch.allclose(logits.sum(-1), torch.ones(b, n).to(logits), atol=1e-3)
    return not (one and (logits >= 0).all()) or "they are probabilities; return the logits"


def listed(there: Tensor) -> str:
    """The places where it is true: "0 to 3, 7"."""
    places = there.nonzero().flatten().tolist()
    starts = [k for k in places if k - 1 not in places]
    stops = [k for k in places if k + 1 not in places]
    runs = (f"{a} to {b}" if b > a else f"{a}" for a, b in zip(starts, stops, strict=True))
    return ", ".join(runs) or "none"


def influence(model: Callable[[Tensor], Any], tokens: Tensor, vocab: int = VOCAB) -> Tensor:
    """How far token j of (1, n) moves the logits at i, in units of their spread: (j, i)."""
    others = (tokens + 7) % vocab
    return moved_by(lambda x: logits_of(model(x)), tokens, others).amax(-1)


def causal(moves: Tensor, one: Callable[[], Tensor]) -> bool | str:
    """True where no later token is read, else which are; ``one`` gives the moves in one layer."""
    if not (moves > 1e-4).tril(-1).any():
        return True
    moves = one()
    leaks = (moves > 1e-4).tril(-1).any(0)
    if not leaks.any():
        return "with one layer none does, with two some do: does every layer get the mask?"
    first = int(leaks.nonzero()[0])
    read = f"position {first} depends on tokens {listed(moves[:, first] > 1e-6)}"
    return f"wrong at {listed(leaks)}: {read}, and should on none behind itself. {MASK}"


def reads_all(moves: Tensor) -> bool | str:
    """True where the last position reads every token."""
    unread = moves[:, -1] < 1e-6
    return not unread.any() or f"it does not read tokens {listed(unread)}; none before it is hidden"
