"""Small tasks whose right attention map is known before training.

Each task draws a `Batch` from a generator, so the same seed gives the same data.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

IGNORE = -100  # targets that the loss and the accuracy leave out, as in torch's cross_entropy


class Batch(NamedTuple):
    """Inputs of a model (a tuple of tensors) and the tokens, or the vectors, it should answer."""

    inputs: tuple[Tensor, ...]
    targets: Tensor


def random_tokens(generator: Generator, batch: int, length: int, vocab: int) -> Int[Tensor, "b n"]:
    """Independent uniform tokens."""
    return torch.randint(vocab, (batch, length), generator=generator)


def reversal(generator: Generator, batch: int = 128, length: int = 16, vocab: int = 20) -> Batch:
    """Say the sequence backwards. Position i must read position length - 1 - i: `reversal_map`."""
    tokens = random_tokens(generator, batch, length, vocab)
    return Batch((tokens,), tokens.flip(1))


def reversal_map(length: int = 16) -> Bool[Tensor, "n m"]:
    """``True`` where `reversal` must look: the anti-diagonal."""
    return torch.eye(length, dtype=torch.bool).flip(1)


def card_before(generator: Generator, batch: int = 64, cards: int = 16) -> Batch:
    """A shuffled deck of cards: name the card that lies before each. Card 0 has none and is ignored.

    Without order all other cards are alike: log(cards - 1) nats. Who knows which cards lie before a card,
    and not in which order, pays the mean of log(i) over i = 1 .. cards - 1.
    """
    deck = torch.stack([torch.randperm(cards, generator=generator) for _ in range(batch)])
    before = deck.roll(1, dims=1)
    before[:, 0] = IGNORE
    return Batch((deck,), before)


def next_random_token(
    generator: Generator, batch: int = 64, length: int = 16, vocab: int = 16
) -> Batch:
    """Predict the next of independent uniform tokens. Nobody can: honest loss is log(vocab)."""
    tokens = random_tokens(generator, batch, length + 1, vocab)
    return Batch((tokens[:, :-1],), tokens[:, 1:])


def induction(generator: Generator, batch: int = 64, length: int = 32, vocab: int = 32) -> Batch:
    """A block of 8 to 16 distinct tokens, repeated: predict the next token.

    The period differs from sample to sample, so position alone does not help: the model must find
    the earlier copy of the current token and read what followed it. Targets inside the first
    block cannot be known and are ignored.

    Source: olsson2022 for the pattern; elhage2021 for why two layers are needed.
    """
    tokens, targets = [], []
    for _ in range(batch):
        period = int(torch.randint(8, 17, (), generator=generator))
        block = torch.randperm(vocab, generator=generator)[:period]
        sequence = block.repeat(length // period + 2)[: length + 1]
        target = sequence[1:].clone()
        target[: period - 1] = IGNORE
        tokens.append(sequence[:-1])
        targets.append(target)
    return Batch((torch.stack(tokens),), torch.stack(targets))


def induction_map(tokens: Int[Tensor, "b n"]) -> Bool[Tensor, "b n m"]:
    """``True`` where key j stands right behind an earlier copy of the query's token."""
    n = tokens.size(1)
    follows_copy = torch.zeros(*tokens.shape, n, dtype=torch.bool)
    follows_copy[:, :, 1:] = tokens[:, :, None] == tokens[:, None, :-1]
    return follows_copy & torch.ones(n, n, dtype=torch.bool).tril()


def cipher(generator: Generator, batch: int = 64, length: int = 12, vocab: int = 20) -> Batch:
    """A translation in miniature: reverse the source and replace each word by its partner.

    Inputs are (source, what has been said so far); token ``vocab`` starts the answer. Word t of
    the answer depends on source word length - 1 - t only: `reversal_map`.
    """
    source = random_tokens(generator, batch, length, vocab)
    answer = substitution(vocab)[source.flip(1)]
    start = torch.full((batch, 1), vocab)
    return Batch((source, torch.cat([start, answer[:, :-1]], dim=1)), answer)


def substitution(vocab: int = 20) -> Int[Tensor, " vocab"]:
    """The dictionary of `cipher`: word w becomes 7 w + 3 modulo vocab (7 must not divide vocab)."""
    return (7 * torch.arange(vocab) + 3) % vocab


def look_back(
    generator: Generator, batch: int = 64, length: int = 20, vocab: int = 32, offsets: int = 4
) -> Batch:
    """Report the tokens 1, 2, ..., ``offsets`` places back, all at once. Targets (b, n, offsets).

    One softmax can put its weight in one place; several heads can look in several places.
    """
    tokens = random_tokens(generator, batch, length, vocab)
    targets = torch.full((batch, length, offsets), IGNORE)
    for k in range(1, offsets + 1):
        targets[:, k:, k - 1] = tokens[:, :-k]
    return Batch((tokens,), targets)


def copy_back(
    generator: Generator, batch: int = 64, length: int = 16, vocab: int = 16, offset: int = 3
) -> Batch:
    """Report the token ``offset`` places back: one rule for every position and every length."""
    tokens = random_tokens(generator, batch, length, vocab)
    targets = torch.full_like(tokens, IGNORE)
    targets[:, offset:] = tokens[:, :-offset]
    return Batch((tokens,), targets)


def find_block(
    generator: Generator,
    batch: int = 64,
    blocks: int = 6,
    size: int = 3,
    letters: int = 16,
    answer: str = "first",
) -> Batch:
    """Which block holds both of two letters? Blocks of letters come first, the two letters last.

        c a f . b a d . e b f : d b  ->  b

    Each of the two letters alone may stand in several blocks, both stand in one only. Token ``letters`` ends
    a block, ``letters + 1`` the last one. There are blocks * (size + 1) + 2 tokens and one target, at the last.

    Args:
        size: letters in a block, all different; at least 2.
        letters: how many letters there are.
        answer: ``"first"`` or ``"last"`` letter of the block; or ``"block"``, all of them one by one, each
            after the right ones before it: the sequence is size - 1 longer and has as many more targets.

    Source: golovneva2025, the motivating toy task.
    """
    table, asked, block = _blocks_and_question(generator, batch, blocks, size, letters)
    ends = torch.full((batch, blocks, 1), letters)
    ends[:, -1] += 1
    context = torch.cat([table, ends], dim=-1).flatten(1)
    answers = {"first": block[:, :1], "last": block[:, -1:], "block": block}[answer]
    tokens = torch.cat([context, asked, answers[:, :-1]], dim=1)
    targets = torch.full_like(tokens, IGNORE)
    targets[:, -answers.size(1) :] = answers
    return Batch((tokens,), targets)


def _blocks_and_question(
    generator: Generator, batch: int, blocks: int, size: int, letters: int
) -> tuple[Int[Tensor, "b blocks size"], Int[Tensor, "b 2"], Int[Tensor, "b size"]]:
    """Blocks, two letters that one of them holds, in any order, and that block."""
    table = torch.rand(batch, blocks, letters, generator=generator).argsort(-1)[..., :size]
    block = table[torch.arange(batch), torch.randint(blocks, (batch,), generator=generator)]
    asked = block.gather(1, torch.rand(batch, size, generator=generator).argsort(-1)[:, :2])
    holds_both = (table[..., None] == asked[:, None, None]).any(2).all(-1)
    again = holds_both.sum(1) > 1
    if again.any():
        redrawn = _blocks_and_question(generator, int(again.sum()), blocks, size, letters)
        for old, new in zip((table, asked, block), redrawn, strict=True):
            old[again] = new
    return table, asked, block


def broadcast(
    generator: Generator, batch: int = 64, length: int = 40, vocab: int = 16, source: int = 0
) -> Batch:
    """Every position names the token at position ``source``, however far it is; all others are noise.

    Who does not hear of it is right once in ``vocab`` times. So the share of right answers tells, position
    by position, how far information travels.
    """
    tokens = random_tokens(generator, batch, length, vocab)
    return Batch((tokens,), tokens[:, source : source + 1].expand(-1, length).clone())


def digit_sums(generator: Generator, batch: int = 32, length: int = 10) -> Batch:
    """Report the last digit of each digit plus the one before it: 7 after 8 is 5.

    Attention can fetch the digit before; to add two digits modulo 10 is no weighted mean.
    """
    digits = random_tokens(generator, batch, length, 10)
    targets = torch.full_like(digits, IGNORE)
    targets[:, 1:] = (digits[:, 1:] + digits[:, :-1]) % 10
    return Batch((digits,), targets)


def idle(
    generator: Generator,
    batch: int = 64,
    length: int = 32,
    width: int = 8,
    asked: float = 0.15,
    start: bool = True,
) -> Batch:
    """Report the vector before, but only where a flag asks for it; elsewhere report 0: there is nothing to do.

    Inputs are (vectors (b, n, width), flags (b, n)), targets (b, n, width). Every number is an independent
    standard normal. Who always reports 0 errs by ``asked`` in mean square, up to the first positions.

    Args:
        asked: share of the positions with a flag; the first two have none.
        start: position 0 holds no vector but a start token, which carries nothing: zeros.
    """
    vectors = torch.randn(batch, length, width, generator=generator)
    flags = torch.rand(batch, length, generator=generator) < asked
    flags[:, :2] = False
    if start:
        vectors[:, 0] = 0.0
    return Batch((vectors, flags), vectors.roll(1, dims=1) * flags[..., None])


def noisy_waves(
    generator: Generator,
    batch: int = 64,
    length: int = 24,
    horizon: int = 8,
    waves: int = 2,
    noise: float = 0.2,
) -> Batch:
    """Forecast a signal: a sum of sines with periods from 4 to 16 steps and any phase.

    Inputs are the last ``length`` values (b, n), each with normal noise of this size. Targets are the next
    ``horizon`` values (b, horizon) without noise: nobody can forecast noise, so it would only raise all
    errors alike.
    """
    time = torch.arange(length + horizon)
    period = 4 + 12 * torch.rand(batch, waves, 1, generator=generator)
    phase = 2 * math.pi * torch.rand(batch, waves, 1, generator=generator)
    clean = torch.sin(2 * math.pi * time / period + phase).sum(dim=1)
    past = clean[:, :length] + noise * torch.randn(batch, length, generator=generator)
    return Batch((past,), clean[:, length:])


def vector_lookup(
    generator: Generator, batch: int = 64, length: int = 8, asked: int = 8, width: int = 32
) -> Batch:
    """Fetch the vector that a pointer names: inputs are (vectors (b, m, width), pointer (b, n)).

    Every number is an independent standard normal. Who can carry only r numbers of a vector errs by
    1 - r / width or more, in mean square: what was left behind has variance 1 and cannot be guessed.
    """
    vectors = torch.randn(batch, length, width, generator=generator)
    pointer = torch.randint(length, (batch, asked), generator=generator)
    return Batch((vectors, pointer), _at(vectors, pointer))


def attribute_copy(
    generator: Generator,
    batch: int = 64,
    length: int = 8,
    asked: int = 8,
    attributes: int = 8,
    classes: int = 8,
) -> Batch:
    """Name all attributes of the thing that a pointer names. Targets (b, n, attributes).

    As `vector_lookup`, with inputs (things (b, m, attributes), pointer (b, n)) in classes.
    """
    things = torch.randint(classes, (batch, length, attributes), generator=generator)
    pointer = torch.randint(length, (batch, asked), generator=generator)
    return Batch((things, pointer), _at(things, pointer))


def _at(x: Float[Tensor, "b m k"] | Int[Tensor, "b m k"], pointer: Int[Tensor, "b n"]) -> Tensor:
    """``x[b, pointer[b, n]]``."""
    return x[torch.arange(len(x))[:, None], pointer]
