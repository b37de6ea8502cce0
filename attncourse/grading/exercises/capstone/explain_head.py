"""Exercise explain_head: name a head of the trained model and what it does."""

from collections.abc import Iterator
from operator import index

import torch
from torch import Tensor

from attncourse.grading.exercise import Exercise, run, seeded
from attncourse.grading.exercises.capstone import _text as text
from attncourse.grading.exercises.capstone._looks import shape_of
from attncourse.grading.explain.trainings import meaning_of_facts
from attncourse.grading.trained import drawn_like, judged, kind_of, with_parameters

OTHERS = "no; is something of a passage mixed with the others, or drawn at random?"
MORE, LEAST, WHAT = 1.5, 0.2, ("previous", "start", "same", "spread")
FACTS = (
    "it returns (logits, weights, claim)",
    f"logits have shape (b, n, {text.CHARACTERS})",
    "their loss is below that of the table of pairs",
    "weights of each layer have shape (b, heads, n, n)",
    "the weights of a row sum to 1, and no later character has one",
    "each head has weights of its own",
    "in another call, with some of the passages, the weights are the same",
    "the claim is (layer, head, what), such as (0, 2, 'previous')",
    f"the head does it {MORE} times as much as the others do on average, and {LEAST} or more",
    "other parameters give other weights",
)


def judge(model, given, seed: int) -> Iterator:
    """What the model reads."""
    tokens, targets = given.clone(), text.passages(seed)[:, 1:]
    result = model(given)  # here it may change them
    several = isinstance(result, tuple | list) and len(result) == 3
    yield several or kind_of(result)
    logits, _, claim = result
    yield shape_of(logits, tokens, text.CHARACTERS, model)
    learned = text.loss(logits, targets) < text.of_pairs(tokens, targets)
    yield learned or "no; wrap the model that you have trained"
    maps = text.maps_of(result, tokens)
    yield True
    yield text.rows_of(maps)
    yield text.own_maps(maps)
    parts = [text.maps_of(model(few.clone()), few) for few in tokens[:8].split(4)]
    alike = all(x.shape == maps[:, :4].shape for x in parts)
    yield alike and torch.allclose(torch.cat(parts, 1), maps[:, :8], atol=1e-3) or OTHERS
    claimed = run(claim_of, claim, maps)
    yield isinstance(claimed, tuple) or claimed
    yield stands_out(text.measured(maps, tokens), *claimed)
    others = with_parameters(model, drawn_like(model, seeded(seed, "parameters")), tokens)
    yield all_move(text.maps_of(others, tokens), maps)


def claim_of(claim, maps: Tensor) -> tuple | str:
    """(layer, head, what), or what is wrong with it."""
    form = isinstance(claim, tuple | list) and len(claim) == 3
    if not form or any(isinstance(x, str) for x in claim[:2]):
        return f"it is {claim!r:.40}"
    layer, head, what = index(claim[0]), index(claim[1]), claim[2]
    if what not in WHAT:
        return f"the description is none of the four: {', '.join(WHAT)}"
    layers, heads = maps.size(0), maps.size(2)
    there = 0 <= layer < layers and 0 <= head < heads
    count = f"it names layer {layer} and head {head}, of {layers} layers with {heads} heads"
    return (layer, head, what) if there else f"{count}; both are counted from 0"


def stands_out(measures: dict[str, Tensor], layer: int, head: int, what: str) -> bool | str:
    """True where the head does what is claimed, more than the others do."""
    count = measures[what].numel()
    if count == 1:
        return "there is no other head to compare with; a model of two heads or more is needed"
    own = {name: x[layer, head].item() for name, x in measures.items()}
    rest = {name: (x.sum().item() - own[name]) / (count - 1) for name, x in measures.items()}
    does = [name for name in WHAT if own[name] >= max(LEAST, MORE * rest[name])]
    other = " and ".join(does) or "nothing; measure all heads, and take one that stands out"
    numbers = f"{own[what]:.2f}, and the others have {rest[what]:.2f} on average"
    return what in does or f"{numbers}; what it does more than they is {other}"


def all_move(other: Tensor, maps: Tensor) -> bool | str:
    """True where the weights of every head are others."""
    moved = (other - maps).abs().sum(-1).nan_to_num(2.0).mean((1, 3)) / 2  # layers, heads
    still = [str(tuple(x)) for x in (moved < 0.01).nonzero().tolist()]
    told = f"not of these heads (layer, head): {', '.join(still)}; weights come from parameters"
    return not still and bool(moved.mean() > 0.1) or told


EXERCISE = Exercise(
    name="explain_head",
    answer="explained",
    judge=judged(judge, FACTS, text.MOST, text.characters, "characters"),
    right=text.Reader((0, 1, "previous")),
    explain=(meaning_of_facts(),),
    asks_for="model",
)
