"""The tokens that may be drawn against the filters of transformers' generation."""

import pytest
import torch
from support.contracts import close
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from attncourse.lab.models.generation import likely


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, None, None), (0.7, 5, None), (1.3, None, 0.6), (0.5, 7, 0.9), (1.0, 1, 1.0), (1.0, 50, 0.01)],
)  # fmt: skip
def test_what_may_be_drawn_is_what_transformers_draws_from(temperature, top_k, top_p):
    torch.manual_seed(0)
    logits = 3 * torch.randn(4, 23, dtype=torch.float64)
    filtered = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k is not None:
        filtered = TopKLogitsWarper(top_k)(None, filtered)
    if top_p is not None:
        filtered = TopPLogitsWarper(top_p)(None, filtered)
    close(likely(logits, temperature, top_k, top_p), filtered.softmax(-1), atol=1e-7)
