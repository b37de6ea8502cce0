"""What must hold beyond the contracts: rules, heads, costs, messages.

Like contracts, claims are functions of the package under test, which may be a mutant: every public function of these
files that takes ``p`` alone is one.
"""

import pytest
import torch


def decoded(p, layer, x, cache, sizes, **options):
    """What decoding ``x`` in chunks of these sizes gives, joined."""
    parts = [p.decoding.decode(layer, part, cache, **options) for part in x.split(sizes, 1)]
    return torch.cat(parts, dim=1)


def refused(error, *cases):
    """Each (message, call) raises, and says what was expected, what came, or what to do."""
    for message, call in cases:
        with pytest.raises(error, match=message):
            call()
