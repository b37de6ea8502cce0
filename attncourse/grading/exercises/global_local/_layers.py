"""What spreads from layer to layer, in steps, and the wrong ways in which people let it spread."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.grading.recipe import Recipe


def spread(mask: Tensor, known: Tensor) -> Tensor:
    """What the positions that i reads knew before this layer."""
    return (mask.double() @ known.double()) > 0


@dataclass(frozen=True)
class Layers:
    """A right answer in steps; `but` replaces some of them.

    Args:
        start: what is known before the first layer.
        layers: the masks in the order in which they work.
        spread: (mask, known) -> what is heard of in a layer.
        keep: (known, heard) -> what is known after it; the rest of the model keeps what was there.
        mark: (found, known, new, number of the layer) -> found.
        finish: (found, known) -> the result.
    """

    start: Callable = lambda n: torch.eye(n, dtype=torch.bool)
    layers: Callable = lambda masks: masks
    spread: Callable = spread
    keep: Callable = torch.logical_or
    mark: Callable = lambda found, known, new, layer: found.masked_fill(new & (found < 0), layer)
    first: int = 1
    finish: Callable = lambda found, masks: found
    but = Recipe.but

    def __call__(self, masks):
        known = self.start(masks.size(1))
        found = known.long() - 1
        for layer, mask in enumerate(self.layers(masks), start=self.first):
            new = self.keep(known, self.spread(mask, known))
            found, known = self.mark(found, known, new, layer), new
        return self.finish(found, masks)


RIGHT = Layers()


def in_one_go(step: int) -> Callable:
    """Position after position, onwards or backwards: the later ones read what was heard in this very layer."""

    def spread(mask, known):
        known = known.clone()
        for i in range(len(mask))[::step]:
            known[i] |= known[mask[i]].any(0)
        return known

    return spread


def until_nothing_is_new(masks: Tensor) -> Tensor:
    """The masks up to the first that brings no news."""
    known = torch.eye(masks.size(1), dtype=torch.bool)
    for layer, mask in enumerate(masks):
        new = known | spread(mask, known)
        if torch.equal(new, known):
            return masks[:layer]
        known = new
    return masks


def one_graph(masks: Tensor) -> Tensor:
    """All masks joined, and as many layers as there are positions."""
    return masks.any(0).expand(masks.size(1), -1, -1)


def counted(dtype):
    """The number of ways instead of whether there is one."""

    def ways(masks):
        n = masks.size(1)
        known, found = torch.eye(n, dtype=dtype), torch.eye(n).long() - 1
        for layer, mask in enumerate(masks, start=1):
            known = known + mask.to(dtype) @ known
            found = found.masked_fill((known > 0) & (found < 0), layer)
        return found

    return ways


def readings(masks):
    """How many readings are on the shortest way; layers in which nothing is read are not counted."""
    n = masks.size(1)
    far = torch.full((n, n), math.inf).fill_diagonal_(0)
    for mask in masks:
        reach = torch.where(mask, 1.0, math.inf)
        far = torch.minimum(far, (reach[:, :, None] + far[None]).amin(1))
    return torch.where(far.isinf(), -1, far.nan_to_num(posinf=0)).long()
