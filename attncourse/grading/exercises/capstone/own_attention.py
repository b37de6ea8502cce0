"""Exercise own_attention: another attention in the decoder, with a cache half as large."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn

from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.exercises.capstone._looks import influence, listed
from attncourse.grading.exercises.capstone._net import VOCAB, Net, close, drawn_into, random_tokens
from attncourse.grading.exercises.capstone._writing import numbers_in, said, written
from attncourse.grading.exercises.capstone.write import FIRST, LAST, STEP, writes
from attncourse.grading.trained import up_to_wrong

LENGTH, WIDTH, HEADS, LAYERS = 32, 24, 4, 2
READS = "each position reads itself and the two tokens before it, and knows their order"
WIDE, HEADS_COUNT = "the vectors of tokens are embed_dim wide", "num_heads matters"
SHORT = 20, 12  # lengths, in which windows are short that depend on it
SIZE = "the cache is at most half of that of multi-head attention"
SHORTER = "so it is for decoders of shorter texts, and of two heads"
NAMES = *FIRST, READS, *LAST, SIZE, STEP, SHORTER, WIDE, HEADS_COUNT


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What a decoder with any attention writes with random parameters."""
    most = LAYERS * LENGTH * WIDTH
    less = (
        f"{most} are half of what multi-head attention keeps (numbers count, not bytes); share "
        "heads and repeat them behind the cache, keep a shorter window or a smaller vector"
    )
    size = SIZE, most + LAYERS * LENGTH, less  # with a place for each token and layer
    yield from writes(answer, seed, (WIDTH, HEADS, LENGTH), partial(near, answer, seed), size)
    yield SHORTER, small(answer, seed)
    yield WIDE, wide(answer(VOCAB, WIDTH, HEADS, LAYERS, LENGTH))
    tokens = random_tokens(seed, "heads", 1, LENGTH)
    two, four = (
        said(drawn_into(answer(VOCAB, WIDTH, k, 1, LENGTH), seeded(seed)), tokens)[0]
        for k in (2, 4)
    )
    yield HEADS_COUNT, not close(two, four) or "no; split the vectors into heads"


def near(answer: Any, seed: int, moves: Tensor) -> tuple[str, bool | str]:
    """Whether positions read the last three, also with one layer made for short texts."""
    for length in (LENGTH, *SHORT):
        tokens, g = random_tokens(seed, "near", 1, length), seeded(seed, length)
        one = drawn_into(answer(VOCAB, WIDTH, HEADS, 1, length), g) if length < LENGTH else None
        reads = (influence(one, tokens) if one else moves) > 1e-6
        what = f"with one layer, and length {length}, " if one else ""
        for at in (len(reads) - 1, *range(2, len(reads))):
            if not reads[at - 2 : at + 1, at].all():
                return READS, f"{what}token {at} depends on {listed(reads[:, at])} only"
        swapped = tokens[:, [*range(length - 3), length - 2, length - 3, length - 1]]
        if one and close(said(one, swapped)[0][:, -1], said(one, tokens)[0][:, -1]):
            return READS, f"{what}the order of the two tokens before the last makes no difference"
    return READS, True


def small(answer: Any, seed: int) -> bool | str:
    """True where the cache is half as large for shorter texts, and for two heads, too."""
    for n, heads in ((LENGTH, 2), *((n, HEADS) for n in SHORT)):
        tokens = random_tokens(seed, "small", 1, n)
        held = numbers_in(written(answer(VOCAB, WIDTH, heads, 1, n).eval(), tokens, [n - 1, 1])[1])
        if held > n * (WIDTH + 1):
            return f"with {heads} heads and length {n} a layer holds {held}; half are {n * WIDTH}"
    return True


def wide(model: nn.Module) -> bool | str:
    """True where embeddings or the last layer know embed_dim: no narrower model is asked for."""
    tables = [tuple(p.shape) for p in model.parameters() if p.dim() == 2 and VOCAB in p.shape]
    widths = {w for table in tables for w in table if w != VOCAB}
    told = f"they are {max(widths, default=0)} and not {WIDTH}; change the attention, not the width"
    return not widths or WIDTH in widths or told


class Grouped(Net):
    """Two query heads share a key and a value."""

    shares = 2


EXERCISE = Exercise(
    name="own_attention",
    answer="Slim",
    judge=Facts(lambda *asked: up_to_wrong(NAMES, facts(*asked)), NAMES),
    right=Grouped,
    asks_for="class",
)
