"""Exercise tile_limits: what a row of the compiler's table says: is it near spilling, and how many programs fit at once?"""

from functools import partial

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case
from attncourse.grading.told import SeveralCounts

REGISTERS, RESERVED = 65_536, 1024


def definition(block_m, block_n, head_dim, warps, registers, shared, card):
    """Deal the numbers out to the threads; then put programs on the multiprocessor while there is room."""
    held = sum(1 for _ in range(0, block_m * (head_dim + block_n), 32 * warps))
    free, programs = [REGISTERS, card], 0
    while True:
        free = [free[0] - -(-registers // 8) * 8 * 32 * warps, free[1] - shared - RESERVED]
        if min(free) < 0:
            return held, programs
        programs += 1


CALLS = (  # block_m, block_n, head_dim, warps, registers, shared, bytes of the card
    (128, 64, 128, 8, 200, 65_536, 164 * 1024),
    (128, 64, 128, 4, 255, 65_536, 164 * 1024),
    (128, 32, 128, 8, 192, 49_152, 164 * 1024),
    (128, 32, 128, 8, 192, 81_920, 100 * 1024),
    (128, 128, 128, 8, 255, 163_840, 164 * 1024),
    (128, 128, 128, 8, 255, 163_840, 100 * 1024),
    (64, 64, 64, 4, 160, 57_344, 228 * 1024),
    (32, 32, 64, 2, 96, 17_408, 228 * 1024),
    (64, 32, 64, 4, 40, 32_768, 100 * 1024),  # 1 KB more for each program, and one less fits
    (16, 64, 32, 1, 72, 8_192, 228 * 1024),
    (64, 16, 64, 4, 102, 8_192, 228 * 1024),  # 104 once they are rounded
    (64, 16, 64, 4, 103, 8_192, 228 * 1024),
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    between = (2, 6), (33, 254), (5, 60)
    warps, registers, kib = (int(torch.randint(*x, (), generator=g)) for x in between)
    drawn = 96, 48, 80, 2 ** (warps % 4), registers, 1024 * kib, 132 * 1024
    return [Case("tile {} x {}, head_dim {}, {} warps, {} registers, {:,} of {:,} bytes".format(*x), x, gradients=False)
            for x in (*CALLS, drawn)]  # fmt: skip


def read(
    block_m, block_n, head_dim, warps, registers, shared, card, numbers=lambda a, b, d: a * d + a * b,
    threads=lambda warps: 32 * warps, rounded=lambda r: (r + 7) // 8 * 8, file=REGISTERS, taken=lambda s: s + RESERVED,
    least=min, finish=lambda held, programs: (held, programs),
):  # fmt: skip
    """A right answer in steps; a mistake replaces one of them."""
    held = numbers(block_m, block_n, head_dim) // threads(warps)
    by_registers = file // (rounded(registers) * threads(warps))
    return finish(held, least(by_registers, card // taken(shared)))


ACCEPTED = Accepted(steps=read)


@ACCEPTED.add
def tensors(block_m, block_n, head_dim, warps, registers, shared, card):
    one = torch.tensor([-(-registers // 8) * 8 * 32 * warps, shared + 1024])
    held = torch.tensor(block_m * (head_dim + block_n)) // (32 * warps)
    return held, (torch.tensor([65_536, card]) // one).min()


@ACCEPTED.add
def by_search(block_m, block_n, head_dim, warps, registers, shared, card):
    def fits(k):
        rows = [k * warps * ((registers * 32 + 255) // 256) <= 256, k * (shared + 1024) <= card]
        return all(rows)

    most = max(k for k in range(2000) if fits(k))
    return (block_m * head_dim + block_m * block_n) // warps // 32, most


@ACCEPTED.add
def in_float32_numbers(block_m, block_n, head_dim, warps, registers, shared, card):
    threads = warps * 32
    while registers % 8:
        registers += 1
    held = block_m * head_dim / threads + block_m * block_n / threads
    return [int(held), min(int(65_536 / threads / registers), int(card / (shared + 1024)))]


MISTAKES = Mistakes(Mistake(says, partial(read, **steps)) for says, steps in (
    ("Only the output tile is counted; the scores are held at the same time.", {"numbers": lambda a, b, d: a * d}),
    ("Only the scores are counted; the output tile is held through all turns.", {"numbers": lambda a, b, d: a * b}),
    ("Keys are counted; they lie in shared memory. Held are the output tile and the scores.",
     {"numbers": lambda a, b, d: a * d + a * b + b * d}),
    ("The output tile is taken to be block_n rows high; it has a row for each of the block_m queries.",
     {"numbers": lambda a, b, d: b * d + a * b}),
    ("These are bytes; a number in float32 takes one register.", {"numbers": lambda a, b, d: 4 * (a * d + a * b)}),
    ("Two numbers share a register here, as in 16 bits; both tiles are in float32.",
     {"numbers": lambda a, b, d: (a * d + a * b) // 2}),
    ("A warp is counted as one thread; it has 32.", {"threads": lambda warps: warps}),
    ("One warp is counted; a program has several, and they share its tiles.", {"threads": lambda warps: 32}),
    ("Registers are handed out in eights: round up before you multiply.", {"rounded": lambda r: r}),
    ("Registers are rounded to a power of 2; they are handed out in eights.",
     {"rounded": lambda r: 1 << (r - 1).bit_length()}),
    ("The registers are rounded down; a thread gets at least what it asks for.", {"rounded": lambda r: r // 8 * 8}),
    ("The 65,536 registers are taken for bytes; each of them holds 4.", {"file": REGISTERS // 4}),
    ("The kilobyte that each program takes on top is forgotten.", {"taken": lambda s: s}),
    ("Only shared memory is looked at; the registers can run out first.", {"least": lambda r, s: s}),
    ("Only the registers are looked at; shared memory can run out first.", {"least": lambda r, s: r}),
    ("What allows more programs decides; both must suffice.", {"least": max}),
    ("There is always one program here; a tile that does not fit cannot be launched at all.",
     {"least": lambda r, s: max(1, min(r, s))}),
    ("The order is (programs, held); return (held, programs).", {"finish": lambda held, programs: (programs, held)}),
    ("These are warps; count programs.", {"least": lambda r, s: 8 * min(r, s)}),
    ("Only the number of programs is returned; return (held, programs).", {"finish": lambda held, programs: programs}),
))  # fmt: skip

EXERCISE = Exercise(
    name="tile_limits",
    answer="read_row",
    judge=SeveralCounts(definition, cases, names=("held", "programs")),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
