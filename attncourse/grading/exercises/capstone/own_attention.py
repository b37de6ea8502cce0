"""Exercise own_attention: another attention in the decoder, with a cache half as large."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn

from attncourse.grading.exercise import Exercise, Facts, seeded
from attncourse.grading.exercises.capstone._looks import influence, listed
from attncourse.grading.exercises.capstone._net import VOCAB, Net, drawn_into, random_tokens
from attncourse.grading.exercises.capstone.write import FIRST, LAST, STEP, writes
from attncourse.grading.trained import up_to_wrong

LENGTH, WIDTH, HEADS, LAYERS = 32, 24, 4, 2
READS = "the last position reads itself and the two tokens before it"
WIDE = "the vectors of tokens are embed_dim wide"
SHORT = 20, 12  # lengths, in which windows are short that depend on it
SIZE = "the cache is at most half of that of multi-head attention"
NAMES = *FIRST, READS, *LAST, SIZE, STEP, WIDE


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What a decoder with any attention writes with random parameters."""
    most = LAYERS * LENGTH * WIDTH
    less = (
        f"{most} are half of what multi-head attention keeps (numbers count, not bytes); share "
        "heads and repeat them behind the cache, keep a shorter window or a smaller vector"
    )
    size = SIZE, most + LAYERS * LENGTH, less  # with a place for each token and layer
    yield from writes(answer, seed, (WIDTH, HEADS, LENGTH), partial(near, answer, seed), size)
    yield WIDE, wide(answer(VOCAB, WIDTH, HEADS, LAYERS, LENGTH))


def near(answer: Any, seed: int, moves: Tensor) -> tuple[str, bool | str]:
    """Whether the last position reads the last three, also with one layer made for short texts."""
    for length in (LENGTH, *SHORT):
        tokens, g = random_tokens(seed, "near", 1, length), seeded(seed, length)
        one = drawn_into(answer(VOCAB, WIDTH, HEADS, 1, length), g) if length < LENGTH else None
        last = (influence(one, tokens) if one else moves)[:, -1] > 1e-6
        what = f"with one layer, and length {length}, " if one else ""
        if not last[-3:].all():
            return READS, f"{what}the last of {len(last)} tokens depends on {listed(last)} only"
    return READS, True


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
    measures=("gradients", "memory", "parameters"),
)
