"""Which card is here, how fast something runs on it, and programs that Triton interprets."""

from functools import partial

import pytest
import torch
from support.cards import put

from attncourse.lab import cards, interpreter


@pytest.fixture
def card(monkeypatch):
    """``card(name, capability)`` puts that card into this machine."""
    return partial(put, monkeypatch)


def test_three_machines_are_told_apart(card, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cards.found()[0] == "none"
    card("Tesla T4", (7, 5))
    machine, sentence = cards.found()
    assert machine == "older"
    assert sentence.startswith("Tesla T4, compute capability 7.5:")
    card("NVIDIA A100", (8, 0))
    assert cards.found()[0] == "ampere"


def test_a_race_times_what_runs_and_says_why_the_rest_does_not(card):
    def broken():
        raise RuntimeError("No available kernel.\nA long story")

    assert cards.race({"fast": int}) == {"fast": "not timed: no GPU"}
    card("Tesla T4", (7, 5))
    result = cards.race({"fast": int, "broken": broken}, repeats=3)
    assert result["fast"].split() == ["2.00", "ms", "4", "MiB"], "the median, beyond what was there"
    assert result["broken"] == "cannot run: No available kernel."


def test_figures_of_the_makers_fit_together():
    for name, x in cards.CARDS.items():
        assert x.registers * x.multiprocessors < 2**20 * x.cache, name
        assert 400 < 2 * x.tflops / x.bandwidth < 600, name
    h100, h200 = (cards.CARDS[name]._replace(source="") for name in ("H100", "H200"))
    assert h200._replace(memory=80, bandwidth=3.35) == h100


def program():
    # comments before the first line are not part of it
    import os

    for name in ("TRITON_INTERPRET",):
        print(name, os.environ[name])


def failing():
    raise KeyError("nothing here")


def test_a_program_runs_in_a_process_that_interprets(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    monkeypatch.setattr(interpreter, "find_spec", lambda _: True)
    assert interpreter.interpreted(program) == "TRITON_INTERPRET 1"
    with pytest.raises(RuntimeError, match="(?s)failing failed:.*KeyError: 'nothing here'"):
        interpreter.interpreted(failing)


def test_without_triton_one_line_says_so(monkeypatch):
    monkeypatch.setattr(interpreter, "find_spec", lambda _: None)
    assert interpreter.interpreted(failing) == interpreter.MISSING
    assert "\n" not in interpreter.MISSING
