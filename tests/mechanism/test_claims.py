"""Claims about rules, heads, costs and messages; and that shapes are checked while tests run."""

import pytest
import torch
from support.mutants.package import build
from support.registered import CLAIMS

import attncourse

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_claim(claim):
    claim(build())


def test_shapes_are_checked_under_test():
    x = torch.randn(2, 5, 12)
    with pytest.raises(Exception, match="Type-check error") as caught:
        attncourse.split_heads(x[0], 3)
    assert "split_heads" in str(caught.value)


def test_fresh_memory_is_nan():
    assert torch.empty(3).isnan().all()
    assert torch.empty_like(torch.ones(3)).isnan().all()
