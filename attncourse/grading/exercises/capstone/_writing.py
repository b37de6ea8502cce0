"""What a decoder stores: parameters that learn, and a cache, behind which it writes on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.allocations import made_by
from attncourse.grading.answer import RemoteLayer
from attncourse.grading.exercises.capstone._looks import influence
from attncourse.grading.exercises.capstone._net import VOCAB, close, drawn_into, random_tokens

RUN_AGAIN = "the prompt is run again for each token; keep what attention reads of it in every layer"
EXCHANGED = "no, but more heads do: are num_heads and layers exchanged in some call?"
ONE_BLOCK = (
    "no; one block is used again and again, or they stand in a plain list, where parameters() does "
    "not find them: build a block for each, in a torch.nn.ModuleList"
)
WAYS = {  # to cut n tokens into pieces
    "one by one": lambda n: [1] * n,
    "a prompt, then one by one": lambda n: [n // 2, *[1] * (n - n // 2)],
    "several at once behind a cache": lambda n: [n // 3, n // 4, n - n // 3 - n // 4],
    "one, then the rest": lambda n: [1, n - 1],
}


def layers_add(answer: Callable[..., nn.Module], alike: bool = False) -> bool | str:
    """True where each layer brings parameters, and (if ``alike``) as many as every other."""

    def size(heads: int, layers: int) -> int:
        return sum(p.numel() for p in answer(VOCAB, 24, heads, layers, 16).parameters())

    one, two, three = (size(2, layers) for layers in (1, 2, 3))
    if one == two == three:
        return EXCHANGED if size(4, 2) > two else ONE_BLOCK
    if alike and three - two != two - one:
        return f"one adds {two - one}, another {three - two}"
    return one < two < three


def handed_on(cache: Any) -> Any:
    """A copy, as it arrives where a class is graded: names of tuples are lost, keys are texts.

    Raises:
        TypeError: it holds something else than tensors and numbers.
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
    raise TypeError(f"it holds a {type(cache).__name__}; hand on plain tensors")


def numbers_in(cache: Any) -> int:
    """How many numbers the tensors of a cache have."""
    if isinstance(cache, dict):
        cache = list(cache.values())
    if isinstance(cache, tuple | list):
        return sum(map(numbers_in, cache))
    return cache.numel() if isinstance(cache, Tensor) else 0


def carried(cache: Any) -> bool | str:
    """True for what can be handed on."""
    try:
        handed_on(cache)
    except TypeError as error:
        return str(error)
    return numbers_in(cache) > 0 or "it holds no tensor; hand on what attention reads"


def written(model: nn.Module, tokens: Tensor, sizes: list[int]) -> tuple[Tensor, Any]:
    """The logits of a text that is given in pieces, and the last cache."""
    logits, cache = [], None
    for piece in tokens.split(sizes, 1):
        now, cache = model(piece.clone(), *([cache] if logits else []))
        logits.append(now)
        cache = handed_on(cache)
    return torch.cat(logits, 1), cache


def in_pieces(model: nn.Module, tokens: Tensor) -> bool | str:
    """True where every way to cut the text gives the logits of the whole."""
    whole, n = model(tokens.clone())[0], tokens.size(1)
    ways = {way: written(model, tokens, sizes(n))[0] for way, sizes in WAYS.items()}
    wrong = [way for way, found in ways.items() if not close(found, whole)]
    return not wrong or f"not {', nor '.join(wrong)}"


def one_layer(model: nn.Module, tokens: Tensor) -> bool | str:
    """True where pieces are right; else whether the order is lost where all come one by one."""
    if in_pieces(model, tokens) is True:
        return True
    swapped, each = tokens[:, [*range(tokens.size(1) - 3), -2, -3, -1]], [1] * tokens.size(1)
    last, other = (written(model, x, each)[0][:, -1] for x in (tokens, swapped))
    whole, changed = (model(x.clone())[0][:, -1] for x in (tokens, swapped))
    lost = close(last, other) and not close(whole, changed)
    return lost and "no, and one by one the order of earlier tokens is lost"


def behind(model: nn.Module, tokens: Tensor) -> bool | str:
    """True where the last of three pieces reads what it reads in the whole, and nothing later."""
    n = tokens.size(1)
    one, two = 5 * n // 12, 9 * n // 12
    whole = influence(model, tokens)[:, two:]
    moves = influence(lambda x: written(model, x, [one, two - one, n - two])[0], tokens)[:, two:]
    unread = ((whole > 1e-6) & (moves < 1e-6)).any(1)
    pieces = ("first", unread[:one]), ("second", unread[one:two]), ("third", unread[two:])
    less = [f"{'nothing' if x.all() else 'not all'} of the {name}" for name, x in pieces if x.any()]
    if less:
        return f"it reads {' and '.join(less)}"
    return not (moves[two:] > 1e-4).tril(-1).any() or "it reads later tokens of its own"


def in_turns(model: nn.Module, tokens: Tensor) -> bool:
    """Are two texts right whose pieces come in turns?"""
    half = tokens.size(1) // 2
    caches = [handed_on(model(tokens[k : k + 1, :half].clone())[1]) for k in (0, 1)]
    rest = [model(tokens[k : k + 1, half:].clone(), caches[k])[0] for k in (0, 1)]
    return close(torch.cat(rest), model(tokens[:2].clone())[0][:, half:])


def run_once(model: nn.Module, tokens: Tensor, generator: torch.Generator) -> bool | str:
    """True where new parameters between a prompt and a token leave traces of the old ones.

    Who runs the prompt again, for each token, answers as if the new ones had been there before.
    """
    cache = handed_on(model(tokens[:, :-1].clone())[1])
    drawn_into(model, generator)
    step, whole = model(tokens[:, -1:].clone(), cache)[0], model(tokens.clone())[0]
    again = close(step, whole[:, -1:])
    return not again or RUN_AGAIN


@torch.no_grad()
def one_step(answer: Callable[..., nn.Module], seed: int, n: int = 512) -> bool | str:
    """True where a token behind n others needs no memory of the order of n x n."""
    model = answer(VOCAB, 8, 2, 1, n + 1).eval()
    tokens = random_tokens(seed, "long", 1, n + 1)
    cache = handed_on(model(tokens[:, :-1].clone())[1])
    measure = model.allocations if isinstance(model, RemoteLayer) else partial(made_by, model)
    made = measure(tokens[:, -1:].clone(), cache)
    return made.new < n * n // 4 or f"behind {n} tokens {made.how}; make a row, not a table"
