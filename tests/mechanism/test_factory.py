"""Every attention by its name: the shape, the causal mask, the options and the messages."""

import copy
import inspect

import pytest
import torch

import attncourse
from attncourse.factory import ATTENTION_TYPES, get_attention

pytestmark = pytest.mark.quick

WIDTH, HEADS = 16, 4
NEEDED = {"num_kv_heads": 2, "window_size": 4, "block_size": 3, "span": 5}
OTHER = {
    "num_kv_heads": 1, "window_size": 6, "block_size": 6, "span": 6, "after": True, "bias": False,
    "chunk": 5, "content": False, "dropout": 0.5, "feature_map": torch.exp, "furthest": 9,
    "head_dim": 3, "init": "xavier", "kernel_size": (2, 3), "latent_dim": 7, "layer": 3,
    "learned": False, "mix_heads": True, "norm": "group", "normalize": False, "num_global": 2,
    "num_qk_heads": 2, "conv_size": 3, "gate": "sigmoid", "query_latent_dim": 5, "num_random": 1, "p2c": "paper", "per_channel": True,
    "positions": torch.nn.Parameter(torch.ones(10, WIDTH)), "rotary_dim": 4, "seed": 3,
    "share_proj": True, "step": 3, "terms": ("p2c",),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", ATTENTION_TYPES)


def made(name: str, **options):
    needed = {key: NEEDED[key] for key in ATTENTION_TYPES[name].needs}
    return get_attention(name, WIDTH, HEADS, **needed | options)


def future_read(layer) -> float:
    """How much earlier outputs move when only the last token changes."""
    x = torch.randn(2, 12, WIDTH)
    other = x.clone()
    other[:, -1] += 1
    return (layer(x) - layer(other))[:, :-1].abs().max().item()


@EVERY
def test_layer_of_one_sequence(name):
    layer = made(name)
    assert layer(torch.randn(2, 12, WIDTH)).shape == (2, 12, WIDTH)
    assert (future_read(layer) == 0) == ATTENTION_TYPES[name].always_causal


@EVERY
def test_no_future_where_a_causal_mask_is_asked_for(name):
    if ATTENTION_TYPES[name].never_causal:
        with pytest.raises(ValueError, match=f'"{name}" cannot be causal: its global tokens read'):
            made(name, apply_causal_mask=True)
        return
    layer = made(name, apply_causal_mask=True)
    assert future_read(layer) == 0
    assert future_read(copy.deepcopy(layer)) == 0
    x = torch.randn(2, 12, WIDTH)
    output, _ = layer(x, need_weights=True)
    torch.testing.assert_close(output, layer(x))
    if not ATTENTION_TYPES[name].always_causal:
        assert future_read(lambda x: layer(x, is_causal=False)) > 0, "a call may say otherwise"


@EVERY
def test_every_option_is_taken_and_changes_something(name):
    usual = _fingerprint(name)
    for option in ATTENTION_TYPES[name].options:
        value = OTHER[option]
        if (name, option) == ("gated_linear", "per_channel"):
            value = False  # where the others have True
        assert _fingerprint(name, **{option: value}) != usual, f"{option} changes nothing"


def _fingerprint(name: str, **options):
    """What a layer holds, and what it says of one input; the same start values for all."""
    torch.manual_seed(0)
    layer = made(name, **options)
    held = {key: repr(x) for key, x in vars(layer).items() if not key.startswith("_")}
    parameters = [(key, x.shape, x.requires_grad) for key, x in layer.named_parameters()]
    return held, parameters, layer(torch.linspace(-1, 1, 12 * WIDTH).view(1, 12, WIDTH)).tolist()


def test_the_documents_names():
    sizes = {"embed_dim": 512, "num_heads": 8, "num_groups": 4}
    gqa = get_attention(attention_type="gqa", **sizes, apply_causal_mask=False)
    assert (type(gqa), gqa.num_kv_heads) == (attncourse.GroupedQueryAttention, 4)
    mqa = get_attention("mqa", 512, 8, num_groups=4)
    assert (type(mqa), mqa.num_kv_heads) == (attncourse.MultiQueryAttention, 1)
    assert type(get_attention("mha", 512, 8)) is attncourse.MultiHeadAttention


def test_global_tokens_are_the_first_ones_or_those_of_the_call():
    layer, x = made("longformer", window_size=0, num_global=2), torch.randn(2, 6, WIDTH)
    _, weights = layer(x, need_weights=True)
    assert weights[:, :, 5].gt(0).sum(-1).eq(3).all(), "two global tokens and itself"
    nobody = torch.zeros(2, 6).bool()
    for args, named in (((x, nobody), {}), ((x,), {"is_global": nobody})):
        _, weights = layer(*args, need_weights=True, **named)
        torch.testing.assert_close(weights, torch.eye(6).expand(2, HEADS, 6, 6))


def test_decoding_goes_on_behind_the_factory():
    layer, x = made("gqa", apply_causal_mask=True), torch.randn(1, 5, WIDTH)
    cache = attncourse.KVCache.of(layer, 1, 5)
    parts = [attncourse.decode(layer, token, cache) for token in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(x))


def test_a_latent_has_the_proportions_of_its_source():
    layer = get_attention("mla", 512, 8)
    assert layer.latent_norm.normalized_shape == (256,)
    assert layer.k_rotary_proj.out_features == 32


@pytest.mark.parametrize(
    ("error", "message", "name", "options"),
    [
        (ValueError, 'one of "mha", "mqa", .*"gated_delta"; got \'GQA\'. Did you mean "gqa"', "GQA", {}),
        (ValueError, r"got 'hyena'$", "hyena", {}),
        (ValueError, "got 3", 3, {}),
        (TypeError, '"gqa" needs num_groups, .* num_groups=2', "gqa", {}),
        (TypeError, '"sliding_window" needs window_size', "sliding_window", {}),
        (TypeError, '"mha" does not know window_size; its options are bias, init, dropout', "mha", {"window_size": 3}),
        (TypeError, "two names of one number", "gqa", {"num_groups": 2, "num_kv_heads": 2}),
        (ValueError, "num_heads=4 is not a multiple of num_kv_heads=3", "gqa", {"num_groups": 3}),
    ],
)  # fmt: skip
def test_messages_say_what_exists(error, message, name, options):
    with pytest.raises(error, match=message):
        get_attention(name, WIDTH, HEADS, **options)


def test_every_layer_of_the_package_has_a_name():
    """But those that are `MultiHeadAttention` with its inputs fixed."""
    classes = {key: x for key, x in vars(attncourse).items() if inspect.isclass(x)}
    layers = {x for key, x in classes.items() if key.endswith("Attention")}
    fixed = {attncourse.SelfAttention, attncourse.CausalSelfAttention, attncourse.CrossAttention}
    assert layers - {type(made(name)) for name in ATTENTION_TYPES} == fixed
