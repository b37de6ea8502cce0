"""What must hold of feature maps: they are saved, copied, exact where small, and held where no float holds them."""

import copy
import io
import pickle
import warnings
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module
from support.contracts import close


def elu_plus_one_is_exact_and_has_one_slope(p):
    """Also where exp(x) is small; its slope at 0 is 1; traced, batched, and forwards it is the same."""
    elu = module(p, "features").elu_plus_one
    x = torch.tensor([-80.0, -20.0, -1.0, 0.0, 1e-9, 1.0, 30.0]).requires_grad_()
    for compiling in (False, True):
        with mock.patch("torch.compiler.is_compiling", return_value=compiling):
            y = elu(x)
            close(y, torch.where(x > 0, x + 1, torch.exp(x)), rtol=1e-6)
            (slope,) = torch.autograd.grad(y.sum(), x)
            close(slope, torch.where(x > 0, torch.ones_like(x), torch.exp(x)).detach(), rtol=1e-6)
    rows = torch.randn(3, 4).double()
    close(torch.vmap(elu)(rows), elu(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch, about itself
        _, moved = torch.func.jvp(elu, (rows,), (torch.ones_like(rows),))
    close(moved, elu(rows).clamp(max=1))
    assert torch.autograd.gradgradcheck(elu, rows.abs().neg().requires_grad_())


def directions_are_saved_and_copied(p):
    features, linear = module(p, "features"), module(p, "linear")
    torch.manual_seed(0)
    one, other = (
        linear.LinearAttention(12, 3, features.random_features(4, 6)).double() for _ in range(2)
    )
    (x,) = draw((2, 5, 12))
    assert "feature_map.directions" in one.state_dict()
    assert "feature_map.directions" not in dict(one.named_parameters())
    other.load_state_dict(one.state_dict())
    close(other(x), one(x))
    close(copy.deepcopy(one)(x), one(x))
    if not hasattr(p, "features"):  # a private copy of the package cannot be imported by its name
        close(pickle.loads(pickle.dumps(one))(x), one(x))
    file = io.BytesIO()
    torch.save(one.state_dict(), file)


def long_vectors_have_features_that_no_float_holds(p):
    """At eight times the usual size no row is 0, both ways, causal, with padding; float32 as the logarithms have it."""
    linear = module(p, "linear")
    torch.manual_seed(0)
    features = linear.random_features(64, 96)
    q, k, v = (
        8 * torch.randn(1, 2, 24, 64),
        8 * torch.randn(1, 2, 24, 64),
        torch.randn(1, 2, 24, 3),
    )
    assert (features(q) == 0).all(-1).float().mean() > 0.5, "there is something to hold"
    exact = [x.double() for x in (q, k, v)]
    for causal in (False, True):
        options = {"is_causal": causal, "feature_map": features}
        output = linear.linear_attention(q, k, v, **options)
        weights = linear.linear_weights(q, k, **options)
        known = spec.random_feature_attention(*exact, features.directions, is_causal=causal)
        assert output.any(-1).all()
        close(output.double(), known[0], rtol=2e-3, atol=2e-3)
        close(weights.double(), known[1], rtol=2e-3, atol=2e-3)
        close(weights.sum(-1), torch.ones(1, 2, 24), atol=1e-5)


def padding_is_no_largest_feature(p):
    """Padded keys, however they look, change nothing: left and right, all of them, gradients too."""
    linear = module(p, "linear")
    features = linear.random_features(4, 6, torch.Generator().manual_seed(0))
    q, k, v = (x.requires_grad_() for x in draw((1, 2, 7, 4), (1, 2, 7, 4), (1, 2, 7, 3)))
    loud = k.detach().clone()
    for real in (slice(3, 7), slice(0, 4)):
        mask = torch.zeros(1, 7, dtype=torch.bool)
        mask[:, real] = True
        loud = torch.where(mask[..., None], k.detach(), 0 * k).requires_grad_()
        for causal in (False, True):
            for feature_map in (features, linear.elu_plus_one):
                options = {"is_causal": causal, "feature_map": feature_map}
                alone = linear.linear_attention(*(x[:, :, real] for x in (q, k, v)), **options)
                for keys in (k, loud):
                    found = linear.linear_attention(q, keys, v, key_mask=mask, **options)
                    close(found[:, :, real], alone)
                    weights = linear.linear_weights(q, keys, key_mask=mask, **options)
                    close((weights @ v)[:, :, real], alone)
                    sent = torch.autograd.grad(found.sum(), (q, keys, v), retain_graph=True)
                    assert all(x.isfinite().all() for x in sent)
                nothing = linear.linear_attention(q, k, v, key_mask=mask & False, **options)
                assert not nothing.any()


def a_state_is_made_of_features_as_they_are(p):
    """Scaled features do not add up with those of another call."""
    linear = module(p, "linear")
    features = linear.random_features(4, 6, torch.Generator().manual_seed(0))
    q, k, v = draw((1, 2, 8, 4), (1, 2, 8, 4), (1, 2, 8, 3))
    options = {"is_causal": True, "feature_map": features}
    wanted = linear.linear_attention(q, k, v, **options)
    first, state = linear.linear_attention(
        *(x[:, :, :5] for x in (q, k, v)), return_state=True, **options
    )
    rest = linear.linear_attention(*(x[:, :, 5:] for x in (q, k, v)), state=state, **options)
    close(torch.cat([first, rest], 2), wanted)
    close(state[..., :3], (features(k[:, :, :5]).mT @ v[:, :, :5]))


def random_features_average_the_exponential(p):
    linear = module(p, "linear")
    q, k = (x / 2 for x in draw((1, 1, 3, 6), (1, 1, 4, 6)))
    exact = torch.exp(q @ k.mT / 6**0.5)
    generator = torch.Generator().manual_seed(0)
    features = linear.random_features(6, 6 * 4000, generator)
    close(features(q) @ features(k).mT, exact, rtol=0.05)
    assert features(q).shape == (1, 1, 3, 24000)
    assert linear.random_features(6, 7)(q).shape == (1, 1, 3, 7)
    first = linear.random_features(6, 6, torch.Generator().manual_seed(1))
    close(first(q), linear.random_features(6, 6, torch.Generator().manual_seed(1))(q))


def features_that_are_all_0_read_0(p):
    linear = module(p, "linear")
    q, k, v = (x.requires_grad_() for x in draw((1, 1, 3, 4), (1, 1, 3, 4), (1, 1, 3, 5)))
    for is_causal in (False, True):
        options = {"is_causal": is_causal, "feature_map": F.relu}
        output = linear.linear_attention(-q.abs(), k, v, **options)
        weights = linear.linear_weights(-q.abs(), k, **options)
        assert not output.any()
        assert not weights.any()
        found = torch.autograd.grad((output.sum() + weights.sum()), (q, k, v))
        assert all(x.isfinite().all() for x in found)


def a_learned_map_may_have_another_dtype(p):
    learned = torch.nn.Linear(4, 6).half()
    features = module(p, "features")
    q = torch.randn(1, 1, 3, 4)
    found, _, _ = features.paired_features(learned, q, q)
    assert found.dtype == torch.float32
    with pytest.raises(RuntimeError):
        learned(q)
