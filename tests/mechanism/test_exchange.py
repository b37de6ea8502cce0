"""Layers can be exchanged: each of the factory's is called, padded, decoded and put into models in the same way."""

from functools import partial

import jaxtyping
import pytest
import torch
from support.contracts import close

from attncourse import decode, new_cache
from attncourse.factory import ATTENTION_TYPES, get_attention
from attncourse.lab.models import AttentionOnly, Encoder, LanguageModel, Tokenizer
from attncourse.variants.streaming import SinkCache

pytestmark = pytest.mark.quick

WIDTH, HEADS, B, N = 16, 4, 2, 12
NEEDED = {"num_kv_heads": 2, "window_size": 8, "block_size": 3, "span": 5}
CAUSAL = [name for name, kind in ATTENTION_TYPES.items() if not kind.never_causal]
BOTH_WAYS = [name for name, kind in ATTENTION_TYPES.items() if not kind.always_causal]
EVERY = pytest.mark.parametrize("name", ATTENTION_TYPES)
EVERY_CAUSAL = pytest.mark.parametrize("name", CAUSAL)


def made(name: str, *sizes: int, **options):
    needed = {key: NEEDED[key] for key in ATTENTION_TYPES[name].needs}
    return get_attention(name, *(sizes or (WIDTH, HEADS)), **needed | options)


def layer_and_tokens(name: str):
    torch.manual_seed(0)
    layer = made(name).double().eval()
    with torch.no_grad():  # what starts as if it were not there shall be there
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer, torch.randn(B, N, WIDTH, dtype=torch.float64)


def left(*lengths: int) -> torch.Tensor:
    """Padding masks of sequences that end together."""
    return (torch.arange(N) >= N - torch.tensor(lengths)[:, None])[:, None, None]


@EVERY
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_not_read(name, side):
    layer, x = layer_and_tokens(name)
    mask = left(7, N) if side == "left" else left(7, N).flip(-1)
    real = mask[:, 0, 0]
    other = torch.where(real[..., None], x, torch.randn_like(x))
    outputs = [layer(y, attn_mask=mask)[real] for y in (x, other)]
    close(*outputs, atol=1e-9)
    assert outputs[0].isfinite().all()
    if side == "left" or not ATTENTION_TYPES[name].always_causal:
        assert not torch.allclose(outputs[0], layer(x)[real]), "there was something to hide"


@EVERY
def test_weights_are_those_of_the_padded_output(name):
    layer, x = layer_and_tokens(name)
    mask = left(7, N)
    output, weights = layer(x, attn_mask=mask, need_weights=True)
    close(output, layer(x, attn_mask=mask), atol=1e-9)
    assert weights.shape == (B, HEADS, N, N)
    assert not weights[0, :, -7:, : N - 7].any()


@EVERY_CAUSAL
@pytest.mark.parametrize("use_rotary", [False, True])
@pytest.mark.parametrize("lengths", [(N, N), (7, N)], ids=["full", "padded"])
def test_every_causal_layer_decodes_what_it_computes(name, use_rotary, lengths):
    layer, x = layer_and_tokens(name)
    mask = None if lengths == (N, N) else left(*lengths)
    at = torch.arange(N) if use_rotary else None
    full = layer(x, is_causal=True, positions=at, attn_mask=mask)
    for sizes in ((1,) * N, (6, 5, 1), (N,)):
        cache, end, rows = new_cache(layer, B, N), 0, []
        for part in x.split(sizes, dim=1):
            of_part = None if mask is None else mask[..., end : end + part.size(1)]
            rows.append(decode(layer, part, cache, use_rotary=use_rotary, attn_mask=of_part))
            end += part.size(1)
        for found, expected, length in zip(torch.cat(rows, 1), full, lengths, strict=True):
            close(found[-length:], expected[-length:], atol=1e-9)
        assert cache.nbytes > 0


@EVERY_CAUSAL
def test_drafts_are_taken_back_and_beams_go_on(name):
    layer, x = layer_and_tokens(name)
    full = partial(layer, is_causal=True)
    cache, other = new_cache(layer, B, N + 4), torch.randn_like(x)
    decode(layer, x[:, :5], cache)
    decode(layer, torch.cat([x[:, 5:7], other[:, 7:9]], dim=1), cache)
    cache.crop(7)  # two of four drafted tokens were right
    close(decode(layer, x[:, 7:9], cache), full(x[:, :9])[:, 7:], atol=1e-9)
    cache.crop(7)
    close(
        decode(layer, other[:, 7:8], cache),
        full(torch.cat([x[:, :7], other[:, 7:8]], 1))[:, 7:],
        atol=1e-9,
    )
    cache.crop(7)
    rows = torch.tensor([1, 0, 1])
    cache.reorder(rows)
    close(decode(layer, x[rows, 7:8], cache), full(x[rows, :8])[:, 7:], atol=1e-9)
    for length in (-1, N):
        with pytest.raises(ValueError, match=f"got {length}"):
            cache.crop(length)


@EVERY_CAUSAL
def test_a_language_model_of_any_layer_writes(name):
    torch.manual_seed(0)
    tokenizer = Tokenizer(["<start>", *"abcdefghijk "])
    model = LanguageModel(tokenizer, 16, 4, layers=2, attention=partial(made, name)).eval()
    prompts = ["abc", "defghi"]
    for prompt in ("abc", prompts):
        with_cache, without = (
            model.write(prompt, length=9, temperature=1.0, use_cache=use_cache)
            for use_cache in (True, False)
        )
        assert with_cache == without
    alone = [model.write(x, length=9, temperature=1.0, seed=k) for k, x in enumerate(prompts)]
    assert model.write(prompts, length=9, temperature=1.0) == alone


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_an_encoder_of_any_layer_that_reads_both_ways(name):
    tokens = torch.randint(0, 9, (B, N))
    for model, inputs in (
        (Encoder(WIDTH, HEADS, 2, attention=partial(made, name)), torch.randn(B, N, WIDTH)),
        (AttentionOnly(9, N, WIDTH, HEADS, attention=partial(made, name)), tokens),
    ):
        assert model(inputs, attn_mask=left(7, N)).isfinite().all()


@pytest.fixture
def as_users_see_it():
    """The messages of the package, without the run-time check of shapes that only tests have."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@EVERY
@pytest.mark.usefixtures("as_users_see_it")
def test_what_does_not_fit_is_refused(name):
    layer, x = layer_and_tokens(name)
    causal = {"is_causal": True} if name in CAUSAL else {}
    calls = [
        ("one token or more", partial(layer, x[:, :0])),
        (r"\(batch, seq, 16\)", partial(layer, x[0])),
        (r"\(batch, seq, 16\)", partial(layer, x[..., :5])),
        ("takes no key|of one batch", partial(layer, x, key=x[:1])),
        ("takes no (key|value)|same length", partial(layer, x, key=x, value=x[:, :3])),
    ]
    for message, call in calls:
        with pytest.raises(ValueError, match=message) as found:
            call(**causal)
        assert "got" in str(found.value)
    close(layer(x, key=x, value=x, **causal), layer(x, **causal), atol=0.0)
    assert layer(x[:0], **causal).shape == (0, N, WIDTH)


def test_a_layer_that_reads_everything_says_that_it_cannot_decode():
    for name in set(ATTENTION_TYPES) - set(CAUSAL):
        layer, x = layer_and_tokens(name)
        with pytest.raises(TypeError, match="decode knows how to go on with"):
            new_cache(layer, B, N)
        with pytest.raises(ValueError, match="causal"):
            layer(x, is_causal=True)


def test_a_cache_that_forgets_takes_back_the_last_call_only():
    layer, x = layer_and_tokens("mha")
    cache = SinkCache.of(layer, B, 2, 3)
    for part in x[:, :10].split((4, 5, 1), dim=1):
        decode(layer, part, cache)
    with pytest.raises(ValueError, match="tokens of the last call"):
        cache.crop(8)
    cache.crop(9)
    again = SinkCache.of(layer, B, 2, 3)
    decode(layer, x[:, :9], again)
    for one, other in ((cache.key, again.key), (cache.value, again.value)):
        close(one, other, atol=0.0)
    close(*(decode(layer, x[:, 10:11], c) for c in (cache, again)), atol=0.0)
    with pytest.raises(ValueError, match="padding in attn_mask"):
        decode(layer, x, SinkCache.of(layer, B, 2, 3), attn_mask=left(7, N))
