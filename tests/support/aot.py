"""Compiles the Triton kernels for cards that are not here, and says what the compiler made of them.

    python tests/support/aot.py        one JSON line for each kernel, card, width and rule

A process of its own, because Triton interprets or compiles for as long as a process lives.
"""

import json
import re
import subprocess
import tempfile

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from attncourse.variants.flash import hopper, kernels
from attncourse.variants.flash.tiles import TILES

CAPABILITY = {"ampere": 80, "hopper": 90}
INSTRUCTIONS = {
    "mma": "HMMA",  # tensor cores, Ampere
    "wgmma": "HGMMA",  # tensor cores, Hopper
    "ahead": "LDGSTS|UTMALDG",  # loads that run ahead of the computation
    "tma": "UTMALDG",  # the tensor memory unit
    "handed_over": "USETMAXREG",  # specialized warps hand registers to each other
    "spills": "LDL|STL",  # registers that did not suffice
}


def source(kernel, constants: dict, dtype: str) -> ASTSource:
    """The kernel with the types of its arguments, aligned pointers, and its constants."""
    signature = {}
    for name in kernel.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        elif name[0].isupper():
            signature[name] = "*fp32" if name in ("Lse", "DLse", "Delta") else f"*{dtype}"
        else:
            signature[name] = "fp32" if name == "scale" else "i32"
    # At run time Triton sees that addresses are multiples of 16. Untold, it would not load ahead.
    aligned = [["tt.divisibility", 16]]
    pointers = [i for i, kind in enumerate(signature.values()) if kind.startswith("*")]
    return ASTSource(
        kernel,
        signature,
        {(kernel.arg_names.index(name),): value for name, value in constants.items()},
        {(i,): aligned for i in pointers},
    )


def facts(capability: int, kernel, constants: dict, tile, dtype: str = "bf16") -> dict:
    """Registers of a thread, shared bytes, and how often each kind of instruction stands in the code."""
    constants = {
        name: value
        for name, value in {**constants, "BLOCK_M": tile.rows, "BLOCK_N": tile.columns}.items()
        if name in kernel.arg_names
    }
    compiled = triton.compile(
        source(kernel, constants, dtype),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": tile.warps, "num_stages": tile.stages},
    )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage, code = (
            subprocess.run(
                [triton.knobs.nvidia.cuobjdump.path, option, file.name],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for option in ("-res-usage", "-sass")
        )
    counts = {x: len(re.findall(rf"\b(?:{word})\b", code)) for x, word in INSTRUCTIONS.items()}
    registers = int(re.search(r"REG:(\d+)", usage)[1])
    return {"registers": registers, "shared": compiled.metadata.shared} | counts


def all_facts():
    """Every entry of the tables of tiles: full and causal, whole blocks of rows and ragged ones."""
    table = [
        (generation, kernel, width, tile, is_causal)
        for generation, entries in TILES.items()
        for width, (forward, query, full, causal) in entries.items()
        for is_causal in (False, True)
        for kernel, tile in (
            (kernels.forward_kernel, forward),
            (kernels.query_kernel, query),
            (kernels.key_value_kernel, causal if is_causal else full),
        )
    ]
    table += [
        ("hopper", hopper.forward_kernel, width, tile, is_causal)
        for width, tile in hopper.TILES.items()
        for is_causal in (False, True)
    ]
    for generation, kernel, width, tile, is_causal in table:
        # The Hopper kernel masks all causal blocks, so that ragged ones are no case of their own.
        one = "RAGGED" not in kernel.arg_names or (is_causal and kernel is hopper.forward_kernel)
        for is_ragged in (False,) if one else (False, True):
            constants = {"D": width, "E": width, "CAUSAL": is_causal, "RAGGED": is_ragged}
            constants |= {"PRECISION": "tf32", "SPECIALIZE": True}
            found = facts(CAPABILITY[generation], kernel, constants, tile)
            name = kernel.fn.__module__.split(".")[-1] + "." + kernel.__name__
            yield [name, generation, width, is_causal, is_ragged], found


if __name__ == "__main__":
    for case, found in all_facts():
        print(json.dumps([case, found]), flush=True)
