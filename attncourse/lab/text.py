"""Real text for small models: the manual that every Python ships, character by character."""

from functools import cache

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from attncourse.lab.data import Batch


@cache
def manual_text() -> str:
    """Python's manual, as ``help`` shows it: about 700,000 characters, some more or less in other versions."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


@cache
def characters() -> tuple[str, Int[Tensor, " n"]]:
    """The characters that occur in Python's manual, and the manual as numbers of them."""
    text = manual_text()
    alphabet = "".join(sorted(set(text)))
    number = {character: k for k, character in enumerate(alphabet)}
    return alphabet, torch.tensor([number[character] for character in text])


def passages(
    generator: Generator, batch: int = 32, length: int = 32, held_out: bool = False
) -> Batch:
    """Predict the next character: pieces of the manual from random places, a tenth of which is held out.

    Args:
        length: characters of a piece.
        held_out: from the last tenth, which training does not see, instead of the rest.
    """
    _, text = characters()
    cut = len(text) * 9 // 10
    first, last = (cut, len(text)) if held_out else (0, cut)
    starts = torch.randint(first, last - length, (batch, 1), generator=generator)
    pieces = text[starts + torch.arange(length + 1)]
    return Batch((pieces[:, :-1],), pieces[:, 1:])
