"""What must hold for every `attend`: dropout where there are weights, and queries that stand behind other tokens."""

import torch

from support.cases import draw, module
from support.claims import refused
from support.contracts import close

WIDTH, H, N = 24, 3, 9


def _layers(p, **options):
    """Layers that attend in their own ways, and the one whose way they replace."""
    for file, name, *sizes in (
        ("layers", "MultiHeadAttention"),
        ("sinks", "SinkAttention"),
        ("talking_heads", "TalkingHeadsAttention"),
        ("differential", "DifferentialAttention"),
        ("disentangled", "DisentangledAttention", 4),
        ("document_bias", "DocumentBiasAttention", 4),
        ("window", "SlidingWindowAttention", (3, 1)),
        ("dilated", "DilatedAttention", (2, 1)),
        ("multi_token", "MultiTokenAttention"),
    ):
        torch.manual_seed(0)
        layer = getattr(module(p, file), name)(WIDTH, H, *sizes, **options).double()
        with torch.no_grad():  # what starts as if it were not there shall be there
            for parameter in layer.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        yield name, layer


def dropout_acts_where_a_layer_is_trained(p):
    (x,) = draw((2, N, WIDTH))
    for name, layer in _layers(p, dropout=0.5):
        for need_weights in (False, True):
            calls = {}
            for training in (False, True):
                layer.train(training)
                found = [layer(x, is_causal=True, need_weights=need_weights) for _ in range(2)]
                calls[training] = [y[0] if need_weights else y for y in found]
            assert calls[False][0].equal(calls[False][1]), f"{name} drops what nobody trains"
            assert not calls[True][0].equal(calls[True][1]), f"{name} drops nothing"


def differences_of_maps_are_dropped_with_and_without_weights(p):
    (x,) = draw((2, N, WIDTH))
    layer = module(p, "differential").DifferentialAttention(WIDTH, H, dropout=0.5).double()
    outputs = []
    for need_weights in (False, True):
        torch.manual_seed(0)
        out = layer(x, is_causal=True, need_weights=need_weights)
        outputs.append(out[0] if need_weights else out)
    close(*outputs)


def queries_know_where_they_stand_among_the_keys(p):
    """The last ones alone read what they read among all; a kernel over queries needs those before them, too."""
    (x,) = draw((2, N, WIDTH))
    for name, layer in _layers(p):
        if name == "MultiTokenAttention":
            continue
        q, k, v = layer.project(x, x, x)
        heads, weights = layer.attend(q, k, v, is_causal=True, need_weights=True)
        for n in (3, 1):
            where = {"is_causal": True, "offset": N - n}
            for need_weights in (False, True):
                last, maps = layer.attend(q[:, :, -n:], k, v, need_weights=need_weights, **where)
                close(last, heads[:, :, -n:])
                if need_weights:
                    close(maps, weights[:, :, -n:])


def a_single_new_token_needs_no_mask(p):
    mask = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    for given in (None, mask):
        assert p.steps.add_causal(given, 1, 5, mask.device, offset=4) is given


def a_loud_sink_takes_all_and_learns(p):
    scores = torch.zeros(1, 1, 2, 3, requires_grad=True)
    sink = torch.tensor([1e4], requires_grad=True)
    weights = module(p, "sinks").softmax_with_sink(scores, sink)
    assert not weights.any()
    for gradient in torch.autograd.grad(weights.sum(), (scores, sink)):
        assert gradient.isfinite().all()


def kept_queries_have_no_history(p):
    cache = module(p, "multi_token_cache").NeighbourCache(1, 2, 5, 4, num_heads=2, rows=1)
    assert not cache.append_query(torch.ones(1, 2, 3, 4, requires_grad=True)).requires_grad


def more_queries_than_tokens_are_refused(p):
    q, k = torch.zeros(1, 2, 4, 3), torch.zeros(1, 2, 3, 3)
    refused(ValueError, ("got 4 queries and 3 keys", lambda: p.cache.cached_attention(q, k, k)))
