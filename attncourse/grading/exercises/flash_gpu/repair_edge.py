"""Exercise repair_edge: a kernel that touches its neighbours where tiles are not whole."""

import math
from functools import partial

import torch

from attncourse.grading.exercise import Exercise
from attncourse.grading.inputs import seeded
from attncourse.grading.launches_judge import Launch, Launches, no_program, overwritten
from attncourse.grading.mistake import Mistake

CALLS = (  # special about the launch; n, m, d, block_m, block_n; programs; what lies last in memory
    ("whole tiles", 16, 24, 4, 8, 8, 2, ""),
    ("ragged rows and columns", 13, 21, 5, 8, 6, 2, ""),
    ("NaN behind every tensor", 10, 11, 3, 4, 8, 3, ""),
    ("scores far below zero", 7, 9, 2, 4, 4, 2, ""),
    ("the first of three programs alone", 20, 7, 6, 8, 4, 1, ""),
    ("memory ends behind the keys", 9, 5, 4, 8, 16, 2, "K"),
    ("memory ends behind the queries", 3, 9, 4, 8, 4, 1, "Q"),
)


def launches(seed: int) -> list[Launch]:
    """Query, keys, values and output lie in one memory, with others' numbers between them."""
    g, found = seeded(seed), []
    for what, n, m, d, block_m, block_n, programs, last in CALLS:
        parts, at, length = [], {}, 0
        for name in sorted(("Q", "V", "Out", "K"), key=last.__eq__):
            gap = 3 * torch.randn(16 * d + int(torch.randint(20, (), generator=g)), generator=g)
            gap = gap * math.nan if what.startswith("NaN") else gap
            tensor = torch.randn((m if name in "KV" else n) * d, generator=g)
            if what.startswith("scores") and name in "QK":  # in steps that float32 does not round
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
    program, memory, Q, K, V, Out, n, m, d, block_m, block_n,
    q_mask=True, k_mask=True, v_mask=True, s_mask=True,
    hide=lambda scores, j, n, m: scores.masked_fill(j >= m, -math.inf),
):  # fmt: skip
    """Masked where rows or columns do not exist; a mistake leaves some of it out."""
    rows, features = program * block_m + torch.arange(block_m), torch.arange(d)

    def load(base, places, exist):
        found, at = torch.zeros(len(places), d), base + places[:, None] * d + features
        found[exist] = memory[at[exist]]
        return found

    q = load(Q, rows, (rows < n) | (not q_mask))
    maximum, total, mixed = torch.full((block_m,), -math.inf), torch.zeros(block_m), 0.0
    for begin in range(0, m, block_n):
        j = begin + torch.arange(block_n)
        k, v = load(K, j, (j < m) | (not k_mask)), load(V, j, (j < m) | (not v_mask))
        scores = hide(q @ k.mT / d**0.5, j, n, m)
        new = torch.maximum(maximum, scores.amax(1))
        p, old = torch.exp(scores - new[:, None]), torch.exp(maximum - new)
        total, mixed, maximum = old * total + p.sum(1), old[:, None] * mixed + p @ v, new
    here = (rows < n) | (not s_mask)
    memory[(Out + rows[:, None] * d + features)[here]] = (mixed / total[:, None])[here]


UNMASKED, OPEN = dict.fromkeys(("q_mask", "k_mask", "v_mask"), False), {"hide": lambda s, *_: s}
IDEAS = (
    ("This is the kernel as found: nothing is masked at the edge.",
     {**UNMASKED, **OPEN, "s_mask": False}),
    ("The loads have no mask: they read what lies behind, or where there is no memory at all.",
     UNMASKED),
    ("Columns beyond m have the score 0, and exp(0) is a weight of 1; hide their scores with minus "
     "infinity.", OPEN),
    ("The keys are loaded without a mask; where memory ends behind them, there is nothing to read.",
     {"k_mask": False}),
    ("The values are loaded without a mask: a weight of 0 times NaN is NaN.", {"v_mask": False}),
    ("Columns are compared with n; there are m keys.",
     {"hide": lambda s, j, n, m: s.masked_fill(j >= n, -math.inf)}),
    ("Hidden scores become a number such as -100, and some scores are less; minus infinity is less "
     "than any.", {"hide": lambda s, j, n, m: s.masked_fill(j >= m, -100.0)}),
)  # fmt: skip
EXERCISE = Exercise(
    name="repair_edge",
    answer="repaired_kernel",
    judge=Launches(definition, launches, start, no_program),
    right=right,
    axes=("n d",),
    explain=(overwritten,),
    ideas=[Mistake(says, partial(right, **steps)) for says, steps in IDEAS],
)
