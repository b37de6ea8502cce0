"""What must hold for states that decay or are corrected, beyond the contracts: chunks, cuts, strong decays, messages."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Sizes, draw, module
from support.cases.gated import sequence
from support.claims import refused
from support.contracts import close


def ways(p, s, decays):
    """(call, loops) of the gated rule and of the delta rule on the same tokens; a call takes slices of them."""
    q, k, v, g = sequence(s, decays)
    beta = torch.sigmoid(draw((s.b, s.h, s.n))[0])
    gated, delta = module(p, "gated").gated_linear_attention, module(p, "delta").delta_rule

    def plain(at, **options):
        return gated(*(x[:, :, at] for x in (q, k, v, g)), return_state=True, **options)

    def corrected(at, **options):
        parts = (x[:, :, at] for x in (q, k, v, beta))
        return delta(*parts, log_decay=g[:, :, at], return_state=True, **options)

    loops = [spec.state_space(q, k, v, g, *more, scale=0.3) for more in ((), (beta,))]
    return list(zip((plain, corrected), loops, strict=True))


def chunks_and_cuts_leave_the_state_as_it_is(p):
    """Any chunk and any cut gives what one token after the other gives, the last state too."""
    for decays in ((), (4,)):
        for call, wanted in ways(p, Sizes(n=11, d=4, e=3), decays):
            for chunk in (1, 4, 64):
                options = {"chunk": chunk, "scale": 0.3}
                close(call(slice(None), **options), wanted)
                first, state = call(slice(0, 5), **options)
                rest, state = call(slice(5, None), state=state, **options)
                close((torch.cat([first, rest], 2), state), wanted)


def strong_decays_do_not_overflow(p):
    """A token that forgets nearly everything: in float32, with gradients, as the loops have it in float64."""
    rule, delta = module(p, "gated").gated_linear_attention, module(p, "delta").delta_rule
    ones = torch.ones(2, 3, 9)
    for decays in ((), (4,)):
        q, k, v, g = sequence(Sizes(n=9, d=4, e=3), decays)
        for beta, call in ((None, rule), (ones.double(), partial(delta_last, delta, ones))):
            single = [x.float().requires_grad_() for x in (q, k, v, 200 * g)]
            output = call(*single)
            close(output.double(), spec.state_space(q, k, v, 200 * g, beta)[0], atol=1e-5)
            found = torch.autograd.grad(output.sum(), single)
            assert all(x.isfinite().all() for x in found)


def delta_last(delta, beta, q, k, v, g):
    return delta(q, k, v, beta, log_decay=g)


def delta_replaces_what_linear_adds(p):
    """Write two values at one key, read it: the last value, not the sum."""
    key = F.normalize(torch.ones(1, 1, 2, 4).double(), dim=-1)
    value = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()[None, None]
    ones = torch.ones(1, 1, 2).double()
    replaced = module(p, "delta").delta_rule(key, key, value, ones, scale=1.0)[0, 0, -1]
    added = module(p, "gated").gated_linear_attention(key, key, value, 0 * ones, scale=1.0)
    close(replaced, value[0, 0, 1])
    close(added[0, 0, -1], value[0, 0].sum(0))


def layers(p):
    """One of each kind, plain and with all that the released ones have."""
    gated, delta = module(p, "gated").GatedLinearAttention, module(p, "delta")
    released = {"num_qk_heads": 1, "conv_size": 3, "chunk": 2}
    torch.manual_seed(0)
    made = [
        *(make(12, 3, per_channel=per_channel, chunk=2) for make in (gated, delta.GatedDeltaAttention) for per_channel in (False, True)),
        gated(12, 3, gate="silu", **released),
        delta.GatedDeltaAttention(12, 3, gate="sigmoid", **released),
        delta.DeltaAttention(12, 3, gate="silu", **released),
    ]  # fmt: skip
    return [layer.double() for layer in made]


def padding_leaves_the_state_as_it_is(p):
    """Real tokens read what they would read without it, left or right, and so does what follows."""
    (x,) = draw((1, 9, 12))
    mask = torch.zeros(1, 1, 1, 9, dtype=torch.bool)
    for real in (slice(3, 9), slice(0, 6)):
        mask = torch.zeros(1, 1, 1, 9, dtype=torch.bool)
        mask[..., real] = True
        for layer in layers(p):
            wanted = layer(x[:, real], need_weights=True)
            out, weights = layer(x, attn_mask=mask, need_weights=True)
            close(out[:, real], wanted[0])
            close(weights[:, :, real, real], wanted[1])
            close(layer(x, attn_mask=mask)[:, real], wanted[0])
            _, state = layer(x, attn_mask=mask, return_state=True)
            _, same = layer(x[:, real], return_state=True)
            if layer.conv is None:
                close(state, same)
            else:
                close(state[0], same[0])
    for call, _ in ways(p, Sizes(n=9, d=4, e=3), ()) + ways(p, Sizes(n=9, d=4, e=3), (4,)):
        mask = torch.arange(9).expand(2, 3, 9) < 6
        (found, state), wanted = call(slice(None), key_mask=mask), call(slice(0, 6))
        close((found[:, :, :6], state), wanted)
        close(call(slice(None), key_mask=mask[:, 0])[1], wanted[1])


def positions_turn_queries_and_keys(p):
    (x,) = draw((2, 5, 12))
    at = torch.arange(3, 8)
    for layer in layers(p):
        q, k, v, *gates = layer.heads(x)
        turned = p.positions.rotary(q, at), p.positions.rotary(k, at)
        out, _ = layer.attend(*turned, v, *gates, state=None)
        close(layer(x, positions=at), layer.join(out, x))
        assert not torch.allclose(layer(x), layer(x, positions=at))


def layers_keep_most_of_their_state_before_they_are_trained(p):
    torch.manual_seed(0)
    (x,) = draw((2, 9, 12))
    for make in (module(p, "gated").GatedLinearAttention, module(p, "delta").GatedDeltaAttention):
        for per_channel in (False, True):
            log_decay = make(12, 3, per_channel=per_channel).double().heads(x)[3]
            assert log_decay.exp().mean() > 0.94, "else recall over ten tokens is not learned"


def gated_attention_says_what_is_wrong(p):
    gated, delta = module(p, "gated"), module(p, "delta")
    q, k, v, g = sequence(Sizes(n=5, d=4, e=3))
    attend = gated.gated_linear_attention
    layer, x = gated.GatedLinearAttention(12, 3), torch.zeros(1, 2, 12)
    pairs = torch.ones(2, 2, dtype=torch.bool)
    refused(
        ValueError,
        ("chunk counts the tokens of a step .* got 0", lambda: attend(q, k, v, g, chunk=0)),
        ("one token or more", lambda: attend(*(x[:, :, :0] for x in (q, k, v, g)))),
        ("got 5 queries and 4 keys", lambda: attend(q, k[:, :, :4], v[:, :, :4], g)),
        ("same length", lambda: attend(q, k, v[:, :, :4], g)),
        ("key_mask must be bool", lambda: attend(q, k, v, g, key_mask=torch.ones(2, 5))),
        (r"log_decay must be \(2, 3, 5\), or .* Constant decays", lambda: attend(q, k, v, g[0])),
        (r"state must be \(2, 3, 4, 3\); got \(2, 3, 3, 4\)", lambda: attend(q, k, v, g, state=torch.zeros(2, 3, 3, 4))),
        (r"beta must be \(2, 3, 5\); got \(3, 5\)", lambda: delta.delta_rule(q, k, v, g[0], log_decay=g)),
        ("embed_dim=13 is not a multiple of num_heads=3", lambda: gated.GatedLinearAttention(13, 3)),
        ("num_heads=3 is not a multiple of num_qk_heads=2", lambda: gated.GatedLinearAttention(12, 3, num_qk_heads=2)),
        ("gate must be one of None, 'silu', 'sigmoid'; got 'swish'", lambda: gated.GatedLinearAttention(12, 3, gate="swish")),
        ("so the layer is causal; got is_causal=False", lambda: layer(x, is_causal=False)),
        ("takes no key", lambda: layer(x, x + 1)),
        ("takes padding, a bool mask", lambda: layer(x, attn_mask=pairs)),
        ("weights are those of a whole sequence", lambda: layer(x, need_weights=True, return_state=True)),
    )  # fmt: skip
    with pytest.raises(TypeError, match="per_channel"):
        delta.DeltaAttention(12, 3, per_channel=True)
    nothing = [x[:0] for x in (q, k, v, g)]
    assert attend(*nothing).shape == (0, 3, 5, 3)
    assert delta.delta_rule(*nothing[:3], -nothing[3]).shape == (0, 3, 5, 3)


def weights_behind_padding_are_those_without_it(p):
    (x,) = draw((2, 6, 12))
    mask = (torch.arange(6) >= torch.tensor([2, 0])[:, None])[:, None, None]
    for name in ("GatedLinearAttention", "DeltaAttention", "GatedDeltaAttention"):
        torch.manual_seed(0)
        layer = getattr(module(p, "gated" if name[:6] == "GatedL" else "delta"), name)(
            12, 3
        ).double()
        _, weights = layer(x, attn_mask=mask, need_weights=True)
        assert not weights[0, :, 2:, :2].any()
        close(weights[:1, :, 2:, 2:], layer(x[:1, 2:], need_weights=True)[1])
