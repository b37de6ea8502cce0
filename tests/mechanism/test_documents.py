"""The documents' names and arguments: right mechanisms below them, each document's own meaning of a mask."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from support.contracts import close

from attncourse import layers, spec
from attncourse.documents import note, notebook, readme, reference

pytestmark = pytest.mark.quick

# As many heads as samples: a mask for each sample must not go to the heads.
WIDTH, HEADS, B, N = 12, 3, 3, 7
CLASSES = {
    "MHA": (reference.MultiHeadAttention, (WIDTH, HEADS), 3),
    "MQA": (reference.MultiQueryAttention, (WIDTH, HEADS), 2),
    "GQA": (reference.GroupedQueryAttention, (WIDTH, HEADS, 1), 2),
    "SWA": (reference.SlidingWindowAttention, (WIDTH, HEADS, 5), 1),
    "disentangled": (reference.DisentangledAttention, (WIDTH, HEADS, 9), 1),
    "note": (note.SelfAttention, (WIDTH, HEADS), 3),
}


def made(name: str):
    """A layer in evaluation, and a call of it on one sequence with a mask."""
    make, sizes, inputs = CLASSES[name]
    torch.manual_seed(0)
    layer = make(*sizes).double().eval()

    def call(x, mask=None):
        out = layer(*[x] * inputs, mask=mask)
        return out[0] if isinstance(out, tuple) else out

    return layer, call


def sequence(n: int = N):
    return torch.randn(B, n, WIDTH, dtype=torch.float64)


def general(layer, x, **options):
    """What the layer below computes, with a mask of this course."""
    return layers.MultiHeadAttention.forward(layer, x, x, **options)


@pytest.mark.parametrize("name", CLASSES)
def test_a_mask_of_three_axes_is_one_for_each_sample(name):
    layer, call = made(name)
    x = sequence()
    mask = torch.ones(B, N, N).long()
    mask[1] = mask[1].tril()
    visible = mask.bool() if name == "SWA" else mask
    close(call(x, visible), general(layer, x, attn_mask=mask.bool()[:, None]))
    close(call(x, visible)[0], call(x)[0])
    assert (call(x, visible)[1] - call(x)[1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", [x for x in CLASSES if x not in ("SWA", "disentangled")])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_zero_hides_whatever_the_numbers_are(name, dtype):
    layer, call = made(name)
    x = sequence()
    close(call(x, torch.ones(N, N).tril().to(dtype)), general(layer, x, is_causal=True))


@pytest.mark.parametrize("name", CLASSES)
def test_a_query_without_keys_reads_nothing(name):
    layer, call = made(name)
    x = sequence().requires_grad_()
    mask = torch.ones(1, N, N).bool()
    mask[:, 2] = False
    out = call(x, mask)
    close(out[:, 2], layer.out_proj.bias.expand(B, WIDTH))
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in [x, *layer.parameters()] if p.grad is not None)


@pytest.mark.parametrize("name", [x for x in CLASSES if x != "note"])
def test_dropout_in_training_only(name):
    layer, call = made(name)
    x = sequence()
    close(call(x), call(x), atol=0.0)
    layer.train()
    assert not call(x).equal(call(x))
    layer.dropout = 0.0
    close(call(x), general(layer.eval(), x))


def test_keys_of_another_sequence():
    x, memory = sequence(), sequence(4)
    for name in ("MHA", "MQA", "GQA", "note"):
        layer, _ = made(name)
        out = layer(*[x, memory, memory][: CLASSES[name][2]])
        out = out[0] if name == "note" else out
        close(out, layers.MultiHeadAttention.forward(layer, x, memory))
    layer = readme.MultiHeadAttention(WIDTH, HEADS).double()
    close(layer(x, memory), layers.MultiHeadAttention.forward(layer, x, memory))


@pytest.mark.parametrize("name", ["MHA", "MQA", "GQA", "SWA"])
def test_the_map_of_a_demo_is_that_of_the_layer(name):
    """The demos compute their weights from the projections."""
    layer, _ = made(name)
    x = sequence()
    q, k = layer.q_proj(x), layer.k_proj(x) if name in ("MHA", "SWA") else layer.kv_proj(x).chunk(2, dim=-1)[0]  # fmt: skip
    q, k = (layers.split_heads(y, HEADS) for y in (q, k))
    scores = q @ k.mT / layer.head_dim**0.5
    if name == "SWA":
        near = torch.ones(N, N).bool().triu(-2).tril(2)
        scores = scores.masked_fill(~near, -torch.inf)
    close(scores.softmax(-1), general(layer, x, need_weights=True)[1])


def test_shared_heads_are_shared_in_both_halves():
    layer = reference.GroupedQueryAttention(24, 6, 2)
    x = torch.randn(2, 5, 24)
    key, value = (y.view(2, 5, 6, 4) for y in layer.kv_proj(x).chunk(2, dim=-1))
    for heads, proj in ((key, layer.k_proj), (value, layer.v_proj)):
        two = proj(x).view(2, 5, 2, 4)
        close(heads, two[:, :, [0, 0, 0, 1, 1, 1]])
    assert (layer.heads_per_group, layer.num_kv_heads) == (3, 2)
    assert reference.MultiQueryAttention(24, 6).k_proj.out_features == 4


@pytest.mark.parametrize(("size", "seen"), [(1, 1), (4, 5), (5, 5), (7, 7)])
def test_a_window_counts_as_the_formula_says(size, seen):
    layer = reference.SlidingWindowAttention(WIDTH, HEADS, size).eval()
    assert layer.window_size == size, "the demo computes with it"
    _, weights = layers.MultiHeadAttention.forward(layer, torch.randn(1, 15, WIDTH), need_weights=True)  # fmt: skip
    assert weights[0, 0, 7].nonzero().flatten().tolist() == [*range(7 - seen // 2, 8 + seen // 2)]


def test_disentangled_bias_is_relative_and_longer_sequences_run():
    layer, call = made("disentangled")
    bias = layer.get_relative_positions(14)
    assert bias.shape == (1, HEADS, 14, 14)
    close(bias[..., 1:, 1:], bias[..., :-1, :-1])
    assert bias.std() > 0.01
    _, weights = general(layer, torch.zeros(1, 14, WIDTH).double(), need_weights=True)
    close(weights, bias.softmax(-1))
    assert call(sequence(30)).shape == (B, 30, WIDTH)
    there = torch.ones(B, N)
    there[1, 4:] = 0
    x = sequence()
    other = x.clone()
    other[1, 4:] += 1
    close(call(x, there)[1, :4], call(other, there)[1, :4])
    close(call(x, there)[0], call(x)[0])
    with pytest.raises(ValueError, match=r"samples?, \(3, 7\); got \(7, 7\).*mask\[None\]"):
        call(x, torch.ones(N, N))


def test_the_function_of_the_note():
    q, k, v = (torch.randn(2, n, 4, dtype=torch.float64) for n in (5, 6, 6))
    mask = torch.ones(2, 5, 6).tril()
    mask[1, 3] = 0
    ours = note.scaled_dot_product_attention(q, k, v, mask)
    heads = (x[:, None] for x in (q, k, v))
    theirs = spec.scaled_dot_product_attention(*heads, mask.bool()[:, None])
    close(ours, tuple(x[:, 0] for x in theirs))


def test_the_notebooks_layers():
    mha, gqa = notebook.MultiHeadAttention(WIDTH, HEADS), notebook.GroupQueryAttention(24, 6, 2)
    for layer, kv in ((mha, HEADS), (gqa, 2)):
        x = torch.randn(2, 5, layer.q_proj.in_features)
        close(layer(x), layers.MultiHeadAttention.forward(layer, x))
        assert layer.num_kv_heads == kv
        assert [*inspect.signature(type(layer).forward).parameters] == ["self", "x"]


@pytest.mark.parametrize(
    ("make", "kv"),
    [
        (readme.MultiHeadAttention, 6),
        (readme.MultiQueryAttention, 1),
        (lambda *sizes, **named: readme.GroupQueryAttention(*sizes, num_groups=3, **named), 3),
    ],
)
def test_the_readmes_layers(make, kv):
    x = torch.randn(2, 5, 24)
    for causal in (False, True):
        layer = make(24, 6, apply_causal_mask=causal)
        assert layer.num_kv_heads == kv
        close(layer(x), layers.MultiHeadAttention.forward(layer, x, is_causal=causal))
        assert not any(p.any() for name, p in layer.named_parameters() if "bias" in name)
        bound = (6 / (24 + 24)) ** 0.5
        assert 0.9 * bound < layer.q_proj.weight.abs().max() <= bound


def test_true_hides_in_the_readme():
    q, k, v = (torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(3))
    future = torch.triu(torch.ones(5, 5), diagonal=1).bool()
    causal = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    close(readme.scaled_dot_product_attention(q, k, v, mask=future), causal)
    by_sample = torch.stack([future, torch.zeros_like(future)])
    full = F.scaled_dot_product_attention(q, k, v)
    out = readme.scaled_dot_product_attention(q, k, v, mask=by_sample)
    close(out, torch.stack([causal[0], full[1]]))
    dropped = readme.scaled_dot_product_attention(q, k, v, dropout_p=0.9)
    assert (dropped - full).abs().max() > 0.1
    with pytest.raises(TypeError, match=r"bool, True = hidden; got torch.int64.*mask == 0"):
        readme.scaled_dot_product_attention(q, k, v, mask=future.long())


def test_widths_that_do_not_fit_are_refused_at_once():
    for make in (
        lambda: reference.MultiHeadAttention(10, 3),
        lambda: reference.SlidingWindowAttention(10, 3, 4),
        lambda: note.SelfAttention(10, 3),
        lambda: notebook.MultiHeadAttention(10, 3),
        lambda: readme.MultiHeadAttention(10, 3),
    ):
        with pytest.raises(ValueError, match="embed_dim=10 is not a multiple of num_heads=3"):
            make()


def test_maps_are_drawn(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    made("MHA")[0].visualize_attention(torch.eye(N).expand(1, HEADS, N, N), 1)
    made("GQA")[0].visualize_attention(torch.eye(N).expand(1, 1, HEADS, N, N))
    made("disentangled")[0].visualize_attention(torch.eye(N).expand(1, HEADS, N, N))
    first, second, third = map(repr, shown)
    assert "Head 1" in first
    assert "Group 0, head 0" in second
    assert "Distances alone" in third
