"""Layers in steps, right ones and those that are wrong on purpose: a mistake replaces a step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from attncourse.grading.recipe import Recipe


@dataclass(frozen=True)
class LayerRecipe(Recipe):
    """A layer in steps, called as its class is; ``rest`` of a `Given` is the layer.

    Args:
        parts: ``parts(layer, *sizes)`` makes what the layer stores; a step like all others.
    """

    parts: Callable = lambda layer, *sizes: None

    def stores(self, **changed: Any) -> dict[str, Callable]:
        """The step ``parts`` with other keyword arguments."""
        return {"parts": partial(self.parts, **changed)}

    def reads(self, **changed: Callable) -> dict[str, Callable]:
        """The step ``given`` with other keyword arguments."""
        return {"given": partial(self.given, **changed)}

    @property
    def layer(self) -> type[nn.Module]:
        """The class, from which other styles inherit what it stores."""
        return type("Layer", (BuiltLayer,), {"recipe": self})

    def __call__(self, *sizes):
        return self.layer(*sizes)


class BuiltLayer(nn.Module):
    """Stores and computes what its recipe says."""

    recipe: LayerRecipe

    def __init__(self, *sizes):
        super().__init__()
        self.recipe.parts(self, *sizes)

    def forward(self, *args, **kwargs):
        return Recipe.__call__(self.recipe, self, *args, **kwargs)


def split(x: Tensor, num_heads: int) -> Tensor:
    """(b, n, heads * head_dim) -> (b, heads, n, head_dim)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(heads: Tensor) -> Tensor:
    """(b, heads, n, head_dim) -> (b, n, heads * head_dim)."""
    return heads.transpose(1, 2).flatten(2)
