"""Exercise repair_edge: a kernel that touches its neighbours where tiles are not whole."""

import math
from functools import partial

import torch

from attncourse.grading.compare import difference
from attncourse.grading.exercise import Asked, Exercise, Mistake, seeded
from attncourse.grading.explain.weights import says_of_map
from attncourse.grading.launches_judge import LOOKS, Launch, Launches, no_program

CALLS = (  # special about the launch; n, m, d, block_m, block_n; programs; what lies last in memory
    ("whole tiles", 16, 24, 4, 8, 8, 2, ""),
    ("ragged rows and columns", 13, 21, 5, 8, 6, 2, ""),
    ("NaN behind every tensor", 10, 11, 3, 4, 8, 3, ""),
    ("scores far below zero", 7, 9, 2, 4, 4, 2, ""),
    ("the first of three programs alone", 20, 7, 6, 8, 4, 1, ""),
    ("memory ends behind the keys", 9, 5, 4, 8, 16, 2, "K"),
    ("memory ends behind the queries", 3, 9, 4, 8, 4, 1, "Q"),
)
IDENTITY = "6 queries, 5 keys, head_dim 5, tiles 4 x 4; value j is 1 at feature j, else 0"


def launches(seed: int) -> list[Launch]:
    """Query, keys, values and output lie in one memory, with others' numbers between them."""
    g, found = seeded(seed), []
    for what, n, m, d, block_m, block_n, programs, last in CALLS:
        parts, at, length = [], {}, 0
        for name in sorted(("Q", "V", "Out", "K"), key=last.__eq__):
            gap = torch.randn(16 * d + int(torch.randint(20, (), generator=g)), generator=g)
            gap *= math.nan if what.startswith("NaN") else 3
            tensor = torch.randn((m if name in "KV" else n) * d, generator=g)
            if "far below" in what and name in "QK":  # in steps that float32 does not round
                tensor.fill_({"Q": -(2.0**13), "K": 2.0**12}[name])
                tensor[::d] += 0.5 * torch.arange(m) if name == "K" else 0.0
            at[name] = length + len(gap)
            parts += [gap, tensor]
            length += len(gap) + len(tensor)
        parts += [] if last else [gap.flip(0)]
        numbers = *(at[x] for x in ("Q", "K", "V", "Out")), n, m, d, block_m, block_n
        label = f"{what}: {n} queries, {m} keys, head_dim {d}, tiles {block_m} x {block_n}"
        written = {"memory": slice(at["Out"], at["Out"] + min(n, programs * block_m) * d)}
        found.append(Launch(label, {"memory": torch.cat(parts)}, numbers, programs, written))
    return found


def definition(launch):
    """Softmax attention of the tensors that lie at these addresses."""
    q, k, v, _, n, m, d, block_m, _ = launch.numbers
    memory, tensors = launch.buffers["memory"].double(), ((q, n), (k, m), (v, m))
    query, key, value = (memory[x : x + rows * d].view(rows, d) for x, rows in tensors)
    output = torch.softmax(query @ key.T / math.sqrt(d), dim=-1) @ value
    return {"memory": output[: launch.programs * block_m]}


def start(kernel, buffers, launch):
    for program in range(launch.programs):
        kernel(program, *buffers, *launch.numbers)


def right(
    program, memory, Q, K, V, Out, n, m, d, block_m, block_n, masked="QKVO",
    hide=lambda scores, j, n, m: scores.masked_fill(j >= m, -math.inf),
):  # fmt: skip
    rows, features = program * block_m + torch.arange(block_m), torch.arange(d)

    def load(name, base, places, end):
        found, at = torch.zeros(len(places), d), base + places[:, None] * d + features
        exist = (places < end) | (name not in masked)
        found[exist] = memory[at[exist]]
        return found

    j = torch.arange(-(-m // block_n) * block_n)
    q, k, v = load("Q", Q, rows, n), load("K", K, j, m), load("V", V, j, m)
    weights = hide(q @ k.mT / d**0.5, j, n, m).softmax(1)
    here = (rows < n) | ("O" not in masked)
    memory[(Out + rows[:, None] * d + features)[here]] = (weights @ v)[here]


def of_weights(asked: Asked) -> str:
    """What is wrong with the weights, which are the output where the values are the identity."""
    memory = torch.randn(400, generator=seeded(asked.seed))
    memory[200:300] = torch.cat([torch.eye(5).flatten(), torch.zeros(75)])
    numbers = 20, 100, 200, 320, 6, 5, 5, 4, 4
    launch, seen = Launch(IDENTITY, {"memory": memory}, numbers, 2, {}), memory.clone()
    start(asked.answer, [seen], launch)
    weights, found = definition(launch)["memory"], seen[320:350].view(6, 5)
    return says_of_map(IDENTITY, weights, found) if difference(weights, found) else ""


EXERCISE = Exercise(
    name="repair_edge",
    answer="repaired_kernel",
    judge=Launches(definition, launches, start, no_program),
    right=right,
    axes=("n d",),
    explain=(*LOOKS, of_weights),
    ideas=[Mistake(says, partial(right, **steps)) for says, steps in (
        ("This is the kernel as found: nothing is masked at the edge.",
         {"masked": "", "hide": lambda s, *_: s}),
        ("Columns beyond m have the score 0, and exp(0) is a weight of 1; hide their scores with "
         "minus infinity.", {"hide": lambda s, *_: s}),
        ("The values are loaded without a mask: a weight of 0 times NaN is NaN.",
         {"masked": "QKO"}),
    )],
)  # fmt: skip
