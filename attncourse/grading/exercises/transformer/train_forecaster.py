"""Exercise train_forecaster: a trained model that goes on with a noisy wave, judged on new ones."""

import math
from functools import partial

import torch
from torch import nn

from attncourse.grading.compare import Described
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.trained import drawn_like, facts_of, with_parameters

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


def signals(generator: torch.Generator, batch: int):
    """Noisy pasts (b, 24) and their next 8 values without noise: sines of period 4 to 16, any phase."""
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
    shape = tuple(getattr(said, "shape", ()))
    if shape != tuple(future.shape):
        return (f"a {type(said).__name__} of shape {shape}",)
    alone = torch.cat([model(past[k : k + 1].clone()) for k in range(3)])
    again = model(given)  # here it may change them
    same = torch.allclose(again, said, rtol=1e-2, atol=1e-2)
    finite = bool(said.isfinite().all())
    return (
        finite or "some are not finite",
        error(said, future) < THRESHOLD
        or describe(said.double().cpu(), past.double().cpu(), future),
        torch.allclose(alone, said[:3], rtol=1e-2, atol=1e-2)
        or ("no" if same else "no; asked twice, it forecasts something else"),
        skill(model, past, future, said, generator),
    )


def error(said, future) -> float:
    return (said.double().cpu() - future).square().mean().item()


def likeness(said, future) -> float:
    """The cosine of all forecasts and all values: 1 also for a forecast times any number."""
    return torch.cosine_similarity(
        said.double().cpu().flatten(), future.double().flatten(), 0
    ).item()


def skill(model, past, future, said, generator):
    """True when other parameters forecast nothing, but almost the same parameters do."""
    own = [p.data for p in model.parameters()]
    drawn = drawn_like(model, generator)
    for factor in (0, 1, -1):
        other = with_parameters(model, [factor * p for p in drawn], past)
        if error(other, future) < 0.35 or abs(likeness(other, future)) > 0.85:
            return f"with all parameters {'drawn at random' if factor else 'set to 0'} it still forecasts"
    nudged = [p * (1 + 1e-4 * x) for p, x in zip(own, drawn, strict=True)]
    for words, numbers in ("all parameters changed by a ten-thousandth", nudged), ("the same", own):
        again = with_parameters(model, numbers, past)
        if (again - said).square().mean() > 0.02:
            return f"with {words} it forecasts something else"
    return True


def linear_fit() -> torch.Tensor:
    """The best linear forecast, (24, 8), of 4,000 signals."""
    past, future = signals(torch.Generator().manual_seed(7), 4000)
    return torch.linalg.lstsq(past, future).solution


def describe(said, past, future) -> Described:
    """What the wrong forecasts look like."""
    found, best = error(said, future), linear_fit().double()
    looks = {
        "it repeats the last value": past[:, -1:].expand_as(future),
        "it is one step late": torch.cat([past[:, -1:], future[:, :-1]], 1),
        "it is in the opposite order": future.flip(1),
        "it gives back the past": past[:, -HORIZON:],
        "it says about 0 for everything": torch.zeros_like(future),
    }
    for words, other in looks.items():
        if error(said, other.double()) < 0.03:
            return Described(f"{words}: mean squared error {found:.2f}")
    if error(said, past @ best) < 0.03:
        return Described(f"it is about the best linear forecast: mean squared error {found:.2f}")
    words = "it is not there yet" if found < 0.5 else "it is hardly better than to say 0"
    return Described(f"{words}: mean squared error {found:.2f}")


class Bank(nn.Module):
    """Compares the past with waves of many periods, and goes on with those that fit; set by hand.

    As attention does: the past asks, a period answers with how well it fits, and the forecasts are mixed.
    """

    def __init__(
        self, periods=48, sharp=12.0, wrong=lambda forecast, past: forecast, parameters=True
    ):
        super().__init__()
        grid = 2 * math.pi / torch.linspace(4, 16, periods)
        waves = torch.stack([grid[:, None] * torch.arange(LENGTH + HORIZON)], 0)
        basis = torch.stack([waves[0].sin(), waves[0].cos()], -1)  # periods, time, 2
        fit, goes_on = torch.linalg.pinv(basis[:, :LENGTH]), basis[:, LENGTH:]
        for name, x in (("fit", fit), ("past", basis[:, :LENGTH]), ("goes_on", goes_on)):
            x = x.contiguous()
            self.register_parameter(name, nn.Parameter(x)) if parameters else self.register_buffer(
                name, x
            )
        self.sharp, self.wrong = sharp, wrong

    def forward(self, x):
        found = torch.einsum("kct,bt->bkc", self.fit, x)
        left = (x[:, None] - torch.einsum("ktc,bkc->bkt", self.past, found)).square().sum(-1)
        weights = torch.softmax(-self.sharp * left, dim=-1)
        return self.wrong(torch.einsum("bk,ktc,bkc->bt", weights, self.goes_on, found), x)


class Scaled(nn.Module):
    """A rule that is written down, times a parameter for show."""

    def __init__(self):
        super().__init__()
        self.rule, self.scale = Bank(parameters=False), nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.rule(x) * self.scale.mean()


class Linear(nn.Module):
    """One matrix for all signals."""

    def __init__(self, matrix, wrong=lambda forecast, past: forecast):
        super().__init__()
        self.matrix, self.wrong = nn.Parameter(matrix.clone()), wrong

    def forward(self, x):
        return self.wrong(x @ self.matrix, x)


ACCEPTED = Accepted(
    periods_mixed=Bank(),
    best_period_only=Bank(sharp=1e4),
    double_precision=nn.Sequential(nn.Identity(), Bank(32)).double().float(),
    other_grid=Bank(periods=97, sharp=6.0),
)

LAST = torch.zeros(LENGTH, HORIZON)
LAST[-1] = 1.0
UNTRAINED = Linear(0.1 * torch.randn(LENGTH, HORIZON, generator=torch.Generator().manual_seed(3)))
MISTAKES = Mistakes(Mistake(says, model) for says, model in (
    ("This is the class; check an instance.", Bank),
    ("This is a function; wrap it in a torch.nn.Module with parameters.", torch.sin),
    ("It repeats the last value, which has an error of 1.20; it must read the period.", Linear(LAST)),
    ("It is as good as the best linear forecast and no better; one matrix for all signals cannot know the period.",
     Linear(linear_fit())),
    ("Its error is no smaller than that of saying 0, which is 0.50. Is it trained, on new signals in every step and with the "
     "next 8 values as the target?", UNTRAINED),
    ("It says about 0 for every signal; is the loss the mean over a batch that cancels, or the learning rate too large?",
     Linear(torch.zeros(LENGTH, HORIZON))),
    *((says, Bank(wrong=change)) for says, change in (
        ("The forecast is one step late: the first value to forecast is the one after the last that was given.",
         lambda y, x: torch.cat([x[:, -1:], y[:, :-1]], 1)),
        ("The forecast stands in the opposite order; the nearest value comes first.", lambda y, x: y.flip(1)),
        ("It gives back the last 8 values of the past; forecast the 8 that follow.", lambda y, x: x[:, -HORIZON:]),
        ("Only the next value is forecast; return 8.", lambda y, x: y[:, :1]),
        ("All positions are answered, (batch, 24); read the 8 values off the last position.",
         lambda y, x: x.flip(1)),
        ("There is an axis too many: the shape is (batch, 8).", lambda y, x: y[..., None]),
        ("Forecasts and something else come out together; return the forecasts alone.", lambda y, x: (y, None)),
        ("Some forecasts are not finite. Has the training diverged?", lambda y, x: y / (x[:, :1] > -9).float().sub(1)),
        ("The forecast differs from one call to the next: something random is left in forward in evaluation mode.",
         lambda y, x: y + 0.2 * torch.randn_like(y)),
        ("A signal's forecast depends on the others in its batch; normalize each signal by itself.",
         lambda y, x: y - y.mean(0) + 0.1 * y.std(0, correction=0)),
        ("forward changes the signals of its caller in place.", lambda y, x: (y, x.mul_(0.5))[0]),
        ("It learned, but not enough: train longer, or with another learning rate.",
         lambda y, x: 0.3 * y),
    )),
    ("The answer is written into forward, or it sits where model.parameters() does not see it.",
     Bank(parameters=False)),
    ("The answer is written into forward; a parameter only scales it.", Scaled()),
    ("The model has more than 50,000 parameters; a narrower one is enough.", Bank(periods=700)),
))  # fmt: skip

EXERCISE = Exercise(
    name="train_forecaster",
    answer="forecaster",
    judge=Facts(facts, NAMES),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
