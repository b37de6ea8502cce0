"""What a decoder stores: parameters that learn, and a cache, behind which it writes on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.grading.allocations import made_by
from attncourse.grading.answer import RemoteLayer
from attncourse.grading.exercises.capstone._looks import influence, listed, shape_of
from attncourse.grading.exercises.capstone._net import VOCAB, close, drawn_into, random_tokens
from attncourse.grading.trained import Unlike, kind_of

SHARED = "no; is it one block, is the list no nn.ModuleList, or are num_heads and layers exchanged?"
PLACES = (
    "Is each at place m behind m others, and does it read itself? Is what is cached turned or "
    "scaled only once? Are all sums carried over?"
)
OWN = "With one layer all is right: does each layer find its own keys and values in the cache?"
MIXED = "no; the model keeps something of a text itself; use the cache that is handed over"
RUN_AGAIN = "the prompt is run again for each token; keep what attention reads of it in every layer"
WAYS = {  # to cut n tokens into pieces
    "one by one": lambda n: [1] * n,
    "a prompt, then one by one": lambda n: [n // 2, *[1] * (n - n // 2)],
    "several at once behind a cache": lambda n: [n // 3, n // 4, n - n // 3 - n // 4],
    "one, then the rest": lambda n: [1, n - 1],
}


def layers_add(answer: Callable[..., nn.Module], alike: bool = False) -> bool | str:
    """True where each layer brings parameters, and (if ``alike``) as many as every other."""
    models = [answer(VOCAB, 24, 2, layers, 16) for layers in (1, 2, 3)]
    one, two, three = (sum(p.numel() for p in model.parameters()) for model in models)
    if alike and three - two != two - one:
        return f"one adds {two - one}, another {three - two}"
    return one < two < three or SHARED


def handed_on(cache: Any) -> Any:
    """A copy, as it arrives where a class is graded: names of tuples are lost, keys are texts.

    Raises:
        Unlike: it holds something else than tensors and numbers.
    """
    if isinstance(cache, Tensor):
        return cache.detach().clone()
    if isinstance(cache, tuple | list):
        return (list if isinstance(cache, list) else tuple)(map(handed_on, cache))
    if isinstance(cache, dict):
        return {str(k): handed_on(x) for k, x in cache.items()}
    if cache is None or isinstance(cache, bool | int | float | str):
        return cache
    raise Unlike(f"the cache holds a {type(cache).__name__}; hand on plain tensors and numbers")


def numbers_in(cache: Any) -> int:
    """How many numbers the tensors of a cache have."""
    if isinstance(cache, Tensor):
        return cache.numel()
    parts = cache.values() if isinstance(cache, dict) else cache
    return sum(map(numbers_in, parts)) if isinstance(cache, dict | tuple | list) else 0


def said(model: nn.Module, tokens: Tensor, *cache: Any) -> tuple[Any, Any]:
    """The logits and the cache that a model returns for a piece.

    Raises:
        Unlike: it returns something else.
    """
    result = model(tokens.clone(), *cache)
    if isinstance(result, tuple | list) and len(result) == 2:
        return tuple(result)
    raise Unlike(f"a {'piece behind a cache' if cache else 'text'} returns {kind_of(result)}")


def written(model: nn.Module, tokens: Tensor, sizes: list[int]) -> tuple[Tensor, Any]:
    """The logits of a text that is given in pieces, and the last cache."""
    logits, cache = [], None
    for piece in tokens.split(sizes, 1):
        now, cache = said(model, piece, *([cache] if logits else []))
        if (shape := shape_of(now, piece)) is not True:
            raise Unlike(f"of a piece of {piece.size(1)}, {shape}")
        logits.append(now)
        cache = handed_on(cache)
    return torch.cat(logits, 1), cache


def in_pieces(model: nn.Module, tokens: Tensor, layers: int) -> bool | str:
    """True where every way to cut the text gives what the whole gives; else what is other.

    Who reads whom is asked of every model of one layer, of others where their logits are wrong.
    """
    n, whole, text = tokens.size(1), influence(model, tokens[:1]), said(model, tokens)[0]
    for way, cut in WAYS.items():
        found = written(model, tokens, cut(n))[0]
        if not close(written(model, tokens[-1:], cut(n))[0], found[-1:]):
            return f"{way}, a text has other logits alone than beside others: has each its cache?"
        right = close(found, text)
        if right and layers > 1:
            continue
        moves = influence(lambda x, cut=cut: written(model, x, cut(n))[0], tokens[:1])
        other = (whole > 1e-5) & (moves < 1e-6) | (whole < 1e-6) & (moves > 1e-4)
        if other.any():
            i = int(other.any(0).nonzero()[0])
            here, there = (listed(x[:, i] > 1e-6) for x in (moves, whole))
            return f"{way}, token {i} depends on tokens {here}; in the whole text on tokens {there}"
        if not right:
            advice = PLACES if layers == 1 else OWN
            if (found - text).abs().max() < 0.01 * text.std():
                advice = "They differ by less than a hundredth: is what is kept rounded?"
            same = [close(found[:, k], text[:, k]) for k in range(n)]
            wrong = listed(~torch.tensor(same))
            return f"{way}, tokens {wrong} depend on the right ones, but get other logits. {advice}"
    return True


def in_turns(model: nn.Module, tokens: Tensor) -> bool | str:
    """True where two texts are right whose pieces come in turns."""
    half = tokens.size(1) // 2
    caches = [handed_on(said(model, tokens[k : k + 1, :half])[1]) for k in (0, 1)]
    rest = [said(model, tokens[k : k + 1, half:], caches[k])[0] for k in (0, 1)]
    whole = said(model, tokens[:2])[0][:, half:]
    return all(close(x, whole[k : k + 1]) for k, x in enumerate(rest)) or MIXED


def run_once(model: nn.Module, tokens: Tensor, generator: torch.Generator) -> bool | str:
    """True where new parameters between a prompt and a token leave traces of the old ones.

    Who runs the prompt again, for each token, answers as if the new ones had been there before.
    """
    cache = handed_on(said(model, tokens[:, :-1])[1])
    drawn_into(model, generator)
    step, whole = said(model, tokens[:, -1:], cache)[0], said(model, tokens)[0]
    return not close(step, whole[:, -1:]) or RUN_AGAIN


@torch.no_grad()
def one_step(answer: Callable[..., nn.Module], seed: int, n: int = 512) -> bool | str:
    """True where a token behind n others needs no memory of the order of n x n."""
    model = answer(VOCAB, 8, 2, 1, n + 1).eval()
    tokens = random_tokens(seed, "long", 1, n + 1)
    cache = handed_on(said(model, tokens[:, :-1])[1])
    measure = model.allocations if isinstance(model, RemoteLayer) else partial(made_by, model)
    made = measure(tokens[:, -1:].clone(), cache)
    return made.new < n * n // 4 or f"behind {n} tokens {made.how}; make a row, not a table"
