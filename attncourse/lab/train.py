"""One small training loop with a progress bar, and the accuracy of what it trained."""

import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from tqdm import tqdm

from attncourse.lab.data import IGNORE, Batch


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log-likelihood in nats, over the targets that are not ignored."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORE)


def fit(
    model: nn.Module,
    draw: Callable[[Generator], Batch],
    steps: int,
    lr: float = 3e-3,
    weight_decay: float = 0.0,
    seed: int = 0,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> list[float]:
    """Train on fresh batches with AdamW; returns the loss of every step.

    Args:
        model: called as ``model(*batch.inputs)``; answers logits (..., vocab).
        draw: a task of `attncourse.lab.data`, for example ``data.reversal``.
        steps: number of batches, each seen once.
        seed: of the data. Seed the model's weights yourself with ``torch.manual_seed``.
        loss: of outputs and targets; ``torch.nn.functional.mse_loss`` if the targets are no tokens.

    Raises:
        ValueError: a loss that is not finite; the message says at which step.

    Cost: ``steps`` forward and backward passes; the chapters' models take seconds.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    losses = []
    model.train()
    # On stdout and erased at the end: a notebook keeps no trace of the bar.
    for step in tqdm(range(steps), file=sys.stdout, leave=False, mininterval=0.5):
        batch = draw(generator)
        error = loss(model(*batch.inputs), batch.targets)
        if not error.isfinite():
            raise ValueError(
                f"the loss is {error.item()} at step {step}; try a smaller lr than {lr}"
            )
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        losses.append(error.item())
    model.eval()
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch) -> float:
    """Share of the targets, ignored ones left out, that the largest logit names."""
    model.eval()
    known = batch.targets != IGNORE
    right = model(*batch.inputs).argmax(dim=-1) == batch.targets
    return (right & known).sum().item() / known.sum().item()
