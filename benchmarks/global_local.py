"""Longformer and BigBird against transformers' own layers, on the same weights, and against full attention.

    python benchmarks/global_local.py [longformer] [bigbird]

Time is CPU time of one thread, the best of interleaved repeats; memory is what torch's profiler saw. The library is
installed by ``pip install -e ".[bench]"``. Its layers end before the output projection, so ours do here.
"""

import sys

import numpy as np
import torch
from flash import growth
from results import write_table
from timing import best_seconds
from torch import nn

from attncourse import SelfAttention, merge_heads
from attncourse.lab.memory import peak_bytes
from attncourse.variants.bigbird import BigBirdPlan, bigbird_attention, bigbird_plan
from attncourse.variants.longformer import LongformerAttention

WIDTH, HEADS, WINDOW = 256, 4, 256  # of Longformer: 128 neighbours on each side
BLOCK, RANDOM = 64, 3
LENGTHS = (1024, 2048, 4096, 8192)
LIMIT = 1.0  # times the library's time


def full_attention() -> nn.Module:
    """The layer without a plan or a window, by torch's fused function."""
    layer = SelfAttention(WIDTH, HEADS)
    layer.out_proj = nn.Identity()
    return layer


def longformer_layers() -> tuple[nn.Module, nn.Module]:
    """Ours and the library's, with the same six projections."""
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    torch.manual_seed(0)
    ours = LongformerAttention(WIDTH, HEADS, WINDOW)
    ours.out_proj = nn.Identity()
    config = LongformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_window=[WINDOW],
        attention_probs_dropout_prob=0.0,
    )
    theirs = LongformerSelfAttention(config, layer_id=0)
    for name in ("query", "key", "value"):
        for kind in ("", "_global"):
            projection = getattr(ours, f"{name[0]}{kind}_proj")
            projection.reset_parameters()  # the global ones start as copies
            getattr(theirs, name + kind).load_state_dict(projection.state_dict())
    return ours, theirs


def longformer(length: int, dtype=torch.float32) -> list[tuple[nn.Module, callable]]:
    """(layer, call) of ours, the library's and full attention; token 0 and the one in the middle are global."""
    ours, theirs = (layer.to(dtype) for layer in longformer_layers())
    x = torch.randn(1, length, WIDTH, dtype=dtype)
    is_global = torch.zeros(1, length, dtype=torch.bool)
    is_global[0, [0, length // 2]] = True
    code = 10_000.0 * is_global  # the library's way to say it
    nobody = torch.zeros_like(is_global)
    full = full_attention().to(dtype)
    return [
        (ours, lambda: ours(x, is_global)),
        (theirs, lambda: theirs(x, code, nobody, is_global, True)[0]),
        (full, lambda: full(x)),
    ]


def recorded_plan(layer, call, num_blocks: int) -> BigBirdPlan:
    """The blocks that the library has drawn in a call, as a plan of ours."""
    seen, draw = [], layer._bigbird_block_rand_mask_with_head
    layer._bigbird_block_rand_mask_with_head = lambda **options: (
        seen.append(draw(**options)) or seen[-1]
    )
    call()
    drawn = torch.from_numpy(np.stack(seen[-1])).long()
    fixed = bigbird_plan(num_blocks, 0, HEADS).blocks
    return BigBirdPlan(num_blocks, torch.cat([fixed, drawn], dim=-1))


def bigbird(
    length: int, dtype=torch.float32, same_plan: bool = False
) -> list[tuple[nn.Module, callable]]:
    """As `longformer`. In evaluation the library reads block 0 in place of the random ones, so it is training."""
    from transformers import BigBirdConfig, BigBirdModel
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

    torch.manual_seed(0)
    config = BigBirdConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, block_size=BLOCK, num_random_blocks=RANDOM
    )
    theirs = BigBirdBlockSparseAttention(config, seed=0).to(dtype).train()
    ours, full = full_attention().to(dtype), full_attention().to(dtype)
    for name in ("query", "key", "value"):
        getattr(ours, f"{name[0]}_proj").load_state_dict(getattr(theirs, name).state_dict())
    x = torch.randn(1, length, WIDTH, dtype=dtype)
    present = torch.ones(1, length, dtype=dtype)
    blocked, band, rows, columns = BigBirdModel.create_masks_for_block_sparse_attn(present, BLOCK)
    library = lambda: theirs(x, band, rows, columns, blocked, blocked)[0]  # noqa: E731
    num_blocks = length // BLOCK
    drawn = same_plan and recorded_plan(theirs, library, num_blocks)
    plan = drawn or bigbird_plan(num_blocks, RANDOM, HEADS)
    return [
        (ours, lambda: merge_heads(bigbird_attention(*ours.project(x, x, x), plan, BLOCK))),
        (theirs, library),
        (full, lambda: full(x)),
    ]


def training_step(layer: nn.Module, call) -> callable:
    def step():
        layer.zero_grad()
        call().square().mean().backward()

    return step


def difference(pair) -> str:
    """The largest between ours and the library's, in float64; it takes some steps in float32."""
    with torch.no_grad():
        (_, ours), (_, theirs), _ = pair
        largest = (ours() - theirs()).abs().max().item()
    assert largest < 1e-6, largest
    return f"{largest:.0e}"


def table(name: str, make, largest: str, what: str, lengths: tuple[int, ...] = LENGTHS) -> None:
    rows, milliseconds, worst = [], [[], []], 0.0
    for length in lengths:
        made = make(length)
        with torch.no_grad():
            forward = best_seconds(*(call for _, call in made), repeats=8)
        both = best_seconds(*(training_step(*pair) for pair in made), repeats=4)
        cells = []
        for k, (ours, *others) in enumerate((forward, both)):
            milliseconds[k].append(1e3 * ours)
            worst = max(worst, round(ours / others[0], 2))
            cells += [round(1e3 * ours, 1), *(round(other / ours, 1) for other in others)]
        peaks = [peak_bytes(training_step(*pair)) / 2**20 for pair in made[:2]]
        rows.append([f"{length:,}", *cells, *(round(peak, 1) for peak in peaks)])
        print(name, rows[-1], flush=True)
    exponents = [round(growth(lengths, row), 2) for row in milliseconds]
    kept = "kept" if worst <= LIMIT else "broken"
    write_table(
        name,
        caption=f"Time and memory of {what}, relative to transformers' layer",
        note=f"Float32, batch 1, width {WIDTH}, {HEADS} heads, one thread, CPU time; both on the same weights, and equal to "
        f"{largest} in float64. The others: how many times as long as ours. Limit: never longer than the library, it is "
        f"{kept}: at most {worst} of its time. Exponent of ours: {exponents[0]} forward and {exponents[1]} with backward; 1 means "
        f"that twice the length takes twice the time.",
        columns=[
            "length",
            "forward, ms",
            "transformers",
            "full attention",
            "forward and backward, ms",
            "transformers",
            "full attention",
            "MiB of both",
            "transformers, MiB",
        ],
        rows=rows,
    )  # fmt: skip


def longformer_table() -> None:
    equal = difference(longformer(1024, torch.float64))
    table(
        "longformer", longformer, equal, f"Longformer, a window of {WINDOW} and two global tokens"
    )


def bigbird_table() -> None:
    equal = difference(bigbird(24 * BLOCK, torch.float64, same_plan=True))
    table("bigbird", bigbird, equal, f"BigBird, blocks of {BLOCK} and {RANDOM} random ones a row")


SECTIONS = {"longformer": longformer_table, "bigbird": bigbird_table}


def main(*names: str) -> None:
    torch.set_num_threads(1)
    for name in names or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
