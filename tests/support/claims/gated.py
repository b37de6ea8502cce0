"""What must hold for states that decay or are corrected, beyond the contracts: chunks, cuts, strong decays, messages."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import Sizes, draw, module
from support.cases.gated import sequence
from support.claims import decoded, refused
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


def gated_layers_decode_with_one_state(p):
    torch.manual_seed(0)
    (x,) = draw((2, 9, 12))
    gated, delta, linear = module(p, "gated"), module(p, "delta"), module(p, "linear")
    for make in (gated.GatedLinearAttention, delta.GatedDeltaAttention):
        for per_channel in (False, True):
            layer = make(12, 3, per_channel=per_channel, chunk=2).double()
            wanted, weights = layer(x, need_weights=True)
            q, k, v, *gates = layer.heads(x)
            read, _ = spec.state_space(q, k, v, *gates)
            close(weights @ v, read)
            close(layer.out_proj(p.layers.merge_heads(layer.norm(read))), wanted)
            cache = linear.LinearCache(layer)
            close(decoded(p, layer, x, cache, (4, 1, 3, 1)), wanted)
            assert (cache.length, cache.nbytes) == (9, 8 * 2 * 3 * 4 * 4)
        for other in (linear.LinearCache(make(12, 3)), p.cache.KVCache(2, 3, 9, 4)):
            with pytest.raises(TypeError, match="decodes with a LinearCache of its own; got "):
                p.cache.decode(layer, x, other)


def layers_keep_most_of_their_state_before_they_are_trained(p):
    torch.manual_seed(0)
    (x,) = draw((2, 9, 12))
    for make in (module(p, "gated").GatedLinearAttention, module(p, "delta").GatedDeltaAttention):
        for per_channel in (False, True):
            log_decay = make(12, 3, per_channel=per_channel).double().heads(x)[3]
            assert log_decay.exp().mean() > 0.94, "else recall over ten tokens is not learned"


def retention_forgets_less_head_by_head(p):
    kept = module(p, "gated").retention_decay(3).exp()
    close(kept, torch.tensor([1 - 1 / 32, 1 - 1 / 64, 1 - 1 / 128]), atol=1e-6)


def gated_attention_says_what_is_wrong(p):
    gated, delta = module(p, "gated"), module(p, "delta")
    q, k, v, g = sequence(Sizes(n=5, d=4, e=3))
    attend = gated.gated_linear_attention
    layer, x = gated.GatedLinearAttention(12, 3), torch.zeros(1, 2, 12)
    refused(
        ValueError,
        ("chunk counts the tokens of a step .* got 0", lambda: attend(q, k, v, g, chunk=0)),
        ("the sequence is empty", lambda: attend(*(x[:, :, :0] for x in (q, k, v, g)))),
        ("of one sequence and of equal heads", lambda: attend(q, k[:, :, :4], v, g)),
        (r"log_decay must be \(2, 3, 5\), or .* Constant decays", lambda: attend(q, k, v, g[0])),
        (r"state must be \(2, 3, 4, 3\); got \(2, 3, 3, 4\)", lambda: attend(q, k, v, g, state=torch.zeros(2, 3, 3, 4))),
        (r"beta must be \(2, 3, 5\); got \(3, 5\)", lambda: delta.delta_rule(q, k, v, g[0], log_decay=g)),
        ("embed_dim must be a multiple of num_heads; got 13 and 3", lambda: gated.GatedLinearAttention(13, 3)),
        ("so the layer is causal; got is_causal=False", lambda: layer(x, is_causal=False)),
        ("weights are those of a whole sequence", lambda: layer(x, need_weights=True, return_state=True)),
    )  # fmt: skip
