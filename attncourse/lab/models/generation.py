"""Writing with a language model: which token comes next, drawn one by one, for several texts at once."""

import math
import sys
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from tqdm import tqdm

BAR_FROM = 200  # tokens; shorter texts are written before a bar could be read


def padded(rows: list[Int[Tensor, " n"]]) -> tuple[Int[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """Texts of different lengths in one table, padded on the left, so that all of them end, and go on, together.

    Returns: tokens, 0 where nothing stands, and which of them are no padding.
    """
    if not rows:
        raise ValueError("expected one prompt or more; got an empty list")
    longest = max(map(len, rows))
    tokens = torch.stack([torch.nn.functional.pad(x, (longest - len(x), 0)) for x in rows])
    start = torch.tensor([longest - len(x) for x in rows])
    return tokens, torch.arange(longest) >= start[:, None]


def likely(
    logits: Float[Tensor, "b vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "b vocab"]:
    """The probabilities from which the next token is drawn.

        probability = softmax(logits / temperature), over the top_k likeliest tokens, and of these over the
        likeliest whose probabilities add up to top_p; 0 elsewhere

    Args:
        logits: of the next token.
        temperature: below 1 the likely ones become likelier; 0 leaves the likeliest alone.
        top_k: how many tokens are left at most; ``None``: all.
        top_p: how much probability they have together, 0..1; the token that reaches it is kept. ``None``: all.

    Raises:
        ValueError: a negative temperature, top_k below 1, or top_p outside 0..1.

    Source: holtzman2020.
    Chapter: 05_transformer.
    """
    check_choice(temperature, top_k, top_p)
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.size(-1)).to(logits)
    logits = logits / temperature
    if top_k is not None:
        least = logits.topk(min(top_k, logits.size(-1))).values[..., -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    weights = torch.softmax(logits, dim=-1)
    if top_p is None:
        return weights
    ordered, tokens = weights.sort(dim=-1, descending=True)
    # What stands before a token decides: the one that crosses the line is kept, and so is the first.
    before = ordered.cumsum(dim=-1) - ordered
    ordered = ordered.masked_fill((before >= top_p) & (before > 0), 0.0)
    weights = torch.zeros_like(weights).scatter(-1, tokens, ordered)
    return weights / weights.sum(dim=-1, keepdim=True)


@torch.no_grad()
def generate(
    model: Any,
    tokens: Int[Tensor, "b n"],
    real: Bool[Tensor, "b n"] | None = None,
    length: int = 40,
    *,
    seed: int = 0,
    use_cache: bool = True,
    **chosen: Any,
) -> Int[Tensor, "b more"]:
    """The tokens, and ``length`` more behind each row, drawn from `likely`.

    Args:
        model: with ``model(tokens, attn_mask=...)``, ``new_caches`` and ``decode``, as `LanguageModel` has them.
        tokens: the beginnings.
        real: ``False`` where a token is padding on the left; ``None``: none is.
        length: how many are written; a progress bar is shown from 200 on.
        seed: of row 0; each row has a generator of its own, with seed + its number.
        use_cache: ``False`` reads everything again for each token.
        chosen: temperature, top_k and top_p of `likely`.

    Raises:
        ValueError: a negative length, or what `likely` refuses.

    Cost: with caches one pass over n tokens and ``length`` - 1 over one.
    Chapter: 05_transformer, 06_kv_cache.
    """
    if length < 0:
        raise ValueError(f"length must be 0 or more; got {length}")
    check_choice(**chosen)
    generators = [Generator().manual_seed(seed + row) for row in range(len(tokens))]
    caches = model.new_caches(len(tokens), tokens.size(1) + length) if use_cache else None
    mask = None if real is None or real.all() else real[:, None, None]
    new, new_mask = tokens, mask
    # On stdout and erased at the end: a notebook keeps no trace of the bar.
    for _ in tqdm(range(length), file=sys.stdout, leave=False, disable=length < BAR_FROM):
        if caches is not None:
            logits = model.decode(new, caches, new_mask)[:, -1]
        else:
            logits = model(tokens, attn_mask=mask)[:, -1]
        new, new_mask = _draw(likely(logits, **chosen), generators), None
        tokens = torch.cat([tokens, new], dim=1)
        mask = None if mask is None else torch.nn.functional.pad(mask, (0, 1), value=True)
    return tokens


def check_choice(
    temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> None:
    """Refuse what `likely` cannot draw from."""
    if temperature < 0:
        raise ValueError(f"temperature must be 0 or more; got {temperature}. 0 takes the likeliest")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k counts tokens and must be 1 or more; got {top_k}. None keeps all")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p is a probability, 0 to 1; got {top_p}. None keeps all tokens")


def _draw(weights: Float[Tensor, "b vocab"], generators: list[Generator]) -> Int[Tensor, "b 1"]:
    """One token for each row, each from a generator of its own: no text depends on its neighbours."""
    rows = zip(weights, generators, strict=True)
    return torch.stack([torch.multinomial(row, 1, generator=g) for row, g in rows])
