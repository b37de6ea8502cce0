"""`ring_attention` in 1, 2 and 3 processes, against attention on the whole sequence.

One subprocess forks them all, so that pytest, which may have threads, never does; the tests read its notes.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, namedtuple
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from support.contracts import LargestTensor

from attncourse.variants.flash import ring_demo, tiled
from attncourse.variants.flash.ring import ring_attention

WORLDS = (1, 2, 3)
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}

DEFAULTS = (
    False,
    torch.float64,
    2,
    3,
    3,
    7,
    5,
    5,
    None,
    "contiguous",
)  # n is the length of a chunk
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
    with (
        patch.multiple(tiled, tile_scores=scores, **blocks),
        patch.object(dist, "batch_isend_irecv", exchange),
    ):
        yield noted


def compare(case: Case) -> dict:
    """Differences from the whole, and what was said and what was really done."""
    *inputs, mixture = whole(case, dist.get_world_size())
    chunks = [mine(x, case.split).detach().requires_grad_() for x in inputs]
    counts = Counter()
    with LargestTensor() as seen, watch() as forward:
        output = ring_attention(
            *chunks, case.is_causal, case.scale, split=case.split, counts=counts
        )
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
        "largest": seen.bytes,
    }


def ending(call, *args, **kwargs) -> str:
    """How a call ends, if it ends soon."""
    begin, end = time.monotonic(), "nothing was raised"
    try:
        call(*args, **kwargs)
    except (Exception, SystemExit) as error:
        end = repr(error)
    return end if time.monotonic() - begin < 8 else "too late"


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
    torch.use_deterministic_algorithms(True)  # fresh memory is NaN: a block that never came is seen
    store, patience = f"file://{folder}/store{world}", timedelta(seconds=15)
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
    for world in WORLDS:
        mp.start_processes(worker, (world, folder), world, start_method="fork")
    ends = {}
    for name, wrong in WRONG.items():
        with patch.multiple(ring_demo, **wrong):
            ends[name] = ending(ring_demo.main, ["--demo", "--length", "64"])
    Path(folder, "demo.json").write_text(json.dumps([ends]), encoding="utf-8")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """``found(world, name)``: what each process found; ``found("demo", name)``: how the demo ended."""
    folder = tmp_path_factory.mktemp("ring")
    command = [sys.executable, __file__, str(folder)]
    tests, root = (str(Path(__file__).parents[i]) for i in (1, 2))
    shared = {"PYTHONPATH": os.pathsep.join([root, tests])}
    done = subprocess.run(command, env=QUIET | shared, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    results = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}
    return lambda world, name: [row[name] for row in results[str(world)]]


@pytest.mark.parametrize(("world", "name"), RUNS)
def test_equals_attention_on_the_whole_sequence(found, world, name):
    of_output, of_gradients = BOUNDS[CASES[name].dtype]
    for row in found(world, name):
        output, *gradients = row["differences"]
        assert output <= of_output
        assert all(x <= of_gradients for x in gradients)
        assert row["dtypes"], "output and gradients have the dtype of the inputs"


# The blocks that the processes read, and the pairs of a query and a key that they score in them.
READ = {
    "full": lambda rank, world, n: (world, world * n * n),
    "causal": lambda rank, world, n: (rank + 1, rank * n * n + n * (n + 1) // 2),
    "zigzag": lambda rank, world, n: (world, (world - 1) * n * n // 2 + n * (n + 1) // 2),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", SOME)
def test_what_nobody_reads_is_skipped(found, world, name):
    for direction in ("forward", "backward"):
        for rank, row in enumerate(found(world, name)):
            counts, noted = row[direction]
            blocks, pairs = READ[name](rank, world, CASES[name].n)
            assert noted["events"].count("compute") == blocks
            said = [counts.get(what, 0) for what in ("computed", "skipped", "pairs")]
            assert said == [blocks, world - blocks, pairs]


@pytest.mark.parametrize("name", ["zigzag", "several tiles"])
def test_zigzag_gives_all_processes_equal_work(found, name):
    for direction in ("forward", "backward"):
        scores = [row[direction][1]["scores"] for row in found(3, name)]
        assert max(scores) - min(scores) <= tiled.ROWS * tiled.COLUMNS
        n = CASES[
            name
        ].n  # what is computed is what is needed, and what a diagonal wastes in its tiles
        assert max(scores) <= n * n + n * min(n, tiled.ROWS + tiled.COLUMNS)


@pytest.mark.parametrize(("world", "name"), RUNS)
def test_bytes_sent_are_those_of_the_docstring(found, world, name):
    case = CASES[name]
    block = case.b * case.g * case.n * (case.d + case.e)  # numbers in a block of keys and values
    key_value = (world - 1) * block * case.dtype.itemsize
    gradients = world * block * max(case.dtype.itemsize, 4) if world > 1 else 0
    for row in found(world, name):
        for direction, expected in ("forward", key_value), ("backward", key_value + gradients):
            counts, noted = row[direction]
            assert counts.get("sent", 0) == noted["bytes"] == expected


def test_blocks_travel_while_others_are_computed(found):
    # Backward, keys and values leave before the work, and gradients are awaited after it.
    backward = "start compute start wait start compute wait start wait compute wait start wait"
    for row in found(3, "full"):
        assert (
            " ".join(row["forward"][1]["events"]) == "start compute wait start compute wait compute"
        )
        assert " ".join(row["backward"][1]["events"]) == backward


def test_no_tensor_is_as_large_as_the_scores_of_one_block(found):
    case = CASES["several tiles"]
    for row in found(3, "several tiles"):
        assert case.n * case.d < row["largest"] / 8 < case.n * case.n


REFUSED = {
    "chunks": "query .1, 2, 4, 3. .*process 2 brings query .1, 2, 5, 3. .*multiple of 3",
    "axes": "process 2 brings query .2, 4, 3. ",
    "dtypes": "float32.*process 2 .*float64",
    "options": "is_causal=False.*process 2 .*is_causal=True",
    "split": "split=contiguous.*process 2 .*split=zigzag",
    "no such split": "one of contiguous, zigzag; got 'striped'",
    "odd": "even; got 5.*multiple of 6",
    "more keys": "as many queries as keys; got 4 and 5",
}


@pytest.mark.parametrize("what", REFUSED)
def test_every_process_refuses(found, what):
    for row in found(3, "refusals"):
        assert re.match(f"ValueError.*{REFUSED[what]}", row[what])


def test_ring_of_some_processes(found):
    first, outside, last = found(3, "subgroup")
    assert max(first, last) <= 1e-12
    assert "ring_attention runs in the processes of its group; process 1" in outside


def test_without_process_group():
    x = torch.ones(1, 1, 2, 3)
    with pytest.raises(RuntimeError, match="needs a process group.*init_process_group"):
        ring_attention(x, x, x)


def test_demo_fails_where_it_should(found):
    for wrong, end in [("bound", "exit code 1"), ("NaN", "exit code 1"), ("error", "ZeroDivision")]:
        assert end in found("demo", wrong)[0]


TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.parametrize(
    ("start", "split"), [([], "contiguous"), (TORCHRUN, "zigzag")], ids=["python", "torchrun"]
)
def test_demo(start, split):
    command = [sys.executable, *start, "-m", "attncourse.variants.flash.ring", "--demo"]
    command += ["--split", split, "--length", "512", "--heads", "1"]
    done = subprocess.run(command, env=QUIET, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"2 processes, backend gloo; 512 positions in {split} chunks of ")
    outputs = [float(x) for x in re.findall(r"^    output ([^,]+)", done.stdout, re.M)]
    assert [x <= 1e-6 for x in outputs] == [True, True]
    table = re.findall(r"^ +(\d) +(\d) +([\d,]+) +[\d,]+ +[\d,]+$", done.stdout, re.M)
    causal = {"contiguous": "0 1 32,896|1 2 98,432", "zigzag": "0 2 65,664|1 2 65,664"}[split]
    assert "|".join(" ".join(row) for row in table) == f"0 2 131,072|1 2 131,072|{causal}"


def test_demo_refuses_sizes_that_make_no_ring(capsys):
    for options, words in [
        ("--length 7", "multiple of 2, the number of pieces; got 7; try 8"),
        ("--length 6 --split zigzag", "multiple of 4, the number of pieces; got 6; try 8"),
        ("--heads 0", "1 or more; got 0"),
    ]:
        with pytest.raises(SystemExit, match="2"):
            ring_demo.main(["--demo", *options.split()])
        assert words in capsys.readouterr().err


if __name__ == "__main__":
    launch(sys.argv[1])
