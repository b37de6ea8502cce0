"""The two kinds of rules about a pair of positions, with the signatures of PyTorch's ``flex_attention``."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

Index = Tensor | int  # one index, or a tensor of indices that broadcasts


@runtime_checkable
class MaskMod(Protocol):
    """Who may read whom: ``mask_mod(b, h, q_idx, kv_idx)``, ``True`` = may attend."""

    def __call__(self, b: Index, h: Index, q_idx: Index, kv_idx: Index) -> Tensor | bool: ...


@runtime_checkable
class ScoreMod(Protocol):
    """How a score moves: ``score_mod(score, b, h, q_idx, kv_idx) -> score``."""

    def __call__(
        self, score: Tensor, b: Index, h: Index, q_idx: Index, kv_idx: Index
    ) -> Tensor: ...


def named(factory: Callable) -> Callable:
    """Rules of this factory are called like the call that made them: ``causal_at(offset=2)``."""
    parameters = signature(factory)

    @wraps(factory)
    def make(*args, **kwargs):
        rule = factory(*args, **kwargs)
        given = parameters.bind(*args, **kwargs)
        shown = [_brief(x) for x in given.args if callable(x)]
        shown += [f"{k}={_brief(x)}" for k, x in given.arguments.items() if not _are_rules(x)]
        rule.__name__ = rule.__qualname__ = f"{factory.__name__}({', '.join(shown)})"
        return rule

    return make


def _are_rules(x: Any) -> bool:
    return isinstance(x, tuple) and all(map(callable, x))


def _brief(x: Any) -> str:
    if isinstance(x, Tensor):
        return str(x.tolist()) if x.numel() <= 8 else f"a tensor of shape {tuple(x.shape)}"
    return getattr(x, "__name__", repr(x))
