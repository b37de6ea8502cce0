"""Exercise decoder: the layers of the course put together, judged by what a decoder does."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.exercises.capstone import _looks as looks
from attncourse.grading.exercises.capstone import _net as net
from attncourse.grading.exercises.capstone._net import VOCAB, close, drawn_into, random_tokens
from attncourse.grading.exercises.capstone._writing import layers_add
from attncourse.grading.exercises.capstone.write import GRADIENT, LAYERS
from attncourse.grading.trained import gradients, up_to_wrong

LENGTH = 16
ORDER = "with one layer, the order of earlier tokens matters"
PREFIX = "the beginning of a text gets the same logits as in the whole text"
READ = {1: "a text of 1 token is read", LENGTH: "a text of length tokens is read"}
STORED = "another decoder with the same parameters gives the same logits"
HEADS, START = "num_heads matters", "untrained, its loss is near log(vocab)"
TRAINING = "in training, too, samples are apart and no later token is read"
NAMES = (
    net.IS_CLASS, net.IS_MODULE, looks.SHAPE, looks.TWICE, looks.APART, looks.CAUSAL, looks.READS,
    ORDER, PREFIX, *READ.values(), STORED, LAYERS, HEADS, TRAINING, GRADIENT, START,
)  # fmt: skip
GROWS = "no; is something divided by the number of tokens, or are places counted from the end?"
UNSTORED = "no; random numbers decide that are no parameters: in a buffer, or blocks in a list"
NORM = "no; does a norm run over samples or tokens, as nn.BatchNorm1d does?"


@torch.no_grad()
def facts(answer, seed: int) -> Iterator:
    """What decoders of a few sizes do with random parameters, and one with its own."""
    yield from net.built(answer)
    tokens = random_tokens(seed, "tokens", 3, 11)

    def make(heads: int, layers: int):  # the same numbers each time
        return drawn_into(answer(VOCAB, 12, heads, layers, LENGTH), seeded(seed, "parameters"))

    model, one = make(2, 2), make(2, 1)
    moves = yield from looks.looked(model, one, tokens, of=lambda x: x)
    yield looks.READS, looks.reads_all(moves)
    swapped = tokens[:, [1, 0, *range(2, tokens.size(1))]]
    moved = (one(swapped) - one(tokens.clone()))[:, -1].abs().max() > 1e-5  # far ones may do little
    yield ORDER, bool(moved) or "no; have they positions, and does the last position read them all?"
    logits = model(tokens.clone())
    start = model(tokens[:, :5].clone())
    shape = looks.shape_of(start, tokens[:, :5])
    yield PREFIX, close(start, logits[:, :5]) or (GROWS if shape is True else shape)
    for n, fact in READ.items():
        text = random_tokens(seed, fact, 2, n)
        yield fact, looks.shape_of(model(text.clone()), text)
    yield STORED, close(make(2, 2)(tokens.clone()), logits) or UNSTORED
    yield LAYERS, layers_add(answer, alike=True)
    unsplit = "no; split the vectors into heads before the scores"
    yield HEADS, not close(make(3, 2)(tokens.clone()), logits) or unsplit
    yield TRAINING, in_training(model, tokens) or NORM
    yield GRADIENT, gradients(model, lambda: model.eval()(tokens.clone()))
    yield START, started(answer, seed)


def in_training(model, tokens) -> bool:
    """Is nothing but earlier tokens read in training? The same seed drops the same numbers."""
    other = (tokens + 5) % VOCAB
    texts = torch.cat([tokens[:1], other[1:]]), torch.cat([tokens[:, :-1], other[:, -1:]], 1)

    def first(given):
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(0)
            return model.train()(given.clone())[0, :-1]

    before, again = first(tokens), first(tokens)
    return all(close(first(x), before) for x in texts) or not close(again, before)


def started(answer, seed: int) -> bool | str:
    """True where the loss of the model as it is built is that of a guess."""
    model, tokens = answer(VOCAB, 48, 4, 2, 32).eval(), random_tokens(seed, "start", 8, 32)
    loss = F.cross_entropy(model(tokens[:, :-1].clone()).flatten(0, 1), tokens[:, 1:].flatten())
    guess = math.log(VOCAB)
    smaller = "nn.Linear starts small enough; start other matrices smaller, also a shared one"
    return abs(loss.item() - guess) < 0.8 or f"it is {loss:.1f} and not {guess:.1f}: {smaller}"


EXERCISE = Exercise(
    name="decoder",
    answer="Decoder",
    judge=Facts(lambda *asked: up_to_wrong(NAMES, facts(*asked)), NAMES),
    right=net.Decoder,
    asks_for="class",
)
