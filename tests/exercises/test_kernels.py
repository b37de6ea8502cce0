"""Kernels as students write them, in Triton's interpreter: what goes wrong in them is what the mistakes say."""

import importlib.util
from pathlib import Path

import pytest

from attncourse.grading import load

if load("attention_tile").left_out():
    pytest.skip("Triton is not installed", allow_module_level=True)

SOURCE = Path(__file__).with_name("tile_kernels.py").read_text(encoding="utf-8")
# What stands in the kernel `dots`, what a slip makes of it, and what is heard.
SLIPS = [
    ("tl.where(keys[None, :] < m, tl.dot(q, tl.trans(k)) * scale, float(\"-inf\"))", "tl.dot(q, tl.trans(k)) * scale",
     "Keys beyond m have the score 0"),
    ('* scale, float("-inf"))', "* scale, -100.0)", "All calls with ordinary scores are right"),
    ("v = tl.load(KV + D + at_key, mask=exists, other=0.0)", "v = tl.load(KV + D + at_key)", "Values beyond m are loaded"),
    ("keys[:, None] * 2 * D", "keys[:, None] * D", "Keys are read as if they lay one behind the other"),
    ("top = tl.max(scores, 1)", "top = tl.max(scores, 1) * 0.0", "there are NaN or infinite numbers"),
    ("rows = tl.program_id(0) * BLOCK_M + ", "rows = ",
     "In the launch 'whole tiles: 32 queries, 16 keys, head_dim 16, BLOCK_M 16, BLOCK_N 16' row 16 of Out is not"),
    ("tl.where(keys[None, :] < m", "tl.where(keys[None, :] < n", "Scores are hidden by n"),
]  # fmt: skip


def kernel(source: str, folder: Path):
    """The kernel `dots` of this source, read from a file as Triton wants it."""
    path = folder / "written.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dots


@pytest.mark.parametrize(("old", "new", "says"), SLIPS)
def test_a_slip_in_a_kernel_hears_its_sentence(old, new, says, tmp_path):
    begin, end = SOURCE.index("def dots("), SOURCE.index("@triton.jit\ndef products")
    own = SOURCE[begin:end]
    assert own.count(old) == 1
    source = SOURCE.replace(own, own.replace(old, new))
    verdict = load("attention_tile").grade(kernel(source, tmp_path))
    assert verdict.status == "failed"
    assert says in (verdict.diagnosis or verdict.findings[0]), verdict


STUB = """import triton
import triton.language as tl


@triton.jit
def dots(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    # your code here
    raise NotImplementedError
"""


def test_the_stub_is_not_attempted(tmp_path):
    assert load("attention_tile").grade(kernel(STUB, tmp_path)).status == "not attempted"


def test_a_kernel_that_would_be_compiled_is_told_what_to_do():
    compiled = type("JITFunction", (), {})()
    (said,) = load("attention_tile").grade(compiled).findings
    assert "restart the kernel and run the notebook from the top" in said


def test_a_function_is_no_kernel():
    (said,) = load("attention_tile").grade(lambda *arguments: None).findings
    assert "expected a kernel with @triton.jit above it, got function" in said
