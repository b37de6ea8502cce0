"""Differential attention and DeBERTa's against the layers of transformers; and what torch can compile of scores that know more."""

import sys
from functools import partial

import pytest
import torch
from scores import SPAN, deberta
from support.cases import draw
from support.claims.differential import Called
from support.contracts import close, gradients
from support.mutants.package import MODULES, build
from torch import nn
from transformers import DiffLlamaConfig
from transformers.models.diffllama.modeling_diffllama import (
    DiffLlamaAttention,
    DiffLlamaRotaryEmbedding,
)

from attncourse import decode, new_cache
from attncourse.variants.differential import DifferentialAttention

# What torch itself says: its tracer looks at a function's class.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
P = build()  # a copy of the package without a check of shapes at each call, which no graph can hold
B, N, WIDTH, PAIRS = 2, 9, 32, 4


def paired(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """The rows of their heads p and heads / 2 + p, side by side: with us they are a pair, and its values one head."""
    return weight.unflatten(0, (2, heads // 2, -1)).transpose(0, 1).flatten(0, 2)


def diff_llama(kv_pairs: int) -> tuple[DifferentialAttention, nn.Module, nn.Module]:
    """Theirs and ours on the same weights, and their angles."""
    config = DiffLlamaConfig(
        hidden_size=WIDTH,
        num_attention_heads=2 * PAIRS,
        num_key_value_heads=2 * kv_pairs,
        rms_norm_eps=1e-5,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs = DiffLlamaAttention(config, layer_idx=2).double()
    options = {"num_kv_heads": kv_pairs, "bias": False}
    ours = DifferentialAttention(WIDTH, PAIRS, layer=2, **options).double()
    given = dict(theirs.named_parameters())
    weights = {"norm.weight": ours.norm.weight, "out_proj.weight": given["o_proj.weight"]}
    for name, heads in (("q", 2 * PAIRS), ("k", 2 * kv_pairs), ("v", 2 * kv_pairs)):
        weights[f"{name}_proj.weight"] = paired(given[f"{name}_proj.weight"], heads)
    weights |= {name: x for name, x in given.items() if name.startswith("lambda")}
    ours.load_state_dict(weights)
    return ours, theirs, DiffLlamaRotaryEmbedding(config)


@pytest.mark.parametrize("kv_pairs", [PAIRS, 2, 1])
def test_differential_attention_is_diff_llamas(kv_pairs):
    ours, theirs, angles = diff_llama(kv_pairs)
    x = torch.randn(B, N, WIDTH, dtype=torch.float64)
    at = torch.arange(N)
    low = torch.zeros(N, N, dtype=torch.float64).masked_fill(
        ~torch.ones(N, N).bool().tril(), -torch.inf
    )
    expected, _ = theirs(x, angles(x, at[None]), low.expand(B, 1, N, N))
    # Their softmax, angles and lambda are computed in float32.
    close(ours(x, is_causal=True, positions=at), expected, atol=1e-5)
    cache = new_cache(ours, B, N)
    rows = [decode(ours, part, cache, use_rotary=True) for part in x.split(4, dim=1)]
    close(torch.cat(rows, dim=1), expected, atol=1e-5)


@pytest.mark.parametrize("buckets", [False, True])
@pytest.mark.parametrize("length", [5, SPAN + 300])
def test_disentangled_attention_is_debertas(buckets, length):
    (ours, run), (theirs, library), _ = deberta(length, torch.float64, buckets)
    close(run(), library(), atol=1e-5)
    found = gradients([run()], [ours.positions, ours.q_proj.weight, ours.v_proj.weight])
    sources = [theirs.positions, theirs.query_proj.weight, theirs.value_proj.weight]
    close(found, gradients([library()], sources), atol=1e-5)


@pytest.fixture
def _unchecked(monkeypatch):
    """The copy is the package: there a graph looks for what its functions use."""
    for short, name in MODULES.items():
        monkeypatch.setitem(sys.modules, f"attncourse.{name}", getattr(P, short))
    torch.compiler.reset()


KERNELS = {"after": True, "mix_heads": True, "norm": "group", "num_kv_heads": 2}
CAUSAL = {"is_causal": True}
LAYERS = {
    "disentangled": (lambda: P.disentangled.DisentangledAttention(16, 4, 3), {}),
    "buckets": (lambda: P.disentangled.DisentangledAttention(16, 4, 4, furthest=6), CAUSAL),
    "document": (lambda: P.document_bias.DocumentBiasAttention(16, 4, 3, num_kv_heads=2), CAUSAL),
    "multi_token": (lambda: P.multi_token.MultiTokenAttention(16, 4, (2, 3), **KERNELS), {}),
    "talking": (lambda: P.talking_heads.TalkingHeadsAttention(16, 4, num_kv_heads=2), CAUSAL),
    "differential": (lambda: P.differential.DifferentialAttention(16, 4), {}),
    "shared": (lambda: P.differential.DifferentialAttention(16, 4, num_kv_heads=2), CAUSAL),
}
MORE = {"plain": {}, "weights": {"need_weights": True}}


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_compile_as_one_graph_forward_and_backward(name, more):
    make, options = LAYERS[name]
    run = partial(make().double(), **options, **MORE[more])
    compiles(lambda x: first(run(x)), *draw((B, N, 16)))


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_exported_for_any_length(name):
    """Where heads are shared, with a dynamic axis and not a named one, for whose range torch would have to prove n <= n n."""
    make, options = LAYERS[name]
    layer = make().double()
    x, longer = draw((B, N, 16), (B, 2 * N, 16))
    sizes = (({1: torch.export.Dim.DYNAMIC},),)
    called = Called(partial(layer, **options))
    exported = torch.export.export(called, (x,), dynamic_shapes=sizes).module()
    close(exported(longer), layer(longer, **options))


@pytest.mark.usefixtures("_unchecked")
def test_functions_compile_as_one_graph_forward_and_backward():
    tables = draw((4, 6, 4), (4, 6, 4))
    kernel, mix = draw((4, 2, 3), (4, 4))
    bucket = partial(P.disentangled.log_bucket, buckets=3, furthest=5)
    disentangled = P.disentangled.disentangled_attention
    multi_token, talking, differential = (
        P.multi_token.multi_token_attention,
        P.talking_heads.talking_heads_attention,
        P.differential.differential_attention,
    )
    for call in (
        lambda q, k, v: disentangled(q, k, v, *tables, is_causal=True),
        lambda q, k, v: disentangled(q, k, v, *tables, bucket=bucket, need_weights=False),
        lambda q, k, v: multi_token(q, k, v, kernel, kernel_after=kernel, mix=mix),
        lambda q, k, v: talking(q, k[:, ::2], v[:, ::2], mix, mix, is_causal=True),
        lambda q, k, v: differential(q, k[:, :2], v[:, :1], 0.4, is_causal=True),
    ):
        compiles(lambda q, k, v, call=call: first(call(q, k, v)), *draw(*[(B, 4, N, 4)] * 3))


def first(found):
    return found[0] if isinstance(found, tuple) else found


def compiles(call, *inputs):
    inputs = [x.requires_grad_() for x in inputs]
    expected = call(*inputs)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(*inputs)
    close(compiled, expected)
    close(gradients([compiled], inputs), gradients([expected], inputs))
