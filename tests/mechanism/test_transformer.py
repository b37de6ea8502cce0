"""The layers of a transformer: equal to torch's own and to literal loops, and blind to the future."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, nn

from attncourse import GroupedQueryAttention, MultiQueryAttention, spec
from attncourse.lab import data, train
from attncourse.lab.models import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    Forecaster,
    Transformer,
)  # fmt: skip
from attncourse.positions import sinusoidal
from attncourse.variants.latent import LatentAttention

WIDTH, HEADS, HIDDEN = 6, 3, 10
PADDING = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def copied(ours: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters of our layer under the names of torch's."""
    found = dict(ours.named_parameters())
    parts = {"attention": "self_attn", "cross": "multihead_attn"}
    named = {}
    for kind in ("weight", "bias"):
        for mine, theirs in parts.items():
            if f"{mine}.q_proj.{kind}" in found:
                stacked = [found[f"{mine}.{x}_proj.{kind}"] for x in "qkv"]
                named[f"{theirs}.in_proj_{kind}"] = torch.cat(stacked)
                named[f"{theirs}.out_proj.{kind}"] = found[f"{mine}.out_proj.{kind}"]
        named[f"linear1.{kind}"] = found[f"feed_forward.0.{kind}"]
        named[f"linear2.{kind}"] = found[f"feed_forward.2.{kind}"]
        for k in range(len(ours.norms)):
            named[f"norm{k + 1}.{kind}"] = found[f"norms.{k}.{kind}"]
    return {name: p.detach().clone() for name, p in named.items()}


def drawn(layer: nn.Module) -> nn.Module:
    """In double precision, with biases and norms that are neither 0 nor 1."""
    for p in layer.double().parameters():
        nn.init.normal_(p, std=0.5)
    return layer


def agree(found, expected, inputs, other_inputs) -> None:
    """Outputs and gradients of all inputs."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    ours = torch.autograd.grad(found.sin().sum(), inputs, retain_graph=True)
    theirs = torch.autograd.grad(expected.sin().sum(), other_inputs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def by_torch(layer: type, norm_first: bool) -> nn.Module:
    options = {"dropout": 0, "batch_first": True, "norm_first": norm_first}
    return layer(WIDTH, HEADS, HIDDEN, **options).double()


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("causal", [False, True])
def test_encoder_layer_is_that_of_torch_and_of_the_loops(norm_first, causal):
    ours = drawn(EncoderLayer(WIDTH, HEADS, HIDDEN, norm_first=norm_first))
    theirs = by_torch(nn.TransformerEncoderLayer, norm_first)
    theirs.load_state_dict(copied(ours))
    x = leaf(2, 7, WIDTH)
    found = ours(x, attn_mask=PADDING[:, None, None], is_causal=causal)
    future = torch.ones(7, 7, dtype=torch.bool).triu(1)
    expected = theirs(x, src_mask=future if causal else None, src_key_padding_mask=~PADDING)
    agree(found, expected, [x], [x])
    options = {"attn_mask": PADDING[:, None, None], "is_causal": causal, "norm_first": norm_first}
    looped = spec.transformer_layer(x, dict(ours.named_parameters()), HEADS, **options)
    agree(found, looped, [x, *ours.parameters()], [x, *ours.parameters()])


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
def test_decoder_layer_is_that_of_torch_and_of_the_loops(norm_first):
    ours = drawn(DecoderLayer(WIDTH, HEADS, HIDDEN, norm_first=norm_first))
    theirs = by_torch(nn.TransformerDecoderLayer, norm_first)
    theirs.load_state_dict(copied(ours))
    x, memory = leaf(2, 5, WIDTH), leaf(2, 7, WIDTH)
    found = ours(x, memory, memory_mask=PADDING[:, None, None])
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(x, memory, tgt_mask=future, memory_key_padding_mask=~PADDING)
    agree(found, expected, [x, memory], [x, memory])
    looped = spec.transformer_layer(
        x, dict(ours.named_parameters()), HEADS, memory, PADDING[:, None, None], norm_first,
        is_causal=True,
    )  # fmt: skip
    both = [x, memory, *ours.parameters()]
    agree(found, looped, both, both)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
def test_stacks_are_those_of_torch(norm_first):
    """torch leaves the last norm of a stack to its caller."""
    last = nn.LayerNorm(WIDTH).double() if norm_first else None

    def same(ours, theirs):
        for mine, their in zip(drawn(ours).layers, theirs.layers, strict=True):
            their.load_state_dict(copied(mine))
        if last:
            last.load_state_dict(ours.norm.state_dict())
        return ours, theirs

    options = {"hidden": HIDDEN, "norm_first": norm_first}
    one = by_torch(nn.TransformerEncoderLayer, norm_first)
    stack = nn.TransformerEncoder(one, 3, last, enable_nested_tensor=False)
    ours, theirs = same(Encoder(WIDTH, HEADS, 3, **options), stack)
    x = leaf(2, 7, WIDTH)
    agree(ours(x), theirs(x), [x], [x])
    stack = nn.TransformerDecoder(by_torch(nn.TransformerDecoderLayer, norm_first), 2, last)
    ours, theirs = same(Decoder(WIDTH, HEADS, 2, **options), stack)
    said, memory = leaf(2, 5, WIDTH), leaf(2, 7, WIDTH)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(said, memory, tgt_mask=future)
    agree(ours(said, memory), expected, [said, memory], [said, memory])


def test_feed_forward_works_on_each_position_by_itself():
    layer = FeedForward(WIDTH)
    assert layer[0].out_features == 4 * WIDTH
    x = torch.randn(2, 5, WIDTH)
    one_by_one = torch.stack([layer(x[:, i]) for i in range(5)], dim=1)
    torch.testing.assert_close(layer(x), one_by_one)
    expected = F.linear(F.relu(F.linear(x, *layer[0].parameters())), *layer[2].parameters())
    torch.testing.assert_close(layer(x), expected)
    count = sum(p.numel() for p in layer.parameters())
    assert count == 2 * WIDTH * 24 + WIDTH + 24, "the formula of its docstring"


ATTENTIONS = {
    "grouped": partial(GroupedQueryAttention, num_kv_heads=2),
    "multi-query": MultiQueryAttention,
    "no bias": partial(GroupedQueryAttention, num_kv_heads=4, bias=False),
}


@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS)
def test_any_attention_fits(attention):
    model = Transformer(11, 9, embed_dim=8, num_heads=4, layers=2, attention=attention)
    source, said = torch.randint(11, (2, 6)), torch.randint(9, (2, 5))
    maps = []
    assert model(source, said, maps=maps).shape == (2, 5, 9)
    assert [m.shape for m in maps] == [(2, 4, 5, 6)] * 2
    torch.testing.assert_close(maps[0].sum(-1), torch.ones(2, 4, 5))


def test_latent_attention_fits_a_causal_stack():
    """It knows its positions itself and is causal always, so it takes no options."""

    class Latent(LatentAttention):
        def forward(self, x, *, is_causal):
            assert is_causal
            return super().forward(x)

    make = partial(Latent, head_dim=3, latent_dim=5, rotary_dim=2)
    model = Encoder(8, 4, layers=2, attention=make)
    x = torch.randn(2, 6, 8)
    later = torch.cat([x[:, :4], torch.randn(2, 2, 8)], dim=1)
    before = model(x, is_causal=True)[:, :4]
    torch.testing.assert_close(model(later, is_causal=True)[:, :4], before)


def moved(model, inputs, changed) -> list[bool]:
    """At which positions does the output differ?"""
    return ((model(inputs) - model(changed)).abs().amax(dim=(0, 2)) > 1e-9).tolist()


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("at", range(5))
def test_nothing_reads_the_future(norm_first, at):
    options = {"hidden": HIDDEN, "norm_first": norm_first}
    memory = torch.randn(2, 7, WIDTH).double()
    decoder = drawn(Decoder(WIDTH, HEADS, 2, **options))
    encoder = drawn(Encoder(WIDTH, HEADS, 2, **options))
    x = torch.randn(2, 5, WIDTH).double()
    other = x.clone()
    other[:, at] = torch.randn(2, WIDTH)  # a constant that is added would vanish in the norm
    assert moved(lambda y: decoder(y, memory), x, other) == [i >= at for i in range(5)]
    assert moved(lambda y: encoder(y, is_causal=True), x, other) == [i >= at for i in range(5)]
    assert moved(encoder, x, other) == [True] * 5
    assert moved(lambda y: decoder(y, memory, is_causal=False), x, other) == [True] * 5


def test_padding_of_the_source_is_not_read():
    model = Transformer(11, 9, embed_dim=8, num_heads=2).double()
    source, said = torch.randint(11, (2, 7)), torch.randint(9, (2, 5))
    other = torch.where(PADDING, source, (source + 1) % 11)
    mask = PADDING[:, None, None]
    torch.testing.assert_close(model(source, said, mask), model(other, said, mask))
    assert not torch.allclose(model(source, said), model(other, said))


def test_dropout_is_of_the_parts_and_only_while_training():
    layer = EncoderLayer(8, 2, dropout=0.5).double()
    x = torch.randn(2, 5, 8).double()
    assert not layer(x).equal(layer(x))
    assert layer.eval()(x).equal(layer(x))
    torch.testing.assert_close(EncoderLayer(8, 2, dropout=1.0).double()(x), x)


def test_parameters_are_those_of_the_docstrings():
    for make, count in ((EncoderLayer, 12), (DecoderLayer, 16)):
        weights = [p for p in make(24, 3).parameters() if p.dim() == 2]
        assert sum(p.numel() for p in weights) == count * 24**2


def test_noisy_waves_go_on_without_noise():
    (past,), future = data.noisy_waves(seeded(), batch=500, length=9, horizon=3, noise=0.5)
    (clean,), same = data.noisy_waves(seeded(), batch=500, length=9, horizon=3, noise=0.0)
    assert (past.shape, future.shape) == ((500, 9), (500, 3))
    assert future.equal(same)
    assert (past - clean).std().item() == pytest.approx(0.5, rel=0.05)
    for waves in (1, 2):
        _, future = data.noisy_waves(seeded(), batch=500, waves=waves)
        assert future.square().mean().item() == pytest.approx(waves / 2, rel=0.1)


def test_digit_sums():
    (digits,), targets = data.digit_sums(seeded(), batch=3)
    for b in range(3):
        for i in range(1, 10):
            assert targets[b, i] == int(str(int(digits[b, i] + digits[b, i - 1]))[-1])
    assert (targets[:, 0] == data.IGNORE).all()


def test_forecaster_learns():
    model = Forecaster(horizon=3, embed_dim=16, num_heads=2, layers=1)
    draw = partial(data.noisy_waves, batch=32, length=12, horizon=3)
    (past,), future = draw(seeded(9), batch=200)
    before = F.mse_loss(model(past), future)
    train.fit(model, draw, steps=60, loss=F.mse_loss)
    with torch.no_grad():
        assert model(past).shape == (200, 3)
        assert F.mse_loss(model(past), future) < 0.9 * before


def test_transformer_is_its_equation_and_maps_come_layer_by_layer():
    model = Transformer(11, 9, embed_dim=8, num_heads=2, layers=2).double()
    source, said = torch.randint(11, (2, 7)), torch.randint(9, (2, 5))
    waves = sinusoidal(torch.arange(7), 8).double()
    memory = model.encoder(model.source(source) * 8**0.5 + waves)
    x = model.target(said) * 8**0.5 + waves[:5]
    expected = model.logits(model.decoder(x, memory))
    maps, first = [], []
    torch.testing.assert_close(model(source, said, maps=maps), expected)
    model.decoder.layers[0](x, memory, first)
    torch.testing.assert_close(maps[:1], first)
    assert len(maps) == 2


def test_embeddings_start_at_the_size_of_the_positions():
    model = Transformer(400, 400, embed_dim=64)
    for embedding in (model.source, model.target):
        assert (embedding.weight * 8).std().item() == pytest.approx(1.0, rel=0.05)


def test_forecaster_reads_all_of_the_past_and_its_order():
    model = Forecaster(horizon=3, embed_dim=16, num_heads=2, layers=1).double()
    past = torch.randn(2, 9, dtype=torch.float64, requires_grad=True)
    said = model(past)
    (grad,) = torch.autograd.grad((said * torch.randn_like(said)).sum(), past)
    assert (grad != 0).all()
    swapped = past[:, [1, 0, *range(2, 9)]]
    assert not torch.allclose(model(swapped), said), "without positions it could not tell"
