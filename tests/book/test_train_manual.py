"""What the language model is trained on: its text, its vocabulary, its passages."""

import runpy

import pytest
import torch
from support.book.notebooks import ROOT

from attncourse.lab.models import Tokenizer

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def tool():
    return runpy.run_path(str(ROOT / "tools" / "train_manual.py"))


def test_vocabulary_joins_what_stands_together_most_often(tool):
    pieces = tool["vocabulary"](["abab abab abab cd"], 9)
    assert pieces[0] == "<start>"
    assert {"a", "b", "c", "d", " ", "ab", "abab", " abab"} <= set(pieces)
    assert "cd" not in pieces
    tokenizer = Tokenizer(pieces)
    assert tokenizer.decode(tokenizer.encode("abab cd abab")) == "abab cd abab"
    assert len(tokenizer.encode(" abab")) == 1


def test_some_passages_repeat_themselves_and_the_others_are_the_text(tool):
    stream = torch.arange(1, 5000)
    passages = tool["sample"](stream, torch.Generator().manual_seed(0))
    again, text = passages[: tool["AGAIN"], 1:], passages[tool["AGAIN"] :, 1:]
    assert (passages[:, 0] == 0).all()
    assert (text.diff() == 1).all()
    low, high = tool["PERIODS"]
    periods = set()
    for row in again:
        period = (row == row[0]).nonzero()[1].item()
        assert low <= period < high
        assert row[period:].equal(row[:-period])
        periods.add(period)
    assert len(periods) > 1, "one distance for all could be learned without looking"
