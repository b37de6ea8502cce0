"""Positions against those of transformers; and what torch makes of them: compiled, exported, pickled."""

import pickle
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import GPTNeoXConfig, LlamaConfig, PhiConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.phi import modeling_phi

import attncourse
from attncourse.positions import rotary
from attncourse.rope_scaling import interpolated, llama3, ntk, yarn, yarn_temperature
from attncourse.scores import alibi

LENGTH, WIDTH = 4096, 64
YARN = {"rope_type": "yarn", "original_max_position_embeddings": LENGTH}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
SCALINGS = {  # ours, and the parameters of theirs
    "interpolated": (interpolated(4.0), {"rope_type": "linear", "factor": 4.0}),
    # Twice the length at factor 3 is 3 * 2 - (3 - 1) times as slow.
    "ntk": (ntk(4.0), {"rope_type": "dynamic", "factor": 3.0}),
    "yarn": (yarn(16.0, LENGTH), YARN | {"factor": 16.0}),
    "yarn, other limits": (yarn(4.0, LENGTH, 20.0, 3.0), YARN | {"factor": 4.0, "beta_fast": 20.0, "beta_slow": 3.0}),
    "yarn, no pair slow": (yarn(4.0, 10**6), YARN | {"factor": 4.0, "original_max_position_embeddings": 10**6}),
    "yarn, no pair fast": (yarn(4.0, 100), YARN | {"factor": 4.0, "original_max_position_embeddings": 100}),
    "llama3": (llama3(8.0, 1.0, 4.0, 8192), LLAMA3 | {"rope_type": "llama3", "factor": 8.0}),
    "llama3, factor 32": (llama3(32.0, 1.0, 4.0, 8192), LLAMA3 | {"rope_type": "llama3", "factor": 32.0}),
}  # fmt: skip


def depends(_) -> list[Path]:
    return [
        Path(attncourse.__file__).with_name(f"{x}.py")
        for x in ("positions", "rope_scaling", "scores")
    ]


def of_width(kind, **parameters):
    """A configuration with heads of `WIDTH` features."""
    return kind(
        hidden_size=2 * WIDTH,
        num_attention_heads=2,
        max_position_embeddings=LENGTH,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0} | parameters,
    )


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_slowed_frequencies_are_those_of_transformers(name, base):
    ours, parameters = SCALINGS[name]
    config = of_width(LlamaConfig, rope_theta=base, **parameters)
    length = 2 * LENGTH if parameters["rope_type"] == "dynamic" else None
    theirs, size = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, "cpu", seq_len=length)
    plain = base ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    torch.testing.assert_close(ours(plain).float(), theirs, rtol=2e-6, atol=0)
    assert getattr(ours, "attention_factor", 1.0) == pytest.approx(size)
    if name == "yarn":
        assert yarn_temperature(16.0) == pytest.approx(size) == pytest.approx(1.2772588722239782)


@pytest.mark.parametrize("name", ["interpolated", "yarn", "llama3"])
def test_llama_turns_as_we_do(name):
    """Near positions: transformers' angles are float32 and lose digits as positions grow."""
    scaling, parameters = SCALINGS[name]
    turned, theirs = both(modeling_llama, LlamaConfig, "LlamaRotaryEmbedding", WIDTH, parameters)
    torch.testing.assert_close(turned(scaling=scaling), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "kind", "share"),
    [(modeling_gpt_neox, GPTNeoXConfig, 0.25), (modeling_phi, PhiConfig, 0.5)],
)
def test_models_that_turn_a_part_turn_as_we_do(module, kind, share):
    name = kind.__name__.replace("Config", "RotaryEmbedding")
    width = int(share * WIDTH)
    turned, theirs = both(module, kind, name, width, {"partial_rotary_factor": share})
    torch.testing.assert_close(turned(rotary_dim=width), theirs, rtol=0, atol=1e-6)


def both(module, kind, embedding: str, width: int, parameters: dict):
    """Our function on queries with a row of positions each; and what transformers makes of the same."""
    q = torch.randn(2, 3, 7, WIDTH)
    positions = torch.stack([torch.arange(7), torch.arange(7).sub(3).clamp(min=0)])
    cos, sin = getattr(module, embedding)(of_width(kind, **parameters))(q, positions)
    turned, _ = module.apply_rotary_pos_emb(q[..., :width], q[..., :width], cos, sin)
    return partial(rotary, q, positions), torch.cat([turned, q[..., width:]], dim=-1)


@pytest.mark.parametrize("heads", range(1, 41))
def test_slopes_are_those_of_bloom_and_mpt(heads):
    ours = -alibi(heads)(torch.zeros(heads), 0, torch.arange(heads), 1, torch.tensor(0))
    bloom = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(ours, bloom, rtol=1e-6, atol=0)
    mpt = -build_mpt_alibi_tensor(heads, 2, alibi_bias_max=8)[:, 0, 0]
    torch.testing.assert_close(ours, mpt, rtol=1e-6, atol=0)


class Turned(nn.Module):
    """A layer that holds its rotation, as users write it."""

    def __init__(self, scaling):
        super().__init__()
        self.rotary = partial(rotary, base=500_000.0, scaling=scaling, rotary_dim=6)

    def forward(self, x, positions):
        return self.rotary(x, positions)


@pytest.mark.parametrize("name", SCALINGS)
def test_a_layer_with_a_rotation_can_be_pickled(name):
    layer = Turned(SCALINGS[name][0])
    again = pickle.loads(pickle.dumps(layer))
    assert again.rotary.keywords == layer.rotary.keywords
    assert repr(layer.rotary.keywords["scaling"]).startswith(name.split(",")[0] + "(factor=")


@pytest.mark.parametrize("name", ["interpolated", "ntk", "yarn", "llama3"])
def test_a_rotation_can_be_compiled_and_exported(name):
    """Far positions too: in compiled code whole turns still drop out."""
    layer = Turned(SCALINGS[name][0])
    n = torch.export.Dim("n", min=2, max=2**20)
    x, near = torch.randn(2, 3, 5, 8), torch.arange(5)
    exported = torch.export.export(layer, (x, near), dynamic_shapes=({2: n}, {0: n})).module()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for positions in (near, torch.arange(2**24 - 9, 2**24)):
        x = torch.randn(2, 3, len(positions), 8)
        expected = layer(x, positions)
        torch.testing.assert_close(exported(x, positions), expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(compiled(x, positions), expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:`torch.jit.*:DeprecationWarning")  # inductor's own
def test_inductor_lets_whole_turns_drop_out():
    """Its C++ multiplies integers beyond 2**63; here of positions that it makes itself."""

    def last(x):
        return rotary(x, torch.arange(2**24 - x.size(-2), 2**24), scaling=yarn(4.0, LENGTH))

    for dtype, error in ((torch.float32, 2e-6), (torch.float64, 1e-12)):
        x = torch.randn(3, 50, 64, dtype=dtype)
        torch.testing.assert_close(
            torch.compile(last, fullgraph=True)(x), last(x), rtol=0, atol=error
        )
