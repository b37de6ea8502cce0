"""Exercise train_forecaster: a trained model that goes on with a noisy wave, judged on new ones."""

import math
from functools import partial

import torch
from torch import nn

from attncourse.grading.compare import Described
from attncourse.grading.exercise import Exercise, Facts
from attncourse.grading.explain.trainings import meaning_of_facts, said_instead
from attncourse.grading.inputs import seeded
from attncourse.grading.trained import facts_of, skill

LENGTH, HORIZON, NOISE, MAX_PARAMETERS, THRESHOLD = 24, 8, 0.2, 50_000, 0.2
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MAX_PARAMETERS:,} numbers",
    f"forecasts have shape (batch, {HORIZON}) and are finite",
    f"mean squared error on new signals is below {THRESHOLD}",
    "a signal gets the same forecast alone and in a batch",
    "the skill sits in the parameters",
    "signals left unchanged",
)
LINE = "It is as good as the best linear forecast; one matrix for all cannot know the period."
MEANINGS = (
    ("repeats the last", "It repeats the last value; it must read the period."),
    ("best linear", LINE),
    (
        "about 0",
        "It says about 0: is the loss a mean that cancels, or the learning rate too large?",
    ),
)


def signals(generator: torch.Generator, batch: int):
    """Noisy pasts (b, 24) and their next 8 values without noise: sines of period 4 to 16."""
    time = torch.arange(LENGTH + HORIZON)
    period = 4 + 12 * torch.rand(batch, 1, generator=generator)
    phase = 2 * math.pi * torch.rand(batch, 1, generator=generator)
    clean = torch.sin(2 * math.pi * time / period + phase)
    past = clean[:, :LENGTH] + NOISE * torch.randn(batch, LENGTH, generator=generator)
    return past, clean[:, LENGTH:]


def facts(model, seed: int) -> dict:
    """What the model does on signals that it has not seen."""
    past, future = signals(seeded(seed), 600)
    rest = partial(judge, future=future, generator=seeded(seed, "parameters"))
    return facts_of(model, NAMES, MAX_PARAMETERS, past, rest)


def judge(model, past, future, generator) -> tuple:
    """Shape, error, independence of the batch, and whether other parameters know nothing."""
    given, past = past, past.clone()
    said = model(past.clone())
    if tuple(getattr(said, "shape", ())) != tuple(future.shape):
        return (f"a {type(said).__name__} of shape {tuple(getattr(said, 'shape', ()))}",)
    alone = torch.cat([model(past[k : k + 1].clone()) for k in range(3)])
    again = model(given)  # here it may change them
    alike = [torch.allclose(x, y, 1e-2, 1e-2) for x, y in ((alone, said[:3]), (again, said))]
    return (
        bool(said.isfinite().all()) or "some are not finite",
        error(said, future) < THRESHOLD or described(said.cpu(), past.cpu(), future),
        alike[0] or ("no" if alike[1] else "no; asked twice, it says something else"),
        skill(model, past, generator, partial(knows, future), partial(moved, said), by=1e-4),
    )


def knows(future, said) -> bool:
    """Is this close to the future, or to the future times any number?"""
    cosine = torch.cosine_similarity(said.double().cpu().flatten(), future.double().flatten(), 0)
    return error(said, future) < 0.35 or bool(cosine.abs() > 0.85)


def moved(said, again) -> bool:
    return bool((again - said).square().mean() > 0.02)


def error(said, future) -> float:
    return (said.double().cpu() - future).square().mean().item()


def described(said, past, future) -> Described:
    """What the wrong forecasts look like."""
    fit = torch.linalg.lstsq(*signals(torch.Generator().manual_seed(7), 4000)).solution
    looks = {
        "it repeats the last value": past[:, -1:].expand_as(future),
        "it is one step late": torch.cat([past[:, -1:], future[:, :-1]], 1),
        "it gives back the past": past[:, -HORIZON:],
        "it says about 0 for everything": torch.zeros_like(future),
        "it is about the best linear forecast": past @ fit,
    }
    found = error(said, future)
    words = said_instead(said, future, looks, lambda x, y: error(x, y.double()) < 0.03)
    other = "it is not there yet" if found < 0.5 else "it is no better than to say 0"
    return Described(f"{words or other}: mean squared error {found:.2f}")


class Bank(nn.Module):
    """Goes on with waves of many periods, and mixes those that fit the past; set by hand."""

    def __init__(self, periods=48, sharp=12.0):
        super().__init__()
        speeds = 2 * math.pi / torch.linspace(4, 16, periods)
        angles = speeds[:, None] * torch.arange(LENGTH + HORIZON)
        waves = torch.stack([angles.sin(), angles.cos()], -1)
        self.waves = nn.Parameter(waves @ torch.linalg.pinv(waves[:, :LENGTH]))
        self.sharp = sharp

    def forward(self, x):
        past, future = torch.einsum("ktn,bn->bkt", self.waves, x).split([LENGTH, HORIZON], -1)
        fits = -self.sharp * (past - x[:, None]).square().sum(-1)
        return torch.einsum("bk,bkt->bt", fits.softmax(-1), future)


EXERCISE = Exercise(
    name="train_forecaster",
    answer="forecaster",
    judge=Facts(facts, NAMES),
    right=Bank(),
    explain=(meaning_of_facts(*MEANINGS),),
    asks_for="model",
    measures=("parameters", "training"),
)
