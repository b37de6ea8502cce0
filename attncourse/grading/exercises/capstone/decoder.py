"""Exercise decoder: the layers of the course put together, judged by what a decoder does."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.capstone._decoders import (
    HeadByHead,
    Listed,
    OfTorch,
    Rotary,
    Sinusoids,
    Tied,
    at,
    batch_norm,
    drawn_once,
    embedding,
    exchanged,
    giving,
    hidden_past,
    large_head,
    low_diagonal,
    masked_late,
    one_head,
    over_batch,
    over_queries,
    reading,
    scaled_by_length,
    triangle,
)
from attncourse.grading.exercises.capstone._net import (
    Decoder,
    changed,
    not_back,
    torn,
    torn_twice,
)
from attncourse.grading.exercises.capstone._properties import (
    GRADIENT,
    IS_CLASS,
    IS_MODULE,
    LAYERS,
    NO_MASK,
    NOT_FINITE,
    RESHAPED,
    VOCAB,
    built,
    causal,
    close,
    drawn_into,
    gradients,
    influence,
    no_class,
    random_tokens,
    reads_all,
    shape_of,
    size,
)
from attncourse.grading.inputs import seeded

SHAPE = "logits have shape (b, n, vocab) and are finite"
CAUSAL, READS = "no position reads a later token", "the last position reads every token"
ORDER = "with one layer, the order of earlier tokens matters"
PREFIX = "the beginning of a text gets the same logits as in the whole text"
LONG = "texts of 1 and of length tokens are read"
BATCH, TWICE = "samples of a batch are apart", "asked twice, it answers the same"
STORED = "another decoder with the same parameters gives the same logits"
HEADS = "num_heads matters"
START = "untrained, its loss is near log(vocab)"
TRAINING = "in training, too, samples are apart and no later token is read"
NAMES = (
    IS_CLASS, IS_MODULE, SHAPE, TWICE, CAUSAL, READS, ORDER, PREFIX, LONG, BATCH, STORED, LAYERS, HEADS, TRAINING, GRADIENT,
    START,
)  # fmt: skip
LENGTH = 16


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What decoders of a few sizes do with random parameters, and one with its own."""
    yield from built(answer)
    if no_class(answer):
        return
    tokens, g = random_tokens(seed, "tokens", 3, 11), seeded(seed, "parameters")
    model = drawn_into(answer(VOCAB, 12, 2, 2, LENGTH), g)
    for what, seen in looks(answer, model, tokens, g, seed):
        yield what, seen
        if what == SHAPE and seen is not True:
            return  # the rest is asked of logits
    yield GRADIENT, gradients(model, tokens)
    yield START, start(answer, seed)


@torch.no_grad()
def looks(answer, model, tokens, g, seed) -> Iterator[tuple[str, Any]]:
    """The facts for which no gradient is needed."""
    logits = model(tokens.clone())

    def one():
        return drawn_into(answer(VOCAB, 12, 2, 1, LENGTH), seeded(seed, "one layer"))

    shape = shape_of(logits, tokens)
    yield SHAPE, shape_of(one()(tokens.clone()), tokens) if shape == NOT_FINITE else shape
    yield TWICE, close(model(tokens.clone()), logits)
    moves = influence(model, tokens[:1])
    yield CAUSAL, causal(moves, lambda: influence(one(), tokens[:1]))
    yield READS, reads_all(moves)
    yield ORDER, in_order(drawn_into(answer(VOCAB, 12, 3, 1, LENGTH), g), tokens)
    yield PREFIX, begins_alike(model(tokens[:, :5].clone()), logits[:, :5])
    yield LONG, all_lengths(model, seed)
    yield BATCH, close(model(tokens[1:2].clone()), logits[1:2])
    again = with_numbers_of(model, answer(VOCAB, 12, 2, 2, LENGTH))
    yield STORED, again is not None and close(again(tokens.clone()), logits)
    yield LAYERS, same_for_each(answer)
    other = with_numbers_of(model, answer(VOCAB, 12, 3, 2, LENGTH))
    yield HEADS, other is None or not close(other(tokens.clone()), logits)
    yield TRAINING, apart_in_training(model, tokens)


def in_order(model, tokens) -> bool | str:
    """True where the last logits move when the first two tokens change places."""
    last = model(tokens.clone())[:, -1]
    if not close(model(tokens[:, [1, 0, *range(2, tokens.size(1))]])[:, -1], last):
        return True
    others = torch.cat([(tokens[:, :2] + 5) % VOCAB, tokens[:, 2:]], 1)
    return close(model(others)[:, -1], last) and "no, the last position does not read the first two"


def begins_alike(short, whole) -> bool | str:
    """True where what follows changes nothing; the first position has nothing to weigh."""
    if close(short, whole):
        return True
    first = close(short[:, :1], whole[:, :1])
    return (
        "the first position does, the others do not" if first else "no, the first position neither"
    )


def all_lengths(model, seed: int) -> bool:
    """Do the shortest and the longest text get logits?"""
    for n in (1, LENGTH):
        tokens = random_tokens(seed, f"length {n}", 2, n)
        if (found := shape_of(model(tokens.clone()), tokens)) is not True:
            return found
    return True


def same_for_each(answer) -> bool | str:
    """True where each layer adds as many parameters as every other."""
    one, two, three = (size(answer(VOCAB, 12, 2, k, LENGTH)) for k in (1, 2, 3))
    if three - two == two - one > 0:
        return True
    grows = one == two == three and size(answer(VOCAB, 12, 3, 2, LENGTH)) > two
    return grows and "no, layers add none, but heads do"


def apart_in_training(model, tokens) -> bool | str:
    """True where in training, too, nothing but earlier tokens is read. It leaves the model changed.

    The same seed drops the same numbers; who draws otherwise is not judged.
    """
    samples, later = tokens.clone(), tokens.clone()
    samples[1:] = (samples[1:] + 5) % VOCAB
    later[0, -1] = (later[0, -1] + 5) % VOCAB
    both = torch.cat([later[:1], samples[1:]])

    def first(given):
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(0)
            return model(given.clone())[0, :-1]

    model.train()
    before = first(tokens)
    found = []
    if not close(first(both), before) and close(first(tokens), before):
        ways = {"other samples": samples, "later tokens": later}
        found = [way for way, given in ways.items() if not close(first(given), before)]
    model.eval()
    return not found or f"no, {' and '.join(found)} are read"


def with_numbers_of(model, other):
    """The other model with the numbers of the first; None where their parameters have other shapes."""
    known = dict(model.named_parameters())
    theirs = dict(other.eval().named_parameters())
    if {k: p.shape for k, p in known.items()} != {k: p.shape for k, p in theirs.items()}:
        return None
    for name, p in theirs.items():
        p.data = known[name].data.clone()
    return other


@torch.no_grad()
def start(answer, seed: int) -> bool | str:
    """True where the loss of the model as it is built is that of a guess."""
    model = answer(VOCAB, 48, 4, 2, 32).eval()
    tokens = random_tokens(seed, "start", 8, 32)
    loss = F.cross_entropy(model(tokens[:, :-1].clone()).flatten(0, 1), tokens[:, 1:].flatten())
    above = loss.item() - math.log(VOCAB)
    if abs(above) < 0.8:
        return True
    of_words = sum(p.dim() > 1 and VOCAB in p.shape for p in model.parameters())
    shared = ", and embedding and head are one matrix" if of_words == 1 else ""
    return f"it is far {'above' if above > 0 else 'below'}{shared}"


ACCEPTED = Accepted(learned_positions=Decoder)
ACCEPTED |= {x.__name__: x for x in (Sinusoids, Rotary, OfTorch, HeadByHead)}

MASK_TURNED = (
    "The mask is turned around: a position reads what comes after it instead of what came before. What stands at j <= i "
    "is visible, torch.ones(n, n).tril()."
)

MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("This is an instance; pass the class.", Decoder(VOCAB, 12, 2, 1, LENGTH)),
    ("It builds no torch.nn.Module; let the class inherit from it.", dict),
    *((NO_MASK, answer) for answer in (
        reading(lambda n: triangle(n, n)), changed(Decoder, mix=masked_late),
        changed(Decoder, mix=over_queries), giving(lambda x: F.layer_norm(x, x.shape[1:])))),
    *((RESHAPED, answer) for answer in (changed(Decoder, attention=torn), changed(Decoder, attention=not_back))),
    ("The last position does not read the beginning, and what a position gets depends on how long the text is, as happens where "
     "view(b, num_heads, n, -1) gives each head a stretch of the text. Split with unflatten(-1, (num_heads, -1)).transpose(1, 2), "
     "and go back with transpose(1, 2) before flatten(2).", changed(Decoder, attention=torn_twice)),
    *((MASK_TURNED, answer) for answer in (
        reading(lambda n: triangle(n).mT), reading(lambda n: ~triangle(n)), changed(Decoder, mix=hidden_past))),
    ("Only the first position reads later tokens. A mask that hides a position from itself leaves it nothing: where all "
     "scores of a row are equally low, the softmax spreads over all. Let the diagonal be visible.",
     changed(Decoder, mix=low_diagonal)),
    ("The mask is one place off: a position reads the token that it is to predict.", reading(lambda n: triangle(n, 1))),
    ("A position does not read itself, so the first has nothing to read and becomes NaN; the diagonal is visible.",
     reading(lambda n: triangle(n, -1))),
    ("A position reads only itself; attention should mix what came before.", reading(lambda n: torch.eye(n).bool())),
    ("Nothing says where a token stands: the order of earlier tokens is lost. Add positions.",
     embedding(lambda self, t: self.token(t) + 0 * self.position(at(t)))),
    ("What a position gets depends on how many tokens follow, and the first one does so, too. Are positions counted from "
     "the end? Then they move as the text grows; count from the start.",
     embedding(lambda self, t: self.token(t) + self.position(at(t).flip(0)))),
    ("The first position gets the same however long the text is, the others do not. Are scores, or positions, divided by "
     "the number of tokens? Scores are divided by sqrt(head_dim), and places count from 0, whatever follows.",
     changed(Decoder, mix=scaled_by_length)),
    ("The positions do not reach as far as length says.",
     embedding(lambda self, t: self.token(t) + self.position.weight[:12][at(t)])),
    ("No gradient comes back at all: it is computed under torch.no_grad() or behind detach(), so nothing could be learned.",
     changed(Decoder, forward=torch.no_grad()(Decoder.forward))),
    ("No gradient reaches some parameters: something is detached, or made and never used.",
     embedding(lambda self, t: self.token(t).detach() + self.position(at(t)))),
    ("num_heads changes nothing: split the vectors into heads before the scores.", changed(Decoder, mix=one_head)),
    ("Attention runs over the samples of the batch instead of the tokens.", changed(Decoder, mix=over_batch)),
    ("All layers are one block, used again and again; build a block for each.",
     changed(Decoder, make_blocks=lambda self, e, k: nn.ModuleList([self.block(e)] * k))),
    ("More layers add no parameters, but more heads do: do num_heads and layers stand in another order in some call?",
     changed(Decoder, __init__=exchanged)),
    ("Random numbers that are no parameters decide, as positions do that are drawn into a buffer. Make them nn.Parameter, or "
     "compute them.", changed(Decoder, make_positions=drawn_once)),
    ("A norm reads other samples and positions while it is trained, as nn.BatchNorm1d does. Norm each vector by itself, as "
     "nn.LayerNorm and nn.RMSNorm do.", changed(Decoder, __init__=batch_norm)),
    ("The blocks stand in a plain list, where parameters() does not find them; use torch.nn.ModuleList.", Listed),
    ("The head shares the matrix of the embedding, whose numbers are too large for that: the untrained loss is far "
     "above log(vocab). Start the matrix smaller.", Tied),
    ("The untrained loss is far above log(vocab): the logits start too large. nn.Linear starts with small numbers; where "
     "you draw a matrix with torch.randn, multiply it by embed_dim ** -0.5.",
     changed(Decoder, __init__=large_head)),
    ("The samples of a batch are normed together; norm each vector by itself.",
     giving(lambda x: x - x.mean(0, keepdim=True))),
    ("Something random is left in evaluation mode; use torch.nn.Dropout, which knows the mode.",
     giving(lambda x: F.dropout(x, 0.3))),
    ("These are probabilities; return the logits, and let the loss take the softmax.", giving(lambda x: x.softmax(-1))),
    *(("Only the last position is answered; return logits for all, (b, n, vocab).", giving(last)) for last in (
        lambda x: x[:, -1], lambda x: x[:, -1:])),
    ("The axes are exchanged; the vocabulary comes last.", giving(lambda x: x.mT)),
    ("More than the logits is returned; here it is the logits alone.", giving(lambda x: (x, None))),
))  # fmt: skip

EXERCISE = Exercise(
    name="decoder",
    answer="Decoder",
    judge=Facts(facts, NAMES),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
