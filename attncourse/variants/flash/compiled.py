"""What the compiler makes of a Triton kernel for a card that need not be there.

Inside ``with imagined_card((9, 0)) as codes:`` a kernel that is started is compiled for that card and not
run. Everything else happens as it would there: the tiles are chosen, arguments are bound, and what is
known of them (a length that is a multiple of 16, a stride of 1) goes into the code.

    with imagined_card((9, 0)) as codes:
        kernels.forward(query, key, value, scale=0.125)      # on the CPU; only shapes and dtypes matter
    codes[0].registers, codes[0].spills, codes[0].shared, codes[0].turn
"""

import importlib.util
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

from attncourse.variants.flash import tiles

# What an instruction is for, by its name in machine code; the first that fits.
KINDS = {
    "tensor core": "HGMMA|HMMA|IMMA|QGMMA|UTC[A-Z]*MMA",
    "exponential": "MUFU",  # the unit for exp2, log2 and 1 / x
    "spill": "LDL|STL",  # a register that did not suffice: to memory and back
    "load ahead": "LDGSTS|UTMALDG",  # starts a copy from global to shared memory and goes on
    "wait": "WARPGROUP|WARPSYNC|LDGDEPBAR|DEPBAR|BAR|SYNCS|MEMBAR|FENCE|ERRBAR",
    "global memory": "LDG|STG|UTMASTG",
    "shared memory": "LDS|STS|LDSM|STSM",
    "between threads": "SHFL|MOVM|REDUX",
    "float": "F[A-Z0-9]+|H[A-Z0-9]+",  # maximum, sum, product, rounding to 16 bits
}


class Code(NamedTuple):
    """The machine code of one kernel.

    Args:
        kernel: name of the function.
        constants: what was known when it was compiled: ``CAUSAL``, sizes of the tile, and so on.
        registers: of a thread, out of 255; a kernel with specialized warps passes some on while it runs.
        shared: bytes of shared memory of one program.
        warps: of one program, those included that only load.
        instructions: (address, instruction) in the order of the code, which is not that of time.
        compiled: Triton's own result; ``compiled.asm`` holds its stages, from "ttir" over "ptx" to "cubin".
    """

    kernel: str
    constants: dict
    registers: int
    shared: int
    warps: int
    instructions: list[tuple[int, str]]
    compiled: object = None

    @property
    def counts(self) -> Counter:
        """How many instructions of each of `KINDS` stand in the code."""
        return Counter(kind(text) for _, text in self.instructions)

    @property
    def spills(self) -> int:
        """Instructions that carry a register to memory, or back, because there are too few."""
        return self.counts["spill"]

    @property
    def turns(self) -> list[list[str]]:
        """Of each innermost loop that multiplies on the tensor cores: the instructions of one turn.

        A part that a turn may jump over, as the mask is, is in it.
        """
        jumps = [(jump_target(text), address) for address, text in self.instructions]
        loops = [(start, end) for start, end in jumps if start is not None and start < end]
        found = []
        for start, end in loops:
            body = [text for address, text in self.instructions if start <= address <= end]
            inner = any(start <= a and b <= end and (a, b) != (start, end) for a, b in loops)
            if not inner and any(kind(text) == "tensor core" for text in body):
                found.append(body)
        return found

    @property
    def turn(self) -> list[str]:
        """The longest of `turns`."""
        return max(self.turns, key=len, default=[])


def kind(instruction: str) -> str:
    """Which of `KINDS` an instruction is, or "other": addresses, counters, comparisons, jumps."""
    name = re.sub(r"^@!?U?P\w+\s+", "", instruction)
    return next((x for x, names in KINDS.items() if re.match(rf"(?:{names})\b", name)), "other")


def jump_target(instruction: str) -> int | None:
    """The address that an instruction may go on with instead of the next one."""
    found = re.search(r"\bBRA\b.*?\b0x([0-9a-f]+)", instruction)
    return int(found[1], 16) if found else None


@contextmanager
def imagined_card(capability: tuple[int, int]) -> Iterator[list[Code]]:
    """Kernels started within are compiled for a card of this compute capability, and not run.

    Args:
        capability: (7, 5) is a T4, (8, 0) an A100, (8, 6) and (8, 9) smaller ones, (9, 0) Hopper, (12, 0) a GeForce 50.

    Returns: a list to which each kernel that is started adds its `Code`. Outputs hold nothing of meaning.

    Raises:
        RuntimeError: Triton is missing, or interprets kernels in this process instead of compiling them.

    Cost: a second or two of one core for each kernel that Triton has not kept from an earlier time.
    """
    lack = ""
    if not importlib.util.find_spec("triton"):
        lack = "Triton, which is not installed: pip install 'attncourse[gpu]' (Linux only)"
    elif os.environ.get("TRITON_INTERPRET") == "1":
        lack = "a process without TRITON_INTERPRET=1, in which Triton interprets kernels instead"
    if lack:
        raise RuntimeError(f"compiling a kernel needs {lack}")
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    codes = []
    run = JITFunction.run

    def compile_only(function, *args, grid, warmup, **options):
        compiled = run(function, *args, grid=grid, warmup=True, **options)
        codes.append(read(function, compiled))
        return compiled

    driver.set_active(Driver(capability))
    try:
        with (
            mock.patch.object(JITFunction, "run", compile_only),
            mock.patch.object(tiles, "capability_of", return_value=capability),
        ):
            yield codes
    finally:
        driver.set_active(None)  # Triton looks for the real one when it needs it


class Driver:
    """What Triton asks about the machine, answered for the imagined card."""

    def __init__(self, capability: tuple[int, int]):
        self.arch = 10 * capability[0] + capability[1]

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.arch, 32)

    def get_current_device(self) -> str:
        return f"imagined {self.arch}"  # a name of its own: Triton keeps its kernels by device

    def get_current_stream(self, device=None) -> int:
        return 0


def read(function, compiled) -> Code:
    """The machine code in a compiled kernel, read by the disassembler that Triton brings."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-sass", "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", text)
    return Code(
        kernel=function.__name__,
        constants={function.arg_names[i]: x for (i, *_), x in compiled.src.constants.items()},
        registers=int(re.findall(r"REG:(\d+)", text)[0]),
        shared=compiled.metadata.shared,
        warps=compiled.metadata.num_warps,
        instructions=[(int(address, 16), instruction) for address, instruction in lines],
        compiled=compiled,
    )
