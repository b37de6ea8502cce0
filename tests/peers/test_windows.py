"""Windows, Longformer and BigBird against the layers of others; and what torch makes of them: compiled, exported, batched."""

import copy
import pickle
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.mutants.package import MODULES, build

from attncourse.variants import bigbird, dilated, longformer, window
from attncourse.variants.flash import split_kv

# What torch itself says: a batch of fused calls runs one by one, and its tracer looks at a function's class.
pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]
P = build()  # a copy of the package without a check of shapes at each call, which no graph can hold
ROOT = Path(__file__).parents[2]
N, WIDTH = 150, 16  # three blocks of queries


@pytest.fixture
def _unchecked(monkeypatch):
    """The copy is the package: there a graph looks for what its functions use."""
    for short, name in MODULES.items():
        monkeypatch.setitem(sys.modules, f"attncourse.{name}", getattr(P, short))
    torch.compiler.reset()


@pytest.fixture(scope="module", autouse=True)
def _benchmarks():
    """There both layers are given the same weights."""
    sys.path.append(str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["longformer", "bigbird"])
def test_layers_of_transformers(name):
    import global_local

    length, options = (24 * 64, {"same_plan": True}) if name == "bigbird" else (1024, {})
    (ours, call), (theirs, reference), _ = getattr(global_local, name)(length, **options)
    close(call(), reference())
    gradients = []
    for layer, run in ((ours, call), (theirs, reference)):
        layer.zero_grad()
        run().sin().sum().backward()
        gradients.append([x.grad for name, x in sorted(projections(layer).items())])
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-3)  # sums over all tokens


def projections(layer) -> dict:
    """Their weights and biases by the names that both have."""
    names = {"query": "q", "key": "k", "value": "v", "query_global": "q_global"}
    names |= {"key_global": "k_global", "value_global": "v_global"}
    found = {}
    for name, x in layer.named_parameters():
        module, _, kind = name.rpartition(".")
        found[names.get(module, module.removesuffix("_proj")), kind] = x
    return found


@pytest.mark.parametrize("length", [128, 384, 1024])
def test_the_window_of_local_attention(length):
    from window import METHODS

    inputs = [torch.randn(1, 4, length, 64, requires_grad=True) for _ in range(3)]
    pair = (METHODS[name](*inputs, None) for name in ("blocks", "local-attention"))
    ours, theirs = pair
    close(ours, theirs)
    for found, expected in zip(
        *(torch.autograd.grad(x.sin().sum(), inputs) for x in (ours, theirs)), strict=True
    ):
        close(found, expected)


LAYERS = {
    "window": lambda p: p.window.SlidingWindowAttention(WIDTH, 2, (40, 3), num_kv_heads=1),
    "dilated": lambda p: p.dilated.DilatedAttention(WIDTH, 2, (3, 2), 3),
    "longformer": lambda p: p.longformer.LongformerAttention(WIDTH, 2, 40, num_global=3),
    "bigbird": lambda p: p.bigbird.BigBirdAttention(WIDTH, 2, 15, 2),
}
PICKLED = SimpleNamespace(window=window, dilated=dilated, longformer=longformer, bigbird=bigbird)
CALLS = {
    "plain": {},
    "padding": {"attn_mask": (torch.arange(N) < N - 20)[None, None, None]},
    "positions": {"positions": torch.arange(N)},
    "weights": {"need_weights": True},
}


def output(x):
    return x[0] if isinstance(x, tuple) else x


def same(ours, theirs, sources):
    """Outputs, and what they send back."""
    close(ours, theirs)
    pair = (torch.autograd.grad(x.sin().sum(), sources, allow_unused=True) for x in (ours, theirs))
    for found, expected in zip(*pair, strict=True):
        close(found, expected)


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_can_be_compiled_exported_and_batched(name, call):
    """A plan of BigBird is drawn once, and outside: a graph cannot draw, and neither can a batch of calls."""
    layer, run = LAYERS[name](P), CALLS[call]
    x = torch.randn(2, N, WIDTH, requires_grad=True)
    sources = [x, *layer.parameters()]
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    same(output(compiled(x, **run)), output(layer(x, **run)), sources)
    if call == "plain":  # the second and the third length are symbols at first
        for n in (15, 60, 90):
            close(compiled(x[:, :n].detach()), layer(x[:, :n]))
    exported = torch.export.export(layer, (x.detach(),), run).module()
    close(output(exported(x, **run)), output(layer(x, **run)))
    batched = torch.vmap(partial(layer, **run))(torch.stack([x, 2 * x]))
    close(output(batched)[1], output(layer(2 * x, **run)))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_can_be_copied_and_pickled(name):
    layer, x = LAYERS[name](PICKLED), torch.randn(2, N, WIDTH)
    expected = layer(x)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert again(x).equal(expected)


@pytest.mark.usefixtures("_unchecked")
def test_a_plan_is_not_drawn_by_a_graph():
    """Compiled before it is ever called: the plan is the one that the seed draws."""
    layer = P.bigbird.BigBirdAttention(WIDTH, 2, 15, 3, seed=11)
    x = torch.randn(2, N, WIDTH)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")(x)
    plan = P.bigbird.bigbird_plan(N // 15, 3, 2, seed=11)
    heads = P.bigbird.bigbird_attention(*layer.project(x, x, x), plan, 15)
    close(compiled, layer.join(heads, x))


@pytest.mark.usefixtures("_unchecked")
def test_a_call_that_says_which_tokens_are_global_cannot_be_one_graph():
    """How many there are decides about shapes; a layer with num_global knows."""
    layer, x = P.longformer.LongformerAttention(WIDTH, 2, 40), torch.randn(2, N, WIDTH)
    is_global = torch.rand(2, N) < 0.1
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        torch.compile(layer, fullgraph=True, backend="eager")(x, is_global)
    with torch.no_grad():
        close(torch.compile(layer, backend="eager")(x, is_global), layer(x, is_global))


MASK = torch.rand(150, 170, generator=torch.Generator().manual_seed(0)) < 0.7
FLASH = {
    "plain": partial(P.flash.flash_attention, enable_gqa=True),
    "causal": partial(P.flash.flash_attention, is_causal=True, offset=20, enable_gqa=True),
    "mask": partial(P.flash.flash_attention, attn_mask=MASK, enable_gqa=True),
    "lse": lambda *x: P.flash.flash_attention(*x, enable_gqa=True, return_aux=True)[1].lse,
    "pieces": lambda *x: split_kv.split_kv_attention(*x, 3),
    "window": partial(P.window.sliding_window_attention, window_size=(70, 3), enable_gqa=True),
}


class Called(torch.nn.Module):
    """A function as a module, for export."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, query, key, value):
        return self.function(query, key, value)


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("name", FLASH)
def test_functions_can_be_compiled_exported_and_batched(name):
    shapes = (2, 4, 150, 8), (2, 2, 170, 8), (2, 2, 170, 5)
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    call = FLASH[name]
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    if name == "causal":
        one = torch.randn(2, 4, 150, 8)
        close(compiled(one, one, one), call(one, one, one))
    same(compiled(*inputs), call(*inputs), inputs[: 2 if name == "lse" else 3])
    still = tuple(x.detach() for x in inputs)
    close(torch.export.export(Called(call), still).module()(*inputs), call(*inputs))
    several = [torch.stack([x, x + 1]) for x in still]
    close(torch.vmap(call)(*several)[1], call(*(x + 1 for x in still)))


def test_gradients_of_each_sample():
    """``torch.func`` through the functions that have a backward pass of their own."""
    inputs = [torch.randn(3, 2, 150, 8) for _ in range(3)]

    def loss(*one):
        return P.flash.flash_attention(*(x[None] for x in one), is_causal=True).sin().sum()

    found = torch.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(*inputs)
    leaves = [x.requires_grad_() for x in inputs]
    whole = P.flash.flash_attention(*leaves, is_causal=True).sin().sum()
    for ours, expected in zip(found, torch.autograd.grad(whole, leaves), strict=True):
        close(ours, expected)
