"""The Triton kernels, compiled through their launchers for cards that are not here: what the machine code holds."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if not importlib.util.find_spec("triton") and os.environ.get("CI") != "true":
    pytest.skip("Triton is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def compiled() -> list[tuple[list, dict, dict]]:
    """Of each kernel the case, what its code holds, and what is wrong with it."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    script = Path(__file__).parents[1] / "support" / "flash" / "aot.py"
    command = [sys.executable, script]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_every_entry_of_the_tables_was_compiled(compiled):
    """And for its own card: the launchers look the tiles up."""
    from attncourse.variants.flash import hopper
    from attncourse.variants.flash.tiles import TILES

    names = ("forward_kernel", "query_kernel", "key_value_kernel", "key_value_kernel")
    where = {"ampere": ((8, 0), "bfloat16"), "hopper": ((9, 0), "bfloat16")}
    where["float32"] = ((8, 0), "float32")
    entries = {
        (f"kernels.{name}", *where[generation], width, *tile)
        for generation, table in TILES.items()
        for width, tiles in table.items()
        for name, tile in zip(names, tiles, strict=True)
    }
    found = {
        (kernel, tuple(card), dtype, width, *facts["tile"])
        for (kernel, card, width, _, _, dtype, _), facts, _ in compiled
    }
    assert entries <= found
    ours = {("hopper.forward_kernel", width, *tile[:2]) for width, tile in hopper.TILES.items()}
    assert ours <= {(kernel, width, *tile[:2]) for kernel, _, _, width, *tile in found}


FAULTS = ["spills", "shared", "products", "wgmma", "ahead", "copies", "hopper"]


@pytest.mark.parametrize("fault", FAULTS)
def test_no_kernel_has_the_fault(compiled, fault):
    """`faults` of tests/support/flash/aot.py says what each of them is."""
    found = {tuple(map(str, case)): wrong[fault] for case, _, wrong in compiled if fault in wrong}
    assert not found


def test_loops_and_copies_were_found(compiled):
    """A reader of machine code that finds nothing finds no fault either."""
    for (kernel, *_), facts, _ in compiled:
        assert facts["turn"] > 100, kernel
        assert bool(facts["copies"]) == (kernel == "hopper.forward_kernel"), kernel


@pytest.mark.tables
def test_table_of_the_book(compiled, book_table):
    cards = {(8, 0): "Ampere", (9, 0): "Hopper"}
    book_table(
        "flash_compiled",
        caption="What the compiler makes of the FlashAttention kernels",
        note="bfloat16, lengths that are multiples of the tile. Compiled, not run: registers of a thread "
        "(255 is the most there are), shared memory of a program, instructions in one turn of its inner "
        "loop with the part that masks, and instructions for tensor cores in the whole code.",
        columns=["kernel", "card", "head width", "causal", "registers", "shared KiB", "turn", "products"],
        rows=[
            [kernel, cards[tuple(card)], width, is_causal, facts["registers"],
             facts["shared"] // 1024, facts["turn"], facts["mma"] + facts["wgmma"]]
            for (kernel, card, width, is_causal, _, dtype, _), facts, _ in compiled
            if tuple(card) in cards and dtype == "bfloat16"
        ],
    )  # fmt: skip
