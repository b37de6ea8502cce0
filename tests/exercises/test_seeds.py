"""Seeds of the grader of a class: all their bits count, and what is drawn for one thing tells nothing of another."""

from itertools import combinations

import pytest
import torch

from attncourse.grading import load, names
from attncourse.grading.exercise import cases_of
from attncourse.grading.inputs import TWISTER, seeded

SEED = 0xA77E_0000_0000_0000_1234_5678_9ABC_DEF0
JUDGED = [name for name in names() if not load(name).left_out()]


def numbers(seed, *labels):
    return torch.rand(8, generator=seeded(seed, *labels))


@pytest.mark.quick
def test_a_small_seed_is_the_one_of_torch():
    for seed in 0, 7, 0x5EED_0000, 2**62:
        drawn = torch.rand(8, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(numbers(seed), drawn)
        assert not torch.equal(numbers(seed, "x"), drawn)


@pytest.mark.quick
def test_every_bit_of_a_large_seed_counts():
    drawn = [numbers(SEED), *(numbers(SEED ^ 1 << bit) for bit in range(128))]
    assert all(not torch.equal(a, b) for a, b in combinations(drawn, 2))
    assert torch.equal(numbers(SEED), numbers(SEED))


@pytest.mark.quick
def test_a_large_seed_fills_the_whole_state():
    """A state that torch makes of 32 bits follows from its first word, by the recurrence of MT19937."""

    def follows(generator):
        words = generator.get_state().view(torch.int64)[TWISTER].tolist()
        made = [(1812433253 * (w ^ w >> 30) + k) % 2**32 for k, w in enumerate(words[:-1], 1)]
        assert len(words) == 624 == len(set(words))
        assert all(0 <= word < 2**32 for word in words)
        return sum(a == b for a, b in zip(made, words[1:], strict=True))

    assert follows(torch.Generator().manual_seed(SEED >> 65)) == 623
    assert follows(seeded(SEED)) == follows(seeded(SEED, "x")) == 0


@pytest.mark.quick
def test_labels_are_apart():
    labels = [(), ("x",), ("y",), ("x", "y"), ("xy",), (1,), (11,), (1, 1)]
    drawn = [numbers(SEED, *each) for each in labels]
    assert all(not torch.equal(a, b) for a, b in combinations(drawn, 2))


@pytest.mark.quick
def test_numbers_are_evenly_spread():
    x = torch.rand(100_000, generator=seeded(SEED))
    assert abs(x.mean() - 0.5) < 0.005
    assert (torch.histc(x, 10, 0, 1) / 10_000 - 1).abs().max() < 0.05


def tensors(cases):
    given = [x for case in cases for x in (*case.args, *case.kwargs.values())]
    return [x for x in given if isinstance(x, torch.Tensor)]


def asking(judge):
    """The judge of an exercise that lists cases, if there is one."""
    judge = getattr(judge, "calls", judge)
    return judge if hasattr(judge, "cases") else None


@pytest.mark.parametrize("name", [x for x in JUDGED if asking(load(x).judge)])
def test_the_upper_half_of_a_seed_changes_the_inputs(name):
    judge = asking(load(name).judge)
    few, one, other = (tensors(cases_of(judge, seed)) for seed in (1, SEED, SEED ^ 1 << 100))
    pairs = zip(one, other, strict=False)
    changed = any(x.shape != y.shape or not torch.equal(x, y) for x, y in pairs)
    fixed = not any(x.is_floating_point() for x in few)  # masks and whole numbers may be the same
    assert changed or len(one) != len(other) or fixed


def test_what_leaks_cannot_be_told_from_the_order_or_from_another_model():
    judge = load("find_the_leak").judge
    one, same, other = (cases_of(judge, seed) for seed in (SEED, SEED ^ 1 << 64, SEED + 1))
    orders = [[case.label for case in cases] for cases in (one, same, other)]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert all(not torch.equal(a.args[1], b.args[1]) for a, b in combinations(one, 2))
    x = {case.label: case.args for case in one}
    again = {case.label: case.args for case in judge.cases(SEED)}
    for label, (model, given) in x.items():
        assert torch.equal(model(given), again[label][0](given)), label
