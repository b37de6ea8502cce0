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
from attncourse.grading.explain.trainings import meaning_of_facts
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
    ORDER, PREFIX, *READ.values(), STORED, net.LAYERS, HEADS, TRAINING, net.GRADIENT, START,
)  # fmt: skip


@up_to_wrong
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
    yield ORDER, in_order(one, tokens)
    logits, short = model(tokens.clone()), model(tokens[:, :5].clone())
    start = close(short[:, :1], logits[:, :1])
    others = f"no, the first position {'does, the others do not' if start else 'neither'}"
    yield PREFIX, close(short, logits[:, :5]) or others
    for n, fact in READ.items():
        text = random_tokens(seed, fact, 2, n)
        yield fact, looks.shape_of(model(text.clone()), text)
    yield STORED, close(make(2, 2)(tokens.clone()), logits)
    yield net.LAYERS, layers_add(answer, alike=True)
    yield HEADS, not close(make(3, 2)(tokens.clone()), logits)
    yield TRAINING, net.in_training(model, tokens)
    yield net.GRADIENT, gradients(model, lambda: model.eval()(tokens.clone()))
    yield START, started(answer, seed)


def in_order(model, tokens) -> bool | str:
    """True where the last logits move when the first two tokens change places."""
    last = model(tokens.clone())[:, -1]
    if not close(model(tokens[:, [1, 0, *range(2, tokens.size(1))]])[:, -1], last):
        return True
    others = torch.cat([(tokens[:, :2] + 5) % VOCAB, tokens[:, 2:]], 1)
    return close(model(others)[:, -1], last) and "no, the last position does not read the first two"


def started(answer, seed: int) -> bool | str:
    """True where the loss of the model as it is built is that of a guess."""
    model, tokens = answer(VOCAB, 48, 4, 2, 32).eval(), random_tokens(seed, "start", 8, 32)
    loss = F.cross_entropy(model(tokens[:, :-1].clone()).flatten(0, 1), tokens[:, 1:].flatten())
    guess = math.log(VOCAB)
    of_words = sum(p.dim() > 1 and VOCAB in p.shape for p in model.parameters())
    shared = "embedding and head are one matrix, which is to start smaller"
    drawn = "nn.Linear starts small enough, torch.randn needs a factor such as embed_dim ** -0.5"
    told = f"it is {loss:.1f} and not {guess:.1f}; {shared if of_words == 1 else drawn}"
    return abs(loss.item() - guess) < 0.8 or told


MEANINGS = (
    *looks.MEANINGS,
    ("read the first two", "The last position does not read the first two tokens: is there a "
     f"window, or does view(b, num_heads, n, -1) give a head a stretch of text? {looks.HEADS}"),
    (f"{ORDER}: no", "In which order earlier tokens stand changes nothing, or hardly anything. Add "
     "positions to the vectors of the tokens."),
    ("position neither", "What a position gets depends on how many tokens follow, and the first "
     "one does so, too. Are positions counted from the end? They move as the text grows; count "
     "from the start."),
    ("position does", "The first position gets the same however long the text is, the others do "
     "not. Are scores, or positions, divided by the number of tokens? Scores are divided by "
     "sqrt(head_dim), and places count from 0, whatever follows."),
    (READ[LENGTH], "Do the positions, and the mask, reach as far as length says?"),
    (f"{STORED}: no", "Random numbers that parameters() does not find decide: those drawn into a "
     "buffer, or of blocks in a plain list. Make them nn.Parameter, the list an nn.ModuleList."),
    (f"{HEADS}: no", "num_heads changes nothing: split the vectors into heads before the scores."),
    (f"{TRAINING}: no", "In training other samples or later tokens are read, in evaluation they "
     "are not, as with nn.BatchNorm1d. Norm each vector by itself, as nn.LayerNorm does."),
)  # fmt: skip

EXERCISE = Exercise(
    name="decoder",
    answer="Decoder",
    judge=Facts(facts, NAMES),
    right=net.Decoder,
    explain=(meaning_of_facts(*MEANINGS),),
    asks_for="class",
    measures=("gradients", "parameters"),
)
