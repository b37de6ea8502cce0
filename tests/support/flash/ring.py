"""What `tests/mechanism/test_ring.py` looks at: the ring in 1, 2 and 3 processes, run by ``python ring.py FOLDER``.

One subprocess forks them all, so that pytest, which may have threads, never does; the tests read its notes.
"""

import json
import sys
from collections import Counter, namedtuple
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from attncourse.variants.flash import ring_demo, tiled
from attncourse.variants.flash.ring import ring_attention
from support.contracts import Tensors

WORLDS = (1, 2, 3)

# n is the length of a chunk.
DEFAULTS = (False, torch.float64, 2, 3, 3, 7, 5, 5, None, "contiguous")
Case = namedtuple("Case", "is_causal dtype b h g n d e scale split", defaults=DEFAULTS)
CASES = {
    "full": Case(),
    "causal": Case(True),
    "float32, full": Case(False, torch.float32, n=31, d=16, e=16),
    "float32, causal": Case(True, torch.float32, n=31, d=16, e=16),
    "bfloat16, causal": Case(True, torch.bfloat16, n=31, d=16, e=16),
    "fewer key heads, full": Case(h=6, g=2),
    "fewer key heads, causal": Case(True, h=6, g=2),
    "one key head": Case(True, h=4, g=1),
    "wide values": Case(True, e=11),
    "scale": Case(True, scale=1.7),
    "scale 0": Case(True, scale=0.0),
    "negative scale": Case(scale=-0.4),
    "one position each": Case(True, n=1),
    "zigzag, full": Case(n=6, split="zigzag"),
    "zigzag": Case(True, n=6, split="zigzag"),
    "zigzag, fewer key heads": Case(True, h=6, g=2, n=6, e=11, split="zigzag"),
    "zigzag, bfloat16": Case(True, torch.bfloat16, n=14, d=16, e=16, split="zigzag"),
    "zigzag, one position a piece": Case(True, n=2, split="zigzag"),
    "several tiles": Case(True, b=1, h=1, g=1, n=300, split="zigzag"),
}
# The number of processes matters to what is sent and skipped, little to the rest.
SOME = ("full", "causal", "zigzag")
RUNS = [(world, name) for world in WORLDS for name in (CASES if world == 3 else SOME)]
# Of the output, of the gradients.
BOUNDS = {torch.float64: (1e-12, 1e-10), torch.float32: (1e-6, 1e-5), torch.bfloat16: (1e-2, 3e-2)}


def whole(case: Case, world: int) -> list[torch.Tensor]:
    """Query, key, value and the output's gradient of the whole sequence, the same in each process."""
    generator = torch.Generator().manual_seed(5)
    sizes = ((case.h, case.d), (case.g, case.d), (case.g, case.e), (case.h, case.e))
    shapes = [(case.b, heads, world * case.n, width) for heads, width in sizes]
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(case.dtype) for s in shapes]


def mine(x: torch.Tensor, split: str = "contiguous") -> torch.Tensor:
    """Our chunk; a contiguous one is a view with gaps, as a slice of a longer tensor is."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if split == "contiguous":
        return x.chunk(world, -2)[rank]
    pieces = x.chunk(2 * world, -2)
    return torch.cat([pieces[rank], pieces[-1 - rank]], -2)


@contextmanager
def watch():
    """Notes each block computed, each exchange started and awaited, the bytes that leave, and all scores."""
    noted = {"events": [], "bytes": 0, "scores": 0}

    def noting(event, function):
        return lambda *args: (noted["events"].append(event), function(*args))[1]

    def exchange(operations, start=dist.batch_isend_irecv):
        noted["events"].append("start")
        noted["bytes"] += sum(x.tensor.nbytes for x in operations if x.op is dist.isend)
        *works, last = start(operations)
        return [*works, SimpleNamespace(wait=noting("wait", last.wait))]

    def scores(*args, compute=tiled.tile_scores):
        tile = compute(*args)
        noted["scores"] += tile.size(-2) * tile.size(-1)
        return tile

    blocks = {name: noting("compute", getattr(tiled, name)) for name in ("forward", "backward")}
    sent = patch.object(dist, "batch_isend_irecv", exchange)
    with patch.multiple(tiled, tile_scores=scores, **blocks), sent:
        yield noted


def compare(case: Case) -> dict:
    """Differences from the whole, and what was said and what was really done."""
    *inputs, mixture = whole(case, dist.get_world_size())
    chunks = [mine(x, case.split).detach().requires_grad_() for x in inputs]
    counts = Counter()
    with Tensors() as seen, watch() as forward:
        options = {"split": case.split, "counts": counts}
        output = ring_attention(*chunks, case.is_causal, case.scale, **options)
    said = counts.copy()
    with seen, watch() as backward:
        output.backward(mine(mixture, case.split))
    exact = torch.float64 if case.dtype == torch.bfloat16 else case.dtype
    inputs = [x.to(exact).requires_grad_() for x in inputs]
    n = inputs[0].size(-2)  # a mask, because torch's is_causal gives NaN with scale 0
    mask = torch.ones(n, n, dtype=torch.bool).tril() if case.is_causal else None
    rule = {"attn_mask": mask, "scale": case.scale, "enable_gqa": True}
    expected = F.scaled_dot_product_attention(*inputs, **rule)
    expected.backward(mixture.to(exact))
    pairs = [(output, expected), *((x.grad, y.grad) for x, y in zip(chunks, inputs, strict=True))]
    return {
        "differences": [(x - mine(y, case.split)).abs().max().item() for x, y in pairs],
        "dtypes": {str(x.dtype) for x, _ in pairs} == {str(case.dtype)},
        "forward": (said, forward),
        "backward": (counts - said, backward),
        "largest": seen.largest,
    }


def ending(call, *args, **kwargs) -> str:
    """How a call ends; one that waits for the others in vain ends with the error of gloo."""
    try:
        call(*args, **kwargs)
    except (Exception, SystemExit) as error:
        return repr(error)
    return "nothing was raised"


def refusals() -> dict[str, str]:
    """One process differs from the others, or all are wrong in the same way."""
    last = dist.get_rank() == dist.get_world_size() - 1
    x, longer = torch.ones(1, 2, 4, 3), torch.ones(1, 2, 5, 3)
    return {
        "chunks": ending(ring_attention, *[longer if last else x] * 3),
        "axes": ending(ring_attention, *[x[0] if last else x] * 3),
        "dtypes": ending(ring_attention, *[x.double() if last else x] * 3),
        "options": ending(ring_attention, x, x, x, is_causal=last),
        "split": ending(ring_attention, x, x, x, split="zigzag" if last else "contiguous"),
        "no such split": ending(ring_attention, x, x, x, split="striped"),
        "odd": ending(ring_attention, longer, longer, longer, split="zigzag"),
        "more keys": ending(ring_attention, x, longer, longer),
    }


def subgroup() -> float | str:
    """A ring of ranks 0 and 2."""
    group, place = dist.new_group([0, 2]), dist.get_rank() // 2
    *inputs, _ = whole(CASES["causal"], 2)
    chunks = [x.chunk(2, -2)[place] for x in inputs]
    if dist.get_rank() == 1:
        return ending(ring_attention, *chunks, group=group)
    expected = F.scaled_dot_product_attention(*inputs).chunk(2, -2)[place]
    return (ring_attention(*chunks, group=group) - expected).abs().max().item()


def worker(rank: int, world: int, folder: str) -> None:
    """All of the above; rank 0 writes what every process found."""
    torch.set_num_threads(1)
    store, patience = f"file://{folder}/store{world}", timedelta(minutes=1)
    dist.init_process_group("gloo", store, patience, world, rank)
    found = {"refusals": refusals(), "subgroup": subgroup()} if world == 3 else {}
    found |= {name: compare(CASES[name]) for count, name in RUNS if count == world}
    everyone = [None] * world
    dist.all_gather_object(everyone, found)
    if rank == 0:
        Path(folder, f"{world}.json").write_text(json.dumps(everyone), encoding="utf-8")
    dist.destroy_process_group()


# What is wrong in the processes of the demo, which inherit it.
WRONG = {
    "bound": {"BOUNDS": (0.0, 0.0)},
    "NaN": {"ring_attention": lambda *a, **k: ring_attention(*a, **k) * torch.nan},
    "error": {"compare": lambda *_: 1 / 0 if dist.get_rank() else dist.barrier()},
}


def launch(folder: str) -> None:
    """Run everything that needs processes."""
    # Fresh memory is NaN: a block that never came is seen. Set here it imports much once, not in each process.
    torch.use_deterministic_algorithms(True)
    for world in WORLDS:
        mp.start_processes(worker, (world, folder), world, start_method="fork")
    ends = {}
    for name, wrong in WRONG.items():
        with patch.multiple(ring_demo, **wrong):
            ends[name] = ending(ring_demo.main, ["--length", "64"])
    Path(folder, "demo.json").write_text(json.dumps([ends]), encoding="utf-8")


if __name__ == "__main__":
    launch(sys.argv[1])
