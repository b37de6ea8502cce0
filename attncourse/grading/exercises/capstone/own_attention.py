"""Exercise own_attention: another attention in the decoder, with a cache half as large."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from attncourse.grading.exercise import Exercise, Facts
from attncourse.grading.exercises.capstone._net import VOCAB, Net
from attncourse.grading.exercises.capstone._writing import one_step
from attncourse.grading.exercises.capstone.write import FIRST, LAST, MEANINGS, STEP, writes
from attncourse.grading.explain.trainings import meaning_of_facts
from attncourse.grading.trained import up_to_wrong

LENGTH, WIDTH, HEADS, LAYERS = 32, 24, 4, 2
READS = "the last position reads itself and the two tokens before it"
WIDE = "the vectors of tokens are embed_dim wide"
SIZE = "the cache is at most half of that of multi-head attention"


@up_to_wrong
def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """What a decoder with any attention writes with random parameters."""
    found = yield from writes(
        answer,
        seed,
        (WIDTH, HEADS, LENGTH),
        lambda moves: [(READS, bool((moves[-3:, -1] > 1e-6).all()))],
    )
    most = LAYERS * LENGTH * WIDTH
    how = "it is as large as there, or larger" if found >= 2 * most else "it is smaller than there"
    fits = found <= most + LAYERS * LENGTH  # with a place for each token and layer
    yield SIZE, fits or f"{how}: {found} numbers, and {most} are half"
    yield WIDE, wide(answer(VOCAB, WIDTH, HEADS, LAYERS, LENGTH))
    yield STEP, one_step(answer, seed)


def wide(model: nn.Module) -> bool | str:
    """True where embeddings or the last layer know embed_dim: no narrower model is asked for."""
    tables = [tuple(p.shape) for p in model.parameters() if p.dim() == 2 and VOCAB in p.shape]
    widths = {w for table in tables for w in table if w != VOCAB}
    return not widths or WIDTH in widths or f"they are {max(widths)} and not {WIDTH}"


class Grouped(Net):
    """Two query heads share a key and a value."""

    shares = 2


OWN = (
    (f"{READS}: no", "The last token does not read both tokens before it; a window holds some of "
     "them, too."),
    ("first positions are", "The first positions of a text find no key that they may read, and "
     "become NaN. Cut what is handed on, not the keys of the scores; the mask makes the "
     "window, and a token reads itself."),
    ("it is as large", "The cache is as large as that of multi-head attention, or larger. Where "
     "heads share keys and values, repeat these after the cache, not before it."),
    ("it is smaller", "The cache is smaller than that of multi-head attention, but larger than "
     "half of it, layers * length * embed_dim numbers: keep fewer tokens of a window, fewer shared "
     "heads, or a smaller vector."),
    (f"{WIDE}: they", "The whole model is narrower than embed_dim, which saves cache with no other "
     "attention; change the attention, not the width."),
)  # fmt: skip

EXERCISE = Exercise(
    name="own_attention",
    answer="Slim",
    judge=Facts(facts, (*FIRST, READS, *LAST, SIZE, WIDE, STEP)),
    right=Grouped,
    explain=(meaning_of_facts(*OWN, *MEANINGS),),
    asks_for="class",
    measures=("gradients", "memory", "parameters"),
)
