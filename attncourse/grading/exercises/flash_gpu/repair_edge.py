"""Exercise repair_edge: a kernel that touches its neighbours where tiles are not whole."""

import math

import torch

from attncourse.grading.exercise import Exercise, seeded
from attncourse.grading.launches_judge import Launch, Launches, looks

CALLS = (  # special about the launch; n, m, d, block_m, block_n; programs; what lies last in memory
    ("whole tiles", 16, 24, 4, 8, 8, 2, ""),
    ("ragged rows and columns", 13, 21, 5, 8, 6, 2, ""),
    ("NaN behind every tensor", 10, 11, 3, 4, 8, 3, ""),
    ("scores far below zero", 7, 9, 2, 4, 4, 2, ""),
    ("the first of three programs alone", 20, 7, 6, 8, 4, 1, ""),
    ("memory ends behind the keys", 9, 5, 4, 8, 16, 2, "K"),
    ("memory ends behind the queries", 3, 9, 4, 8, 4, 1, "Q"),
)


def launch(g, what, n, m, d, block_m, block_n, programs, last="") -> Launch:
    """Query, keys, values and output lie in one memory, with others' numbers between them."""
    parts, at, length = [], {}, 0
    for name in sorted(("Q", "V", "Out", "K"), key=last.__eq__):
        gap = torch.randn(16 * d + int(torch.randint(20, (), generator=g)), generator=g)
        gap *= math.nan if what.startswith("NaN") else 3
        tensor = torch.randn((m if name in "KV" else n) * d, generator=g)
        if "far below" in what and name in "QK":  # in steps that float32 does not round
            tensor.fill_({"Q": -(2.0**13), "K": 2.0**12}[name])
            tensor[::d] += 0.5 * torch.arange(m) if name == "K" else 0.0
        if what == "whole tiles" and name in "QK":
            tensor[:d] = 0.0  # a score of 0 is a score
        at[name] = length + len(gap)
        parts += [gap, tensor]
        length += len(gap) + len(tensor)
    parts += [] if last else [gap.flip(0)]
    numbers = *(at[x] for x in ("Q", "K", "V", "Out")), n, m, d, block_m, block_n
    label = f"{what}: {n} queries, {m} keys, head_dim {d}, tiles {block_m} x {block_n}"
    written = {"memory": slice(at["Out"], at["Out"] + min(n, programs * block_m) * d)}
    return Launch(label, {"memory": torch.cat(parts)}, numbers, programs, written)


def launches(seed: int) -> list[Launch]:
    g = seeded(seed)
    return [launch(g, *call) for call in CALLS]


def identity(seed: int) -> Launch:
    """Zeros behind the values: so what is read there disturbs no weight."""
    made = launch(seeded(seed), "value j is 1 at feature j, else 0", 6, 5, 5, 4, 4, 2)
    v, values = made.numbers[2], torch.cat([torch.eye(5), torch.zeros(15, 5)])
    made.buffers["memory"][v : v + values.numel()] = values.flatten()
    return made


def definition(launch):
    """Softmax attention of the tensors that lie at these addresses."""
    q, k, v, _, n, m, d, block_m, _ = launch.numbers
    memory, tensors = launch.buffers["memory"].double(), ((q, n), (k, m), (v, m))
    query, key, value = (memory[x : x + rows * d].view(rows, d) for x, rows in tensors)
    output = torch.softmax(query @ key.T / math.sqrt(d), dim=-1) @ value
    return (output[: launch.programs * block_m],)


def right(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    def load(base, places, end):
        found, here = torch.zeros(len(places), d), places < end
        found[here] = memory[base + places[here, None] * d + torch.arange(d)]
        return found

    rows, j = program * block_m + torch.arange(block_m), torch.arange(-(-m // block_n) * block_n)
    q, k, v = load(Q, rows, n), load(K, j, m), load(V, j, m)
    weights = (q @ k.mT / d**0.5).masked_fill(j >= m, -math.inf).softmax(1)
    here = rows < n
    memory[Out + rows[here, None] * d + torch.arange(d)] = (weights @ v)[here]


EXERCISE = Exercise(
    name="repair_edge",
    answer="repaired_kernel",
    judge=Launches(definition, launches),
    right=right,
    axes=("n d",),
    explain=looks(identity),
)
