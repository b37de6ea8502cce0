"""Exercise write: the decoder with a cache, judged in pieces of every size."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.exercises.capstone import _looks as looks
from attncourse.grading.exercises.capstone import _net as net
from attncourse.grading.exercises.capstone import _writing as writing
from attncourse.grading.trained import gradients, up_to_wrong

LENGTH, WIDTH = 16, 12
PAIR, NEW = "it returns (logits, cache)", "the new tokens get logits, and no others"
CARRIED = "the cache is made of tensors and numbers, in tuples, lists or dicts"
ONE, TWO = (
    f"{k} a text in pieces gets the logits of the whole" for k in ("with one layer", "with two")
)
TURNS, AGAIN = "two texts can be written in turns", "earlier tokens are not run again"
LAYERS, GRADIENT = "each layer brings its own parameters", "every parameter gets a gradient"
SIZE = "the cache holds a key and a value of each token, and no more"
STEP = "for one more token, nothing of n x n numbers is made"
FIRST = net.IS_CLASS, net.IS_MODULE, PAIR, looks.SHAPE, looks.TWICE, looks.APART, looks.CAUSAL
LAST = CARRIED, NEW, ONE, TWO, TURNS, AGAIN, LAYERS, GRADIENT
NAMES = *FIRST, looks.READS, *LAST, SIZE, STEP


@torch.no_grad()
def writes(answer: Any, seed: int, sizes: tuple, further: Callable, size: tuple) -> looks.Facts:
    """The facts FIRST and LAST, and between them the one that ``further`` gives of the influence.

    ``size`` is the fact that the cache is small, the most numbers that that of a whole text may
    hold, and what is to be said of more.
    """
    yield from net.built(answer)
    (width, heads, n), (fact, most, instead) = sizes, size
    tokens, g = net.random_tokens(seed, "tokens", 3, n), seeded(seed, "parameters")
    model, one = (net.drawn_into(answer(net.VOCAB, width, heads, k, n), g) for k in (2, 1))
    result = writing.said(model, tokens)
    yield PAIR, True
    moves = yield from looks.looked(model, one, tokens)
    yield further(moves)
    held = writing.numbers_in(writing.handed_on(result[1]))
    yield CARRIED, held > 0 or "it holds no tensor; hand on what attention reads"
    cache = writing.handed_on(writing.said(one, tokens[:, :-3])[1])
    shape = looks.shape_of(writing.said(one, tokens[:, -3:], cache)[0], tokens[:, -3:])
    yield NEW, shape is True or f"of 3 tokens behind a cache, {shape}"
    yield ONE, writing.in_pieces(one, tokens, 1)
    yield TWO, writing.in_pieces(model, tokens, 2)
    yield TURNS, writing.in_turns(model, tokens)
    yield AGAIN, writing.run_once(model, tokens, g)
    yield LAYERS, writing.layers_add(answer)
    yield GRADIENT, gradients(model, lambda: model(tokens.clone())[0])
    found = writing.numbers_in(writing.written(model, tokens[:1], [n - 1, 1])[1])
    yield fact, found <= most or f"it holds {found} numbers, at most {most} may be: {instead}"
    yield STEP, writing.one_step(answer, seed)


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What a decoder writes with random parameters."""
    reads = lambda moves: (looks.READS, looks.reads_all(moves))  # noqa: E731
    most = 4 * LENGTH * (WIDTH + 1)  # with a place for each
    size = SIZE, most, "something is there twice, or more than keys and values"
    return writes(answer, seed, (WIDTH, 2, LENGTH), reads, size)


EXERCISE = Exercise(
    name="write",
    answer="Writer",
    judge=Facts(lambda *asked: up_to_wrong(NAMES, facts(*asked)), NAMES),
    right=net.Net,
    asks_for="class",
)
