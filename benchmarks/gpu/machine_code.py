"""The machine code of the forward pass for a Hopper card: it needs Triton's compiler, and no card."""

import re
from itertools import groupby
from unittest import mock

import torch

from attncourse.variants.flash import compiled
from gpu.candidates import SETTINGS, forward_of
from gpu.jobs import each

CAPABILITY, PROCESSORS = (9, 0), 132
SHARED, REGISTERS = (
    227 * 1024,
    65536,
)  # of one processor; Triton keeps 1 KiB of each program's for itself
COLUMNS = (
    "registers of a thread", "shared KiB", "programs on a processor", "spills in the loop",
    "instructions a turn", "exponentials a turn", "of them hidden",
)  # fmt: skip
KERNELS = ("triton", "descriptors", "hopper", "gluon")
# The letters of a strip; "o" is anything else.
LETTERS = {"tensor core": "p", "exponential": "e", "wait": "w", "load ahead": "l", "spill": "s"}


def code_of(name: str, head_dim: int, is_causal: bool) -> compiled.Code:
    """The code that a candidate's launcher makes for whole blocks of bfloat16."""
    qkv = (torch.zeros(1, 2, 1024, head_dim, dtype=torch.bfloat16) for _ in range(3))
    with (
        compiled.imagined_card(CAPABILITY) as codes,
        mock.patch("gpu.gluon_forward.processors", return_value=PROCESSORS),
    ):
        forward_of(name)(*qkv, head_dim**-0.5, is_causal)
    return codes[0]


def programs(code: compiled.Code) -> int:
    """How many programs fit on a processor at the same time."""
    by_registers = REGISTERS // (code.registers * 32 * code.warps)
    return min(SHARED // (code.shared + 1024), by_registers)


def letter(instruction: str) -> str:
    """Its place in a strip: q ends a group of products; y waits until one group runs, z until none does."""
    if wait := re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x([01])", instruction):
        return "zy"[int(wait[1])]
    found = LETTERS.get(compiled.kind(instruction), "o")
    return "q" if found == "p" and instruction.endswith("gsb0") else found


def strip(turn: list[str]) -> str:
    """The instructions of a turn, run by run: "12o 8p 1w"."""
    return " ".join(f"{len(list(run))}{kind}" for kind, run in groupby(map(letter, turn)))


def hidden(turn: list[str]) -> int:
    """Exponentials that start while a product of matrices is under way.

    Products run on their own from the instruction that ends a group until a wait leaves no more than so many
    groups. The turn is walked through twice, because a product may begin in the turn before.
    """
    under_way, found = 0, 0
    for _ in range(2):
        found = 0
        for x in map(letter, turn):
            found += x == "e" and under_way > 0
            under_way = {"q": under_way + 1, "y": min(under_way, 1), "z": 0}.get(x, under_way)
    return found


def entries(names=KERNELS) -> list[tuple]:
    mine = [name for name in KERNELS if name in names]
    return [(name, *setting) for setting in SETTINGS for name in mine]


def goal(entry: tuple) -> tuple:
    return "strips", entry, "turn"


def measure(entry: tuple):
    code = code_of(*entry)
    letters = "".join(map(letter, code.turn))
    values = (
        code.registers, round(code.shared / 1024, 1), programs(code), letters.count("s"),
        len(letters), letters.count("e"), hidden(code.turn),
    )  # fmt: skip
    for column, value in zip(COLUMNS, values, strict=True):
        yield ("code", entry, column), value
    yield goal(entry), strip(code.turn)


def job(todo: list[tuple]):
    """Yield (("code", (kernel, head_dim, is_causal), column), number), and the strip of the inner loop."""
    yield from each(todo, goal, measure)
