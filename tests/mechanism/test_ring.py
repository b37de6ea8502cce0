"""`ring_attention` in 1, 2 and 3 processes, against attention on the whole sequence."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.flash import ring
from support.flash.ring import BOUNDS, CASES, RUNS, SOME, WORLDS

from attncourse.variants.flash import ring_demo, tiled
from attncourse.variants.flash.ring import ring_attention

QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """``found(world, name)``: what each process found; ``found("demo", name)``: how the demo ended."""
    folder = tmp_path_factory.mktemp("ring")
    command = [sys.executable, ring.__file__, str(folder)]
    tests, root = (str(Path(__file__).parents[i]) for i in (1, 2))
    shared = {"PYTHONPATH": os.pathsep.join([root, tests])}
    done = subprocess.run(command, env=QUIET | shared, capture_output=True, text=True, timeout=500)
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
        n = CASES[name].n
        # What is computed is what is needed, and what a diagonal wastes in its tiles.
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
    forward = "start compute wait start compute wait compute"
    for row in found(3, "full"):
        events = [" ".join(row[way][1]["events"]) for way in ("forward", "backward")]
        assert events == [forward, backward]


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
    command = [sys.executable, *start, "-m", "attncourse.variants.flash.ring_demo"]
    command += ["--split", split, "--length", "512", "--heads", "1"]
    done = subprocess.run(command, env=QUIET, capture_output=True, text=True, timeout=500)
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
            ring_demo.main(options.split())
        assert words in capsys.readouterr().err
