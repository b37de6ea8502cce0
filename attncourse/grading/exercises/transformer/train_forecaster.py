"""Exercise train_forecaster: a trained model that goes on with a noisy wave, judged on new ones."""

from functools import partial

import torch
from torch import nn

from attncourse.grading.exercise import Described, Exercise, seeded
from attncourse.grading.explain.trainings import meaning_of_facts, said_instead
from attncourse.grading.trained import answered, cannot, independent, judged, skill, unread

LENGTH, HORIZON, NOISE, MAX_PARAMETERS, THRESHOLD = 24, 8, 0.2, 50_000, 0.2
FACTS = (
    f"forecasts have shape (batch, {HORIZON}) and are finite",
    "a signal gets the same forecast alone and in a batch",
    f"mean squared error on new signals is below {THRESHOLD}",
    "the skill sits in the parameters",
)
MEANINGS = (
    ("best linear", "One matrix cannot know every signal's period."),
    ("says about 0", "It says about 0, which is the mean of all signals: does the loss compare "
     "each forecast with its own future, in tensors of one shape? Is the learning rate too large?"),
    ("same of every", "What it says does not depend on the signal: has the training diverged, as "
     "with too large a learning rate, or is the signal never read?"),
    ("no better than", "On new signals it is no better than to say 0. Is it trained; on new "
     "signals in every step, or are a few learned by heart; and towards the 8 values that follow, "
     "each forecast towards its own?"),
)  # fmt: skip


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return signals(seeded(seed), 600)


def signals(generator: torch.Generator, batch: int):
    """Noisy pasts (b, 24) and their next 8 values without noise: sines of period 4 to 16."""
    period = 4 + 12 * torch.rand(batch, 1, generator=generator)
    turns = torch.arange(LENGTH + HORIZON) / period + torch.rand(batch, 1, generator=generator)
    clean = torch.sin(2 * torch.pi * turns)
    past = clean[:, :LENGTH] + NOISE * torch.randn(batch, LENGTH, generator=generator)
    return past, clean[:, LENGTH:]


def judge(model, given, seed: int):
    """Shape, independence of the batch, error, and whether other parameters know nothing."""
    past, future, said = given.clone(), drawn(seed)[1], model(given.clone())
    yield answered(said, tuple(future.shape), model)
    yield independent(model, given, said, partial(torch.allclose, rtol=1e-2, atol=1e-2))
    found = said.double().cpu()
    yield error(said, future) < THRESHOLD or described(model, found, past, future)
    yield skill(model, past, seeded(seed, "parameters"), partial(knows, future),
                moved=lambda x: error(x, found) > 0.02, by=1e-4)  # fmt: skip


def knows(future, said) -> bool:
    both = said.double().cpu().flatten(), future.double().flatten()
    return error(said, future) < 0.35 or bool(torch.cosine_similarity(*both, 0).abs() > 0.85)


def error(said, future) -> float:
    return (said.double().cpu() - future).square().mean().item()


def described(model, said, past, future) -> Described:
    """What the wrong forecasts look like."""
    fit = torch.linalg.lstsq(*signals(torch.Generator().manual_seed(7), 4000)).solution
    looks = {
        "it repeats the last value": past[:, -1:].expand_as(future),
        "it repeats the last 8 values": past[:, -HORIZON:],
        "it says the first 8 values": past[:, :HORIZON],
        "it says about 0 for everything": torch.zeros_like(future),
        "it is about the best linear forecast": past @ fit,
    }
    off = error(said, future)
    words = said_instead(said, future, looks, lambda x, y: error(x, y) < 0.03)
    few, every = past[:32], torch.ones(LENGTH, HORIZON)
    words = words or cannot(model, lambda: unread(model, few, few + 1, every))
    other = f"it is {'not there yet' if off < 0.5 else 'no better than to say 0'}"
    return Described(f"{words or other}: mean squared error {off:.2f}")


class Bank(nn.Module):
    """Goes on with waves of many periods, and mixes those that fit the past; set by hand."""

    def __init__(self, periods=48, sharp=12.0):
        super().__init__()
        angles = torch.outer(2 * torch.pi / torch.linspace(4, 16, periods), torch.arange(32.0))
        waves = torch.stack([angles.sin(), angles.cos()], -1)
        self.waves, self.sharp = nn.Parameter(waves @ waves[:, :LENGTH].pinverse()), sharp

    def forward(self, x):
        past, future = torch.einsum("ktn,bn->bkt", self.waves, x).split([LENGTH, HORIZON], -1)
        fits = -self.sharp * (past - x[:, None]).square().sum(-1)
        return torch.einsum("bk,bkt->bt", fits.softmax(-1), future)


EXERCISE = Exercise(
    name="train_forecaster",
    answer="forecaster",
    judge=judged(judge, FACTS, MAX_PARAMETERS, lambda seed: drawn(seed)[0], "signals"),
    right=Bank(),
    explain=(meaning_of_facts(*MEANINGS),),
    asks_for="model",
)
