"""Exercise write: the decoder with a cache, judged in pieces of every size."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.exercises.capstone import _looks as looks
from attncourse.grading.exercises.capstone import _net as net
from attncourse.grading.exercises.capstone import _writing as writing
from attncourse.grading.explain.trainings import meaning_of_facts
from attncourse.grading.trained import gradients, up_to_wrong

LENGTH, WIDTH = 16, 12
PAIR, NEW = "it returns (logits, cache)", "the new tokens get logits, and no others"
CARRIED = "the cache is made of tensors and numbers, in tuples, lists or dicts"
BEHIND = "with one layer the third of three pieces reads what it reads in the whole"
ONE, TWO = (f"with {k} a text in pieces gets the logits of the whole" for k in ("one layer", "two"))
TURNS, AGAIN = "two texts can be written in turns", "earlier tokens are not run again"
SIZE = "the cache holds a key and a value of each token, and no more"
STEP = "for one more token, nothing of n x n numbers is made"
FIRST = net.IS_CLASS, net.IS_MODULE, PAIR, looks.SHAPE, looks.TWICE, looks.APART, looks.CAUSAL
LAST = CARRIED, NEW, BEHIND, ONE, TWO, TURNS, AGAIN, net.LAYERS, net.GRADIENT


@torch.no_grad()
def writes(answer: Any, seed: int, sizes: tuple, further: Callable) -> looks.Facts:
    """The facts FIRST and LAST, and between them those that ``further`` gives of the influence.

    It returns how many numbers the cache of a whole text holds.
    """
    yield from net.built(answer)
    width, heads, n = sizes
    tokens, g = net.random_tokens(seed, "tokens", 3, n), seeded(seed, "parameters")
    model, one = (net.drawn_into(answer(net.VOCAB, width, heads, k, n), g) for k in (2, 1))
    result = model(tokens.clone())
    pair = isinstance(result, tuple | list) and len(result) == 2
    yield PAIR, pair or f"a {type(result).__name__}"
    moves = yield from looks.looked(model, one, tokens)
    yield from further(moves)
    yield CARRIED, writing.carried(result[1])
    count = writing.written(one, tokens, [n - 3, 3])[0].size(1) - n + 3
    yield NEW, count == 3 or f"3 tokens get logits of {count}: answer each new one, and no others"
    yield BEHIND, writing.behind(one, tokens[:1])
    yield ONE, writing.one_layer(one, tokens)
    yield TWO, writing.in_pieces(model, tokens)
    yield TURNS, writing.in_turns(model, tokens)
    yield AGAIN, writing.run_once(model, tokens, g)
    yield net.LAYERS, writing.layers_add(answer)
    yield net.GRADIENT, gradients(model, lambda: model(tokens.clone())[0])
    return writing.numbers_in(writing.written(model, tokens[:1], [n - 1, 1])[1])


@up_to_wrong
def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What a decoder writes with random parameters."""
    reads, most = lambda x: [(looks.READS, looks.reads_all(x))], 4 * LENGTH * WIDTH
    found = yield from writes(answer, seed, (WIDTH, 2, LENGTH), reads)
    more = f"it holds something twice, or more than these: {found} numbers instead of {most}"
    yield SIZE, found <= most + 4 * LENGTH or more
    yield STEP, writing.one_step(answer, seed)


MEANINGS = (
    *looks.MEANINGS,
    ("finite: no tensor", "No tensor comes first; return (logits, cache), the logits first."),
    ("nothing of the first and nothing of the second", "The cached tokens are hidden, or not used: "
     "a new token reads only new ones."),
    ("reads nothing of the first", "Only the keys and values of the new tokens are handed on; the "
     "older ones belong into the cache, too."),
    ("reads nothing of the second", "The cache is not handed on with the new tokens in it; it "
     "stays as it was after the first piece."),
    ("nothing of the second and not all of the third", "Behind a cache the mask is aligned to the "
     "first key; new token i may read the past and new tokens up to itself."),
    ("not all of the", "Behind a cache less is read than in the whole text. Do new keys stand "
     "before the old ones, where the mask hides others? If the cache is cut to a window, the mask "
     "makes the same one, with the whole text at once as well."),
    ("later tokens of its own", "Behind a cache there is no mask, or one that is shifted: a piece "
     "reads later tokens of its own. New token i may read the past and new tokens up to itself."),
    ("one by one the order", "Behind a cache the positions start at 0 again, or they stand still: "
     "written one by one, the tokens have no order. A new token stands behind all that were "
     "written; where the cache is cut, hand on their number, too."),
    (f"{ONE}: no", "Behind a cache a new token reads every token that it should, but finds other "
     "numbers than in the whole text. Does the first new token stand right behind the cached ones, "
     "at place m after m of them? Do old keys stay with keys and old values with values? Is a key "
     "that is turned by its place turned once only, before it is cached?"),
    (f"{TWO}: not", "With one layer the pieces are right, with two they are not: does each layer "
     "find its own keys and values in the cache?"),
    (f"{TURNS}: ", "The model keeps something of a text itself, so two texts get mixed; use the "
     "cache that is handed over."),
)  # fmt: skip

EXERCISE = Exercise(
    name="write",
    answer="Writer",
    judge=Facts(facts, (*FIRST, looks.READS, *LAST, SIZE, STEP)),
    right=net.Net,
    explain=(meaning_of_facts(*MEANINGS),),
    asks_for="class",
    measures=("gradients", "memory", "parameters"),
)
