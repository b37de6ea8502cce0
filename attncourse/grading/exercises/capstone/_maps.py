"""What logits and maps of weights must look like before anything is measured in them."""

import torch
from torch import Tensor

from attncourse.grading.compare import Described


def logits_shape(logits, weights, wanted: tuple) -> bool | str:
    """True for the shape of logits, else what stands in their place."""

    def fits(x) -> bool:
        return isinstance(x, Tensor) and tuple(x.shape) == wanted

    if fits(logits):
        return True
    if fits(weights):
        return "the second result has it"
    if isinstance(logits, tuple | list) and logits and fits(logits[0]):
        return f"they are a {type(logits).__name__}, and the first of it has it"
    shape = f" of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else ""
    return Described(f"they have another: a {type(logits).__name__}{shape}")


def shape_of(weights, tokens) -> bool | str:
    """True where there is a map for each layer, of as many heads in each."""
    b, n = tokens.shape
    if not isinstance(weights, Tensor | tuple | list) or not all(
        isinstance(x, Tensor) for x in weights
    ):
        return f"a {type(weights).__name__}"
    shapes = {tuple(x.shape) for x in weights}
    if len(shapes) != 1:
        return "the layers differ, or there is none"
    shape = shapes.pop()
    if len(shape) != 4:
        return f"there are {len(shape)} axes"
    if shape[2:] == (n, n) and shape[0] != b:
        return Described(f"they are of another number of passages: {shape[0]} instead of {b}")
    return (shape[0], *shape[2:]) == (b, n, n) or "the axes are others"


def rows_of(maps: Tensor) -> bool | str:
    """True where the rows are weights of a causal attention."""
    one = maps.new_ones(())
    if not maps.isfinite().all():
        return "some are not finite"
    if not torch.allclose(maps.sum(-1), one, atol=1e-3):
        if torch.allclose(maps.sum(-2), one, atol=1e-3):
            return "the columns sum to 1"
        if maps.min() < 0 or maps.max() > 1 + 1e-3:
            return "some are below 0 or above 1"
        return "some sums are below 1" if maps.sum(-1).max() < 1 + 1e-3 else "the sums are not 1"
    return bool((maps.triu(1) < 1e-6).all()) or "later characters have weight"


def same_again(weights, maps: Tensor) -> bool:
    """Are these the same maps? Those of an earlier call have another batch, or other numbers."""
    return len(weights) == len(maps) and all(
        x.shape == y.shape and torch.allclose(x.detach().double(), y, atol=1e-3)
        for x, y in zip(weights, maps, strict=True)
    )


def all_move(other: Tensor, maps: Tensor) -> bool | Described:
    """True where the weights of every head are others."""
    moved = (other - maps).abs().sum(-1).nan_to_num(2.0).mean((1, 3)) / 2  # layers, heads
    still = (moved < 0.01).nonzero().tolist()
    if still and moved.mean() > 0.1:
        return Described(
            f"not of these heads (layer, head): {', '.join(str(tuple(x)) for x in still)}"
        )
    return bool(moved.mean() > 0.1)
