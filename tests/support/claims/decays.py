"""What must hold of decays: a factor of 0 is a reset, forwards and backwards; traced it is the same."""

import math
from unittest import mock

import torch

from attncourse import spec
from support.cases import Sizes, module
from support.cases.gated import sequence
from support.contracts import close, gradients


def with_resets(decays=(), d=4):
    """Tokens of three documents; with channels, some of them are reset elsewhere, too."""
    q, k, v, g = sequence(Sizes(n=11, d=d, e=3), decays)
    g[:, :, [0, 4, 5, 9]] = -math.inf
    if decays:
        g[:, :, 7, :2] = -math.inf
    return q, k, v, g


def calls(p):
    """Name -> function of queries, keys, values and log-decays."""
    gated, delta = module(p, "gated").gated_linear_attention, module(p, "delta").delta_rule
    beta = torch.linspace(0.2, 0.9, 11).double().expand(2, 3, 11)
    return {
        "gated": (lambda q, k, v, g, **o: gated(q, k, v, g, **o), None),
        "delta": (lambda q, k, v, g, **o: delta(q, k, v, beta, log_decay=g, **o), beta),
    }


def a_factor_of_0_forgets_what_came_before(p):
    """As the loops have it, in any chunks; what follows a reset is what a text that begins there reads."""
    for decays in ((), (4,)):
        inputs = [x.requires_grad_() for x in with_resets(decays)]
        for call, beta in calls(p).values():
            wanted = spec.state_space(*inputs, beta)
            for chunk in (1, 2, 3, 64, None):
                found = call(*inputs, return_state=True, chunk=chunk)
                close(found, wanted)
                sent = gradients(found, inputs)
                assert all(x.isfinite().all() for x in sent)
                close(sent[:3], gradients(wanted, inputs)[:3], atol=1e-11)
                assert not sent[3][inputs[3] == -math.inf].any()
            changed = [x.clone() for x in inputs]
            for x in changed:
                x[:, :, :9] -= 1.0
            close(call(*changed)[:, :, 9:], call(*inputs)[:, :, 9:])


def resets_are_found_or_reckoned_with(p):
    """Traced or batched nobody can look for resets, and the result is the same; one alone is found."""
    for decays in ((), (4,)):
        q, k, v, g = with_resets(decays)
        for call, _ in calls(p).values():
            for log_decay in (g, g.masked_fill(g == -math.inf, -0.5)):
                wanted = call(q, k, v, log_decay)
                with mock.patch("torch.compiler.is_compiling", return_value=True):
                    close(call(q, k, v, log_decay), wanted)
    q, k, v, g = with_resets()
    gated = calls(p)["gated"][0]
    several = [torch.stack([x, x.flip(0)]) for x in (q, k, v, g)]
    found = torch.vmap(gated)(*several)
    close(found[1], gated(*(x[1] for x in several)))


def a_decay_for_each_channel_is_read_in_short_chunks(p):
    check = module(p, "decays").check_sequence
    for decays, chunk in (((), 64), ((4,), 16)):
        q, k, v, g = with_resets(decays)
        assert check(q, k, v, g, None, None)[2] == chunk
        assert check(q, k, v, g, None, 5)[2] == 5


def layers_weigh_what_they_read_across_resets(p):
    q, k, v, g = with_resets((4,))
    gated, delta = module(p, "gated"), module(p, "delta")
    beta = calls(p)["delta"][1]
    close(gated.gated_weights(q, k, g) @ v, gated.gated_linear_attention(q, k, v, g))
    close(delta.delta_weights(q, k, beta, g) @ v, calls(p)["delta"][0](q, k, v, g))


def retention_forgets_less_head_by_head(p):
    kept = module(p, "gated").retention_decay(3).exp()
    close(kept, torch.tensor([1 - 1 / 32, 1 - 1 / 64, 1 - 1 / 128]), atol=1e-6)
