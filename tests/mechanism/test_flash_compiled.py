"""The Triton kernels compiled for Ampere and Hopper, without a card: tensor cores, and no spilled register."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if not importlib.util.find_spec("triton") and os.environ.get("CI") != "true":
    pytest.skip("Triton is not installed", allow_module_level=True)

# Bytes of shared memory that one program may use: the smaller cards of Ampere and Ada, and Hopper.
SHARED = {"ampere": 99 * 1024, "hopper": 227 * 1024}


@pytest.fixture(scope="module")
def compiled() -> list[tuple[list, dict]]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    script = Path(__file__).parents[1] / "support" / "aot.py"
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_every_entry_of_the_tables_was_compiled(compiled):
    from attncourse.variants.flash import hopper
    from attncourse.variants.flash.tiles import TILES

    entries = sum(len(table) for table in TILES.values())
    # Full and causal; `key_value_kernel` ragged as well, and the Hopper kernel where it is not causal.
    assert len(compiled) == entries * 2 * (1 + 1 + 2) + len(hopper.TILES) * (2 + 1)


def test_tensor_cores_do_the_products(compiled):
    for case, facts in compiled:
        assert facts["mma"] + facts["wgmma"] > 0, case


def test_hopper_uses_its_own_tensor_cores(compiled):
    # A block of 32 columns is too small for them.
    exceptions = {("kernels.key_value_kernel", 256, True)}
    for (kernel, generation, width, is_causal, _), facts in compiled:
        if generation == "hopper" and (kernel, width, is_causal) not in exceptions:
            assert facts["wgmma"] > 0, (kernel, width, is_causal)
            assert facts["mma"] == 0, (kernel, width, is_causal)


def test_loads_run_ahead(compiled):
    for case, facts in compiled:
        assert facts["ahead"] > 0, case


def test_no_register_is_spilled(compiled):
    for (*case, is_ragged), facts in compiled:
        # A ragged edge costs a few: masks need registers, and 255 is all that a thread has.
        assert facts["spills"] <= (8 if is_ragged else 0), (case, facts)


def test_tiles_fit_into_shared_memory(compiled):
    for (kernel, generation, *case), facts in compiled:
        assert 0 < facts["shared"] <= SHARED[generation], (kernel, generation, case, facts)


def test_hopper_kernel_uses_what_it_is_named_for(compiled):
    ours = [facts for (kernel, *_), facts in compiled if kernel == "hopper.forward_kernel"]
    assert ours
    for facts in ours:
        assert facts["tma"] > 0
        assert facts["handed_over"] > 0, "no warps were specialized"


@pytest.mark.tables
def test_table_of_the_book(compiled, book_table):
    names = {kernel for (kernel, *_), _ in compiled}
    assert names == {
        "kernels.forward_kernel",
        "kernels.query_kernel",
        "kernels.key_value_kernel",
        "hopper.forward_kernel",
    }
    book_table(
        "flash_compiled",
        caption="What the compiler makes of the FlashAttention kernels",
        note="bfloat16, lengths that are multiples of the tile. Compiled, not run: registers of a thread "
        "(255 is the most there are), shared memory of a program, and tensor-core instructions in the code.",
        columns=["kernel", "card", "head width", "causal", "registers", "shared KiB", "products"],
        rows=[
            [kernel, card.capitalize(), width, is_causal, facts["registers"],
             facts["shared"] // 1024, facts["mma"] + facts["wgmma"]]
            for (kernel, card, width, is_causal, is_ragged), facts in compiled
            if not is_ragged
        ],
    )  # fmt: skip
