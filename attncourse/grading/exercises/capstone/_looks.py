"""What a decoder answers and who reads whom, and what it means where that is wrong."""

from collections.abc import Callable, Generator
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.exercises.capstone._net import VOCAB, close, logits_of

SHAPE = "logits have shape (b, n, vocab) and are finite"
TWICE, APART = "asked twice, it answers the same", "samples of a batch are apart"
NOT_FINITE = "some are not finite"
PROBABILITIES = "they are probabilities; return the logits, and let the loss take the softmax"
CAUSAL, READS = "no position reads a later token", "the last position reads every token"


Facts = Generator[tuple[str, Any], None, Any]


def looked(model: nn.Module, one: nn.Module, tokens: Tensor, of: Callable = logits_of) -> Facts:
    """The facts SHAPE to CAUSAL; it returns the `influence` of tokens.

    Args:
        model, one: decoders of two layers and of one.
        tokens: (3, n).
        of: takes the logits out of a result.
    """
    logits = of(model(tokens.clone()))
    shape = shape_of(logits, tokens)
    if shape == NOT_FINITE:  # a layer says more about it than two
        near = shape_of(of(one(tokens.clone())), tokens)
        shape = shape if near is True else near
    yield SHAPE, shape
    yield TWICE, close(of(model(tokens.clone())), logits)
    alone = of(model(tokens[1:2].clone()))
    same = close(alone, logits[1:2])
    kept = tuple(alone.shape) == (1, *logits.shape[1:])
    yield APART, same if kept else f"alone its logits have shape {tuple(alone.shape)}"
    moves = influence(model, tokens[:1, :12])
    yield CAUSAL, causal(moves, lambda: influence(one, tokens[:1, :12]))
    return moves


def shape_of(logits: Any, tokens: Tensor, vocab: int = VOCAB) -> bool | str:
    """True for finite logits that are no probabilities."""
    shapes = [tuple(getattr(x, "shape", ())) for x in (logits, logits_of(logits))]
    fit = [shape == (*tokens.shape, vocab) for shape in shapes]
    if not fit[0]:
        axes = {tokens.size(0): "b", tokens.size(1): "n", vocab: "vocab"}
        named = ", ".join(axes.get(size, str(size)) for size in shapes[0])
        if hasattr(logits, "shape"):
            return f"a Tensor of shape ({named})"
        return f"no tensor but a {type(logits).__name__}{'; return the first of it alone' * fit[1]}"
    if not logits.isfinite().all():
        return not_finite((~logits.isfinite()).any(-1).any(0))
    one = torch.allclose(logits.sum(-1), torch.ones(tokens.shape).to(logits), atol=1e-3)
    return PROBABILITIES if one and (logits >= 0).all() else True


def not_finite(bad: Tensor) -> str:
    """Which positions are not finite, where it is the last one or the first ones."""
    count = int(bad.sum())
    if bad[-count:].all() and count == 1:
        return "those of the last position are not finite"
    if bad[:count].all() and count < len(bad):
        which = f"first position{'s' * (count > 1)}"
        return f"those of the {which} are not finite: {count} of {len(bad)}"
    return NOT_FINITE


def influence(model: Callable[[Tensor], Any], tokens: Tensor, vocab: int = VOCAB) -> Tensor:
    """How far token j of (1, n) moves the logits at i, in units of their spread: (j, i)."""
    n = tokens.size(1)
    before, other = logits_of(model(tokens.expand(n, n).clone())), tokens.repeat(n, 1)
    every = torch.arange(n)
    other[every, every] = (other[every, every] + 7) % vocab
    moved = (logits_of(model(other)) - before).abs().amax(-1)
    return moved / before.std()


def causal(moves: Tensor, one: Callable[[], Tensor]) -> bool | str:
    """True where no later token is read, else which are; ``one`` gives the moves in one layer."""
    if not (moves > 1e-4).tril(-1).any():
        return True
    moves = one()
    leaks = (moves > 1e-4).tril(-1)
    ahead = max([j - i for j, i in leaks.nonzero().tolist()], default=0)
    if ahead < 2:
        return "a position reads the next token" if ahead else "but in one layer it does not"
    if not leaks[:, 1:].any():
        return "only position 0 reads later tokens"
    if not (moves > 1e-6).triu(1)[:, :-1].any():
        return "positions read later tokens instead of earlier ones"
    band = torch.ones_like(leaks).triu(-ahead).tril(-1)
    if torch.equal(leaks, band) and ahead < len(leaks) / 2:
        return f"positions read some of the next tokens: {ahead} of them"
    every = leaks.sum() > 0.4 * leaks.numel()  # of a half; rounding hides some
    return f"positions read {'all later tokens' if every else 'some later tokens and not others'}"


def reads_all(moves: Tensor) -> bool | str:
    """True where the last position reads every token."""
    unread = (moves[:, -1] < 1e-6).nonzero().flatten().tolist()
    one = len(unread) == len(moves) - 1
    return not unread or (
        "it reads one token only; attention mixes all that came before"
        if one
        else f"it does not read {unread}; no token that came before is hidden"
    )


ROW = "What stands at j <= i is visible, torch.ones(n, n).tril()."
HEADS = ("Split with unflatten(-1, (num_heads, -1)).transpose(1, 2), and go back with "
         "transpose(1, 2) before flatten(2).")  # fmt: skip
ONLY_LAST = "Only the last position is answered; return logits for all, (b, n, vocab)."
MEANINGS = (
    ("(b, vocab)", ONLY_LAST),
    ("(b, 1, vocab)", ONLY_LAST),
    ("the last position are not", "The last position alone is not finite, as where the mask is "
     f"turned around and leaves it nothing to read. {ROW}"),
    ("first position are not", "The first position is not finite, as where a position does not "
     "read itself, which leaves the first nothing to read; the diagonal is visible."),
    ("finite: some", "Some logits are not finite: are all scores of a row hidden, or is something "
     "divided by 0?"),
    (f"{TWICE}: no", "The answer differs from one call to the next: something random is left in "
     "evaluation mode, where torch.nn.Dropout does nothing, or a call leaves something behind."),
    (f"{APART}: no", "What a sample gets depends on the others in its batch: does attention run "
     "over the batch instead of the tokens, or a norm over samples? Norm each vector by itself."),
    ("reads the next token", "The mask is one place off: a position reads the token that it is to "
     "predict."),
    ("only position 0", "Only the first position reads later tokens. A mask that hides a position "
     "from itself leaves it nothing: where all scores of a row are equally low, the softmax "
     "spreads over all. Let the diagonal be visible."),
    ("instead of earlier", "The mask is turned around: a position reads what comes after it "
     f"instead of what came before. {ROW}"),
    ("some of the next", f"The mask ends too late: tokens that come next are read. {ROW}"),
    ("read all later", "Every position reads all later tokens: there is no causal mask, or it does "
     "not act. It sets scores of later tokens to minus infinity before the softmax, and the "
     "softmax runs over the keys, dim=-1. If yours does, look for a norm or a softmax that runs "
     "over positions."),
    ("and not others", "Positions read some later tokens and not others, as happens where a "
     f"reshape mixes positions and heads. {HEADS}"),
    ("in one layer it does", "With two layers later tokens are read, with one they are not: does "
     "every layer get the mask?"),
)  # fmt: skip
