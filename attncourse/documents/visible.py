"""Masks as the documents write them, as masks of this course: bool, ``True`` = may attend."""

import torch
from jaxtyping import Bool
from torch import Tensor


def zero_hides(mask: Tensor | None) -> Bool[Tensor, "..."] | None:
    """The convention of documents 000 and 001: a pair is hidden where the mask is 0.

    Args:
        mask: of any dtype, (n, m), (b, n, m) or (b, h, n, m). Three axes mean one mask for each sample; without
            this, torch would take the first of them for the heads.
    """
    return None if mask is None else by_sample(mask != 0)


def true_hides(mask: Tensor | None) -> Bool[Tensor, "..."] | None:
    """The convention of document 004: a pair is hidden where the mask is ``True``.

    Raises:
        TypeError: the mask is not bool, so that nobody can know what its numbers mean.
    """
    if mask is None:
        return None
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be bool, True = hidden; got {mask.dtype}. If 1 hides, pass mask.bool(); if 0 hides, mask == 0"
        )
    return by_sample(~mask)


def by_sample(mask: Tensor) -> Tensor:
    """A head axis for a mask that has one table for each sample: (b, n, m) to (b, 1, n, m)."""
    return mask[:, None] if mask.dim() == 3 else mask
