"""Judges that look at models and caches: what cannot be compared is told, and is no error of the answer."""

import pytest
import torch
from torch import nn

from attncourse.grading import load
from attncourse.grading.exercises.capstone._text import CHARACTERS, Table, manual


class Squeezed(nn.Module):
    """A right model that returns one sample without its batch."""

    def __init__(self, right):
        super().__init__()
        self.right = right

    def forward(self, x):
        return self.right(x).squeeze()


@pytest.mark.parametrize("name", ["train_reversal", "train_forecaster", "longer", "trained"])
def test_a_sample_in_another_shape_is_told(name):
    verdict = load(name).grade(Squeezed(load(name).right))
    assert verdict.status == "failed"
    assert "it should be a tensor of shape (1, " in verdict.findings[0]
    assert not any("raised" in line or "sizes" in line for line in verdict.findings)


@pytest.mark.parametrize(
    "name", ["train_reversal", "train_forecaster", "longer", "trained", "decoder"]
)
def test_arrays_are_told(name):
    right = load(name).right

    class Array(right if isinstance(right, type) else Squeezed):
        def forward(self, *given):
            return (super().forward(*given)).detach().numpy()

    verdict = load(name).grade(Array if isinstance(right, type) else Array(right))
    assert "a ndarray of shape" in verdict.findings[0]


def test_infinite_logits_of_finite_parameters_are_made_in_forward():
    right = load("train_reversal").right

    class Hides(Squeezed):
        def forward(self, tokens):
            absent = (tokens[:, :, None] == torch.arange(20)).sum(1) == 0
            return self.right(tokens).masked_fill(absent[:, None], -torch.inf)

    assert "All parameters are finite" in load("train_reversal").grade(Hides(right)).findings[0]
    broken = type(right)()
    broken.say.data.fill_(torch.nan)
    assert "the training diverged" in load("train_reversal").grade(broken).findings[0]


def test_who_learned_what_was_held_out_is_found_out():
    model, text = Table(recent=0.0), manual()[1]
    counts = torch.full((Table.KINDS, CHARACTERS, CHARACTERS), 1e-2)
    counts.index_put_(
        (text[:-2] % Table.KINDS, text[1:-1], text[2:]), torch.ones(len(text) - 2), accumulate=True
    )
    model.table.data = counts.log()
    assert "better than what it should have learned" in load("trained").grade(model).findings[0]


class Caches:
    """Right answers but for one alias, or one write."""

    class Keeps(load("append").right):
        def append(self, new):
            if self.length == 0 and new.size(2) == self.memory.size(2):
                self.memory, self.length = new, new.size(2)
                return new
            return super().append(new)

    class Grows(load("append").right):
        def append(self, new):
            self.memory = self.memory.clone() if self.length == 3 else self.memory
            return super().append(new)

    class Scatters(load("rolling_cache").right):
        def append(self, new):
            window, n = self.memory.size(2), new.size(2)
            self.memory[:, :, torch.arange(self.length, self.length + n) % window] = new
            self.length += n
            slots, last = torch.arange(min(self.length, window)), self.length - 1
            return self.memory[:, :, : len(slots)], last - (last - slots) % window


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("append", Caches.Keeps, "overwritten after their call"),
        ("append", Caches.Grows, "does not appear in earlier ones"),
        ("rolling_cache", Caches.Scatters, "torch leaves open"),
    ],
)
def test_aliases_and_doubled_indices_are_seen(name, kind, says):
    assert says in load(name).grade(kind).findings[0]
