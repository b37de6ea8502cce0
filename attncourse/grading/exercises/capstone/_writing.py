"""What can be seen of a decoder that writes: pieces against the whole, and what is handed on between them."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.allocations import made_by
from attncourse.grading.answer import RemoteLayer
from attncourse.grading.compare import Described
from attncourse.grading.exercises.capstone._properties import (
    GRADIENT,
    LAYERS,
    VOCAB,
    adds_parameters,
    causal,
    close,
    drawn_into,
    gradients,
    influence,
    logits_of,
    random_tokens,
    shape_of,
)

PAIR = "it returns (logits, cache)"
SHAPE = "logits have shape (b, n, vocab) and are finite"
TWICE, CAUSAL = "asked twice, it answers the same", "no position reads a later token"
CARRIED = "the cache is made of tensors and numbers, in tuples, lists or dicts"
PIECES = "in pieces of any size a text gets the logits of the whole"
ONE_LAYER = "with one layer the pieces are right as well"
BEHIND = "in three pieces one layer reads what it reads in the whole"
TURNS = "two texts can be written in turns"
AGAIN = "earlier tokens are not run again"
STEP = "for one more token, nothing of n x n numbers is made"
WRITES = (
    PAIR,
    SHAPE,
    TWICE,
    CAUSAL,
    CARRIED,
    PIECES,
    ONE_LAYER,
    BEHIND,
    TURNS,
    AGAIN,
    LAYERS,
    GRADIENT,
)


class Carried(TypeError):
    """Something in the cache that a cache is not made of."""


def handed_on(cache: Any) -> Any:
    """A copy, as it arrives where a class is graded: names of tuples are lost, keys of dicts are texts.

    Raises:
        Carried: it holds something else than tensors and numbers.
    """
    if isinstance(cache, Tensor):
        return cache.detach().clone()
    if isinstance(cache, tuple | list):
        parts = [handed_on(x) for x in cache]
        return parts if isinstance(cache, list) else tuple(parts)
    if isinstance(cache, dict):
        return {str(k): handed_on(x) for k, x in cache.items()}
    if cache is None or isinstance(cache, bool | int | float | str):
        return cache
    raise Carried(f"a {type(cache).__name__}")


def numbers_in(cache: Any) -> int:
    """How many numbers the tensors of a cache have."""
    if isinstance(cache, dict):
        cache = list(cache.values())
    if isinstance(cache, tuple | list):
        return sum(map(numbers_in, cache))
    return cache.numel() if isinstance(cache, Tensor) else 0


def written(model: nn.Module, tokens: Tensor, sizes: list[int]) -> tuple[Tensor, Any]:
    """The logits of a text that is given in pieces, and the last cache."""
    logits, cache = [], None
    for piece in tokens.split(sizes, 1):
        now, cache = model(piece.clone(), *([cache] if logits else []))
        logits.append(now)
        cache = handed_on(cache)
    return torch.cat(logits, 1), cache


@torch.no_grad()
def writes(make, tokens: Tensor, generator, reads) -> Iterator[tuple[str, Any]]:
    """The facts `WRITES`, and what ``reads(moves)`` says of who reads whom.

    Args:
        make: ``make(layers)`` builds a decoder.
        tokens: (3, n), n at least 12.
        generator: of the parameters.
        reads: gives further facts of how far each token moves the logits.
    """
    model = drawn_into(make(2), generator)
    result = model(tokens.clone())
    pair = isinstance(result, tuple | list) and len(result) == 2
    yield PAIR, pair or f"a {type(result).__name__}"
    logits, cache = result
    yield SHAPE, (shape := shape_of(logits, tokens))
    if shape is not True:
        return  # the rest is asked of logits
    yield TWICE, close(model(tokens.clone())[0], logits)
    moves, one = moved_by(model, tokens[:1, :12]), drawn_into(make(1), generator)
    yield CAUSAL, causal(moves, lambda: moved_by(one, tokens[:1, :12]))
    yield from reads(moves)
    yield CARRIED, carried(cache)
    yield PIECES, in_pieces(model, tokens, logits)
    yield ONE_LAYER, one_layer(one, tokens)
    yield BEHIND, behind(one, tokens[:1])
    yield TURNS, in_turns(model, tokens, logits)
    yield AGAIN, run_once(model, tokens, generator)
    yield LAYERS, adds_parameters(make)
    yield GRADIENT, gradients(model, tokens)


def moved_by(model: nn.Module, tokens: Tensor) -> Tensor:
    """The `influence` of each token on what a writer says of the whole text."""
    return influence(lambda x: logits_of(model(x)), tokens)


def carried(cache: Any) -> bool | str:
    """True for what can be handed on."""
    try:
        handed_on(cache)
    except Carried as error:
        return f"it holds {error}"
    return numbers_in(cache) > 0 or "it holds no tensor"


def in_pieces(model, tokens, logits) -> bool | str:
    """True where every way to cut the text gives the logits of the whole."""
    n = tokens.size(1)
    ways = {
        "one by one": [1] * n,
        "a prompt, then one by one": [n // 2, *[1] * (n - n // 2)],
        "several at once behind a cache": [n // 3, n // 4, n - n // 3 - n // 4],
        "one, then the rest": [1, n - 1],
    }
    wrong = []
    for way, sizes in ways.items():
        found = written(model, tokens, sizes)[0]
        if found.size(1) != n:
            return "a piece does not get as many logits as it has tokens"
        wrong += [way] * (not close(found, logits))
    return not wrong or f"not {', nor '.join(wrong)}"


def one_layer(model, tokens) -> bool | str:
    """True where pieces are right; else whether it matters who came first, if all come one by one."""
    if in_pieces(model, tokens, model(tokens.clone())[0]) is True:
        return True
    n = tokens.size(1)
    swapped = tokens[:, [0, 1, 3, 2, *range(4, n)]]
    last, other = (written(model, x, [1] * n)[0][:, -1] for x in (tokens, swapped))
    return close(last, other) and "no, and one by one the order of earlier tokens is lost"


def behind(model, tokens) -> bool | str:
    """True where the last of three pieces reads what it reads in the whole, and nothing later."""
    n = tokens.size(1)
    one, two = 5 * n // 12, 9 * n // 12
    whole = moved_by(model, tokens)[:, two:]
    moves = influence(lambda x: written(model, x, [one, two - one, n - two])[0], tokens)[:, two:]
    unread = ((whole > 1e-6) & (moves < 1e-6)).any(1)
    pieces = ("first", unread[:one]), ("second", unread[one:two]), ("third", unread[two:])
    lost = [f"{'nothing' if x.all() else 'not all'} of the {name}" for name, x in pieces if x.any()]
    if lost:
        return f"the third piece reads {' and '.join(lost)}"
    return causal(moves[two:])


def in_turns(model, tokens, logits) -> bool:
    """Are two texts right whose pieces come in turns?"""
    half = tokens.size(1) // 2
    caches = [handed_on(model(tokens[k : k + 1, :half].clone())[1]) for k in (0, 1)]
    rest = [model(tokens[k : k + 1, half:].clone(), caches[k])[0] for k in (0, 1)]
    return close(torch.cat(rest), logits[:2, half:])


def run_once(model, tokens, generator) -> bool | str:
    """True where new parameters between a prompt and a token leave traces of the old ones.

    Who runs the prompt again, for each token, answers as if the new ones had been there from the start.
    """
    cache = handed_on(model(tokens[:, :-1].clone())[1])
    drawn_into(model, generator)
    step, whole = model(tokens[:, -1:].clone(), cache)[0], model(tokens.clone())[0]
    again = close(step, whole[:, -1:])
    return "with other parameters after the prompt, the old ones are forgotten" if again else True


@torch.no_grad()
def one_step(answer: Any, seed: int, n: int = 512) -> bool | Described:
    """True where a token behind n others needs no memory of the order of n x n."""
    model = answer(VOCAB, 8, 2, 1, n + 1).eval()
    tokens = random_tokens(seed, "long", 1, n + 1)
    cache = handed_on(model(tokens[:, :-1].clone())[1])
    measure = model.allocations if isinstance(model, RemoteLayer) else lambda *x: made_by(model, *x)
    made = measure(tokens[:, -1:].clone(), cache)
    return made.new < n * n // 4 or Described(f"too much: behind {n} tokens {made.how}")
