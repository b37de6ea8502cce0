"""Exercise tile_limits: how many numbers a thread holds, and how many programs fit at once."""

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, seeded
from attncourse.grading.explain.counts import Made
from attncourse.grading.explain.probes import doubled, simpler

REGISTERS, RESERVED, KB = 65_536, 1024, 1024


def definition(block_m, block_n, head_dim, warps, registers, shared, card):
    """Deal the numbers out to the threads; put programs on the processor while there is room."""
    held = sum(1 for _ in range(0, block_m * (head_dim + block_n), 32 * warps))
    free, programs = [REGISTERS, card], 0
    while True:
        free = [free[0] - -(-registers // 8) * 8 * 32 * warps, free[1] - shared - RESERVED]
        if min(free) < 0:
            return held, programs
        programs += 1


CALLS = (  # block_m, block_n, head_dim, warps, registers, shared, bytes of the card
    (128, 64, 128, 8, 200, 65_536, 164 * KB),
    (128, 64, 128, 4, 255, 65_536, 164 * KB),
    (128, 128, 128, 8, 255, 163_840, 164 * KB),
    (128, 128, 128, 4, 255, 65_536, 64 * KB),  # more numbers than registers, and no room
    (16, 16, 16, 16, 32, 4_096, 100 * KB),  # half a number of each tile
    (64, 64, 64, 4, 160, 57_344, 228 * KB),
    (64, 32, 64, 4, 40, 32_768, 100 * KB),  # 1 KB more for each program, and one less fits
    (16, 64, 32, 1, 72, 8_192, 228 * KB),
    (64, 16, 64, 4, 102, 8_192, 228 * KB),  # 104 once they are rounded
    (64, 16, 64, 4, 97, 8_192, 228 * KB),  # 104, too
    (16, 16, 32, 1, 24, 256, 100 * KB),  # 80 fit exactly; with 1,000 bytes for the card one more
)


def cases(seed: int) -> list[Case]:
    g = seeded(seed)
    between = (2, 6), (33, 254), (5, 60)
    warps, registers, kib = (int(torch.randint(*x, (), generator=g)) for x in between)
    drawn = 96, 48, 80, 2 ** (warps % 4), registers, KB * kib, 132 * KB
    label = "tile {} x {}, head_dim {}, {} warps, {} registers, {:,} of {:,} bytes"
    return [Case(label.format(*call), call, gradients=False) for call in (*CALLS, drawn)]


def right(block_m, block_n, head_dim, warps, registers, shared, card):
    threads = 32 * warps
    held = (block_m * head_dim + block_m * block_n) // threads
    by_registers = REGISTERS // ((registers + 7) // 8 * 8 * threads)
    return held, min(by_registers, card // (shared + RESERVED))


QUESTIONS = (  # a sentence, registers, shared, bytes of the card
    ("64 x (64 + 16) numbers are dealt out to 128 threads", 32, KB, 200 * KB),
    ("100 KB of shared memory do not fit into 90", 32, 100 * KB, 90 * KB),
    ("9 KB of shared memory and 1 KB for each program: of 100 KB 10 have room",
     32, 9 * KB, 100 * KB),
    ("Of 20 KB of shared memory 10 programs take 2 KB each: their 1 and one more", 32, KB, 20 * KB),
    ("97 registers a thread are rounded up to 104", 97, KB, 200 * KB),
    ("1,000 bytes of shared memory and 1,024 for each program: of 102,400 50 have room",
     8, 1000, 100 * KB),
)  # fmt: skip
MADE = Made({"the 32 threads of a warp": 1 / 32}, others={"counting 4 bytes for a number": 4})
EXERCISE = Exercise(
    name="tile_limits",
    answer="read_row",
    judge=Counts(definition, cases),
    right=right,
    results=("held", "programs"),
    explain=(
        doubled(64, 64, 64, 4, 32, KB, 200 * KB, made=MADE),
        doubled(64, 64, 64, 4, 32, KB, 200 * KB, result=1, made=MADE),
        simpler(*((says, (64, 16, 64, 4, *rest)) for says, *rest in QUESTIONS)),
    ),
)
