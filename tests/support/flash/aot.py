"""Compiles the Triton kernels for cards that are not here, as their launchers start them, and judges the code.

    python tests/support/flash/aot.py         every entry of the tables of tiles once: what the tests look at
    python tests/support/flash/aot.py --all   every card, dtype, rule and edge; minutes; exit code 1 if a fault is found

One JSON line for each kernel. A process of its own, because Triton interprets or compiles for as long as a
process lives.
"""

import json
import math
import re
import sys
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple
from unittest import mock

import torch

from attncourse.variants.flash import hopper, kernels
from attncourse.variants.flash.compiled import Code, imagined_card

# KiB of shared memory that one program may use, by compute capability.
CARDS = {(8, 0): 163, (8, 6): 99, (8, 9): 99, (9, 0): 227, (12, 0): 99}
INSTRUCTIONS = {
    "mma": "HMMA",  # tensor cores, Ampere
    "wgmma": "HGMMA",  # tensor cores, Hopper
    "ahead": "LDGSTS|UTMALDG",  # loads that run ahead of the computation
    "tma": "UTMALDG",  # the tensor memory unit
    "handed_over": "USETMAXREG",  # specialized warps hand registers to each other
}


class Case(NamedTuple):
    """A kernel for a card. Ragged: lengths are no multiples of the tile."""

    kernel: str
    card: tuple[int, int]
    width: int
    is_causal: bool
    is_ragged: bool = False
    dtype: str = "bfloat16"
    precision: str = "high"


def entries() -> Iterator[Case]:
    """Every entry of the tables once, causal, which needs most registers; on other cards what needs most of all."""
    for card, dtype in (((8, 0), "bfloat16"), ((9, 0), "bfloat16"), ((8, 0), "float32")):
        for width in (64, 128, 256):
            yield Case("kernels.forward_kernel", card, width, True, dtype=dtype)
            yield Case("kernels.query_kernel", card, width, True, dtype=dtype)
            yield Case("kernels.key_value_kernel", card, width, True, dtype=dtype)
            if card == (9, 0):  # elsewhere full attention has the same tiles
                yield Case("kernels.key_value_kernel", card, width, False, dtype=dtype)
    for width in hopper.TILES:
        yield Case("hopper.forward_kernel", (9, 0), width, True)
    for card in ((8, 6), (8, 9), (12, 0)):
        yield Case("kernels.query_kernel", card, 128, True)


def everything() -> Iterator[Case]:
    """All kernels for all cards."""
    names = ("forward_kernel", "query_kernel", "key_value_kernel")
    dtypes = (("bfloat16", "high"), ("float32", "high"), ("float32", "highest"))
    rules = product((64, 128, 256), (False, True), (False, True))
    for card, (dtype, precision), rule in product(CARDS, dtypes, list(rules)):
        for name in names:
            yield Case(f"kernels.{name}", card, *rule, dtype, precision)
        if card == (9, 0) and rule[0] <= 128 and dtype != "float32":
            yield Case("hopper.forward_kernel", card, *rule, dtype, precision)


def code(case: Case) -> Code:
    """The launcher is called with everything as it would be on the card; only this kernel is compiled."""
    n = 500 if case.is_ragged else 512
    x = torch.zeros(1, 2, n, case.width, dtype=getattr(torch, case.dtype))
    rows = torch.zeros(1, 2, n)
    torch.set_float32_matmul_precision(case.precision)
    module, name = case.kernel.split(".")
    others = {x: mock.MagicMock() for x in {"query_kernel", "key_value_kernel"} - {name}}
    with imagined_card(case.card) as codes, mock.patch.multiple(kernels, **others):
        if name == "forward_kernel":
            {"kernels": kernels, "hopper": hopper}[module].forward(x, x, x, 0.1, case.is_causal)
        else:
            kernels.backward(x, rows, x, x, x, x, rows, 0.1, case.is_causal)
    (found,) = codes
    return found


def facts(found: Code) -> dict:
    """What the tests want to know of the code, as numbers."""
    texts = [text for _, text in found.instructions]
    counts = {x: sum(bool(re.search(rf"\b(?:{names})\b", text)) for text in texts)
              for x, names in INSTRUCTIONS.items()}  # fmt: skip
    options = found.compiled.metadata
    blocks = [found.constants[x] for x in ("BLOCK_M", "BLOCK_N")]
    return counts | {
        "tile": [*blocks, options.num_warps, options.num_stages],
        "registers": found.registers,
        "shared": found.shared,
        "spills": found.spills,
        "turn": len(found.turn),
        "copies": copies(found.compiled.asm["ttgir"]),
    }


def copies(ttgir: str) -> list[tuple[int, int]]:
    """Of each copy by the tensor memory unit: numbers in the descriptor's tile, and in the memory it fills."""
    lines = [x for x in ttgir.splitlines() if "async_tma_copy_global_to_local" in x]
    sizes = r"([0-9x]+)x(?:bf16|f16)"
    found = [(re.search(rf"tensordesc<(?:tensor<)?{sizes}", x)[1], re.findall(rf"memdesc<{sizes}", x)[-1])
             for x in lines]  # fmt: skip
    return [tuple(math.prod(map(int, shape.split("x"))) for shape in pair) for pair in found]


def faults(case: Case, found: dict) -> dict[str, str]:
    """What is wrong with the code of a kernel, by the kind of fault."""
    wrong = {}
    limit = CARDS[tuple(case.card)] * 1024
    if found["shared"] > limit:
        wrong["shared"] = f"{found['shared']} bytes of shared memory, of {limit}"
    is_exact = case.precision == "highest" and case.dtype == "float32"
    # A ragged edge costs a few: masks need registers. Exact products of 32 bits leave fewest.
    edge = 24 if is_exact else 8
    if found["spills"] > (edge if case.is_ragged else 0):
        wrong["spills"] = f"{found['spills']} spilled registers"
    if is_exact:
        return wrong  # exact products of 32 bits are not for tensor cores
    if not found["mma"] + found["wgmma"]:
        wrong["products"] = "no product on the tensor cores"
    # A block of 32 columns is too small for Hopper's.
    small = case.kernel == "kernels.key_value_kernel" and case.width == 256 and case.is_causal
    if tuple(case.card) == (9, 0) and found["mma"] and not small and case.dtype != "float32":
        wrong["wgmma"] = "products on the tensor cores as Ampere does them"
    if not found["ahead"]:
        wrong["ahead"] = "no load runs ahead"
    if any(there != here for there, here in found["copies"]):
        wrong["copies"] = f"a copy and its descriptor differ in size: {found['copies']}"
    if case.kernel.startswith("hopper") and not (found["tma"] and found["handed_over"]):
        wrong["hopper"] = "no tensor memory unit, or no specialized warps"
    return wrong


if __name__ == "__main__":
    failed = False
    for one in everything() if "--all" in sys.argv else entries():
        its_facts = facts(code(one))
        its_faults = faults(one, its_facts)
        failed = failed or bool(its_faults)
        print(json.dumps([one, its_facts, its_faults]), flush=True)
    sys.exit(failed and "--all" in sys.argv)
