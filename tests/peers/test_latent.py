"""Latent attention against DeepSeek's layer of transformers, with and without compressed queries, whole and decoded."""

import pytest
import torch
from deepseek import deepseek
from support.contracts import close
from transformers import DynamicCache

from attncourse import decode, new_cache
from attncourse.variants.latent import LatentAttention

B, N, WIDTH = 2, 9, 24


@pytest.mark.parametrize("query_latent_dim", [None, 10])
def test_latent_attention_is_deepseeks(query_latent_dim):
    torch.manual_seed(0)
    ours = LatentAttention(WIDTH, 3, 8, 12, 4, query_latent_dim).double()
    theirs, angles = deepseek(ours)
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    at = torch.arange(N)[None]
    causal = torch.ones(N, N, dtype=torch.bool).tril()[None, None]
    expected = theirs(x, angles(x, at), causal)[0]
    # Their norms and angles are computed in float32.
    close(ours(x), expected, atol=1e-5)
    close(ours(x, absorbed=True), expected, atol=1e-5)

    kept, cache = DynamicCache(), new_cache(ours, B, N)
    for a, b in ((0, 5), (5, 6), (6, 9)):
        visible = torch.ones(b - a, b, dtype=torch.bool).tril(a)[None, None]
        row = theirs(x[:, a:b], angles(x, at[:, a:b]), visible, past_key_values=kept)[0]
        close(decode(ours, x[:, a:b], cache, absorbed=True), row, atol=1e-5)
