"""The Gluon kernel on a model of the card: its numbers, its barriers, and slips that must be noticed."""

import ast
import importlib.util
import json
import math
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

if not importlib.util.find_spec("triton") and os.environ.get("CI") != "true":
    pytest.skip("Triton is not installed", allow_module_level=True)

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
gluon_cpu, gluon_names = (importlib.import_module(f"gpu.gluon_{x}") for x in ("cpu", "names"))
CODE = ROOT / "benchmarks" / "results" / "flash_code.json"
SOURCE = (ROOT / "benchmarks/gpu/gluon_forward.py").read_text(encoding="utf-8")


def depends(item):
    """Nothing else decides whether these tests pass."""
    return [ROOT / "benchmarks" / "gpu", ROOT / "attncourse" / "variants" / "flash", CODE]


# b, h, g, n, m, d, e, causal, offset; then groups, turns, persistent, stages, programs.
FULL = (1, 3, 3, 256, 192, 16, 32, False, 0, 2, False, True, 2, 3)
RAGGED = (1, 2, 1, 197, 331, 16, 16, False, 0, 3, True, True, 2, 1)
CAUSAL = (2, 2, 1, 300, 300, 24, 40, True, 0, 2, True, True, 2, 2)
ALIGNED = (1, 2, 2, 129, 257, 16, 16, True, 128, 3, False, True, 3, 4)
EMPTY = (1, 2, 1, 200, 150, 16, 16, True, -170, 2, False, False, 2, 5)
HEADS = (1, 5, 5, 200, 200, 16, 16, True, 0, 2, False, True, 2, 2)
FUTURE = (1, 2, 2, 320, 320, 16, 16, True, 1, 2, False, True, 2, 2)
TOKEN = (1, 2, 2, 1, 500, 16, 16, True, 499, 2, False, True, 2, 3)
CASES = {
    name: case for name, case in globals().items() if isinstance(case, tuple) and len(case) == 14
}


def formula(query, key, value, scale, is_causal, offset):
    """Output and log-sum-exp in float64."""
    query, key, value = (x.double() for x in (query, key, value))
    key, value = (x.repeat_interleave(query.size(1) // key.size(1), 1) for x in (key, value))
    i, j = torch.arange(query.size(2)), torch.arange(key.size(2))
    scores = query @ key.mT * scale
    scores = scores.masked_fill((j > i[:, None] + offset) & is_causal, -math.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ value, scores.logsumexp(-1)


def play(module, case):
    """Raises if output or log-sum-exp of a case are wrong."""
    b, h, g, n, m, d, e, is_causal, offset, groups, turns, persistent, stages, programs = case
    torch.manual_seed(0)
    qkv = [torch.randn(b, *size).to(torch.bfloat16) for size in ((h, n, d), (g, m, d), (g, m, e))]
    module.processors = lambda x: programs
    module.L2_SHARE = 2 * m * (d + e) * 2  # two heads at a time
    setting = module.Setting(64, stages, groups, turns, persistent)
    output, lse = module.forward(*qkv, d**-0.5, is_causal, offset, setting)
    expected, exact = formula(*qkv, d**-0.5, is_causal, offset)
    assert torch.equal(lse.isinf(), exact.isinf())
    found, exact = lse.double().nan_to_num(0, 0, 0), exact.nan_to_num(0, 0, 0)
    torch.testing.assert_close(found, exact, atol=1e-4, rtol=0)
    torch.testing.assert_close(output.double(), expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_it_computes_attention(name):
    play(gluon_names.load(), CASES[name])


# (what stands in the kernel, the slip, the case that shows it)
SLIPS = {
    "keys are given back before the scores are there": (
        "    scores = warpgroup_mma_wait(1, deps=(scores,))\n    mbarrier.arrive(k_empty.index(stage), count=1)",
        "    mbarrier.arrive(k_empty.index(stage), count=1)\n    scores = warpgroup_mma_wait(1, deps=(scores,))",
        RAGGED,
    ),
    "values are given back before they are mixed": (
        "    mixed = warpgroup_mma_wait(0, deps=(mixed,))\n    mbarrier.arrive(v_empty.index(before), count=1)",
        "    mbarrier.arrive(v_empty.index(before), count=1)\n    mixed = warpgroup_mma_wait(0, deps=(mixed,))",
        RAGGED,
    ),
    "the wrong phase of the values": (
        "v_full.index(before), (used - 1) // STAGES & 1", "v_full.index(before), used // STAGES & 1", FULL,
    ),
    "keys are not waited for": (
        "mbarrier.wait(k_full.index((used + 1) % STAGES), (used + 1) // STAGES & 1, pred=more)", "pass", RAGGED,
    ),
    "queries are not waited for by the loader": ("        mbarrier.wait(q_empty, (turn & 1) ^ 1)\n", "", CAUSAL),
    "a place is not waited for": (
        "    mbarrier.wait(empty.index(stage), (number // STAGES & 1) ^ 1)\n", "", RAGGED,
    ),
    "the wrong phase of a place": ("(number // STAGES & 1) ^ 1", "number // STAGES & 1", FULL),
    "values before keys": ("v_ring, loaded + j - 1)", "v_ring, loaded + j)", FULL),
    "one group speaks for all": (
        "q_ring = (q_smem, barriers(1, 1).index(0), barriers(1, GROUPS)",
        "q_ring = (q_smem, barriers(1, 1).index(0), barriers(1, 1)", CAUSAL,
    ),
    "no fence before the store": ("        fence_async_shared()\n", "", TOKEN),
    "stores are under way at the end": ("    tma.store_wait(0)\n\n\n@gluon.jit\ndef barriers", "\n\n@gluon.jit\ndef barriers", TOKEN),
    "what was mixed is not rescaled": ("gl.convert_layout(rescale,", "gl.convert_layout(rescale * 0 + 1,", FULL),
    "turns are counted by tiles": ("taken + 1 if PART == 0 else taken", "used + 1 if PART == 0 else used", RAGGED),
    "a mask too few": ("// BLOCK_N\n    return head", "// BLOCK_N - 1\n    return head", FUTURE),
    "the last columns are left out": ("end = gl.minimum(m, first + ROWS + offset)", "end = gl.minimum(m, first + offset)", ALIGNED),
    "a row does not see itself": ("gl.minimum(limit, rows + offset + 1)", "gl.minimum(limit, rows + offset)", CAUSAL),
    "an empty row is NaN": ("gl.where(new_maximum == MINUS_INFINITY, 0.0, new_maximum)", "new_maximum", EMPTY),
    "an empty row is divided by 0": ("gl.where(total == 0.0, 1.0, total)", "total * 1.0", EMPTY),
    "a tile too many": ("gl.num_programs(0) - 1) // gl", "gl.num_programs(0)) // gl", CAUSAL),
    "the last section is as wide as the others": ("gl.minimum(section, heads - before)", "section", HEADS),
    "each query head has keys of its own": ("key_head = head // sizes[3]", "key_head = head", CAUSAL),
    "lse in powers of 2": ("(maximum + gl.log2(total)) * LN2", "maximum + gl.log2(total)", TOKEN),
    "bytes that nobody expects": ("GROUPS * queries.block_type.nbytes", "queries.block_type.nbytes", TOKEN),
    "queries are not given back": ("        mbarrier.arrive(q_empty, count=1)\n", "", CAUSAL),
    "no block at all": ("gl.maximum(gl.cdiv(end, BLOCK_N), 1)", "gl.cdiv(end, BLOCK_N)", EMPTY),
}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_noticed(monkeypatch, name):
    monkeypatch.setattr(gluon_cpu, "PATIENCE", 0.3)
    old, new, case = SLIPS[name]
    assert SOURCE.count(old) == 1, "the kernel has changed: adapt the slip"
    slipped = gluon_names.load(SOURCE.replace(old, new))
    noticed = (AssertionError, gluon_cpu.Deadlock, IndexError, ZeroDivisionError)
    with pytest.raises(noticed):
        play_often(slipped, case)


def play_often(module, case, times: int = 3):
    """A slip in a wait may be lucky once."""
    for _ in range(times):
        play(module, case)


@pytest.fixture(scope="module")
def compiled() -> dict:
    """What the compiler makes of two kernels, in a process that does not interpret them."""
    todo = [("gluon", 128, True), ("triton", 128, False)]
    code = f"from gpu import machine_code; print(dict(machine_code.job({todo})))"
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}", "TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


def test_the_compiler_hides_every_exponential_under_a_product_and_spills_nothing(compiled):
    found = {column: value for (_, row, column), value in compiled.items() if row[0] == "gluon"}
    assert found["of them hidden"] == found["exponentials a turn"] == 66
    assert found["spills in the loop"] == 0
    assert found["registers of a thread"] == 168
    assert found["instructions a turn"] < 700


def test_the_book_shows_the_machine_code_of_these_kernels(compiled):
    """If not: python3 benchmarks/flash_gpu.py --part code."""
    kept = json.loads(CODE.read_text(encoding="utf-8"))
    if kept["triton"] != version("triton"):
        pytest.skip(f"compiled with Triton {kept['triton']}")
    shown = {(table, tuple(row), column): value for table, row, column, value in kept["cells"]}
    assert {key: shown.get(key) for key in compiled} == compiled
