"""Exercise attention_tile: a Triton kernel for one tile of attention, in its interpreter."""

import math
from functools import partial

import torch

from attncourse.grading.exercise import Exercise, Mistake, normal, seeded
from attncourse.grading.launches_judge import Launch, Launches, Program, looks

CALLS = (  # special about the launch; n, m, head_dim, block_m, block_n; scale, programs, how loud
    ("whole tiles", 32, 16, 16, 16, 16, 1 / 4, 2, 0),
    ("ragged rows and keys, another scale", 21, 27, 16, 16, 32, 0.6, 2, 0),
    ("the first of two programs alone", 23, 13, 32, 16, 16, 32**-0.5, 1, 0),
    ("scores about 400 and -400", 9, 29, 16, 32, 32, 1 / 4, 1, 400),
    ("scores about -2**27", 7, 5, 16, 16, 16, 1 / 4, 1, -1),
)


def launch(g, what, n, m, d, block_m, block_n, scale, programs, loud) -> Launch:
    """Behind the rows and the keys that exist lie others: large numbers, and NaN in both."""
    query, memory, out, lse = normal(g, (n + 100, d), (m + 100, 2 * d), (n + 100, d), (n + 2000,))
    query[:, 0] += loud / 4 * (-1) ** torch.arange(n + 100)
    memory[:, 0] += 16 * (loud > 0)
    if loud < 0:  # in steps that float32 does not round
        query[:], memory[:m, :d] = -(2.0**13), 2.0**12
        memory[:m, 0] += 0.5 * torch.arange(m)
    memory[m:] *= 3
    memory[m:, d:] = memory[m + 1 :: 2] = math.nan
    rows = min(n, programs * block_m)
    buffers = {"Q": query, "KV": memory, "Out": out, "Lse": lse}
    written = {"Out": slice(0, rows * d), "Lse": slice(0, rows)}
    label = f"{what}: {n} queries, {m} keys, head_dim {d}, BLOCK_M {block_m}, BLOCK_N {block_n}"
    return Launch(label, buffers, (n, m, scale, d, block_m, block_n), programs, written)


def launches(seed: int) -> list[Launch]:
    g = seeded(seed)
    return [launch(g, *call) for call in CALLS]


def identity(seed: int) -> Launch:
    """Also of the keys that do not exist: whoever reads one, shows it."""
    made = launch(seeded(seed), "value j is 1 at feature j, else 0", 6, 5, 16, 16, 16, 1 / 4, 1, 0)
    made.buffers["KV"][:, 16:] = torch.eye(105, 16)
    return made


def definition(launch):
    """Softmax attention of the rows that these programs have."""
    n, m, scale, d, block_m, _ = launch.numbers
    query, memory = (launch.buffers[x].double() for x in ("Q", "KV"))
    scores = query[: min(n, launch.programs * block_m)] @ memory[:m, :d].T * scale
    return scores.softmax(-1) @ memory[:m, d:], scores.logsumexp(-1)


def load(memory, at, exists):
    return torch.where(exists[:, None], memory.flatten()[at.clamp(max=memory.numel() - 1)], 0.0)


def tile(
    program, q, kv, out, lse, n, m, scale, d, block_m, block_n,
    width=2, loaded=lambda n, m: m, hidden=lambda n, m: m,
):  # fmt: skip
    """Rows of the tile, keys and values of KV, in which they lie side by side."""
    rows, keys = program * block_m + torch.arange(block_m), torch.arange(block_n)
    at, at_key = rows[:, None] * d + torch.arange(d), keys[:, None] * width * d + torch.arange(d)
    query, key = load(q, at, rows < n), load(kv, at_key, keys < m)
    value = load(kv, at_key + d, keys < loaded(n, m))
    scores = (query @ key.T * scale).masked_fill(keys >= hidden(n, m), -math.inf)
    top = scores.amax(1)
    p = torch.exp(scores - top[:, None])
    total, here = p.sum(1), rows < n
    out.view(-1)[at[here]] = (p @ value / total[:, None])[here]
    lse[rows[here]] = (top + total.log())[here]


EXERCISE = Exercise(
    name="attention_tile",
    requires="triton",
    judge=Launches(definition, launches, triton=True),
    right=Program(tile),
    axes=("n d", "n"),
    results=("Out", "Lse"),
    explain=looks(identity),
    ideas=[Mistake(says, Program(partial(tile, **steps))) for says, steps in (
        ("Keys beyond m have the score 0, and so a weight; hide their scores with minus infinity.",
         {"hidden": lambda n, m: 99}),
        ("Values beyond m are loaded: a weight of 0 times NaN is NaN. Load them with a mask and "
         "other=0.0.", {"loaded": lambda n, m: 99}),
        ("Scores are hidden by n; there are m keys.", {"hidden": lambda n, m: n}),
        ("Keys are read as if they lay one behind the other; in KV a value stands between them, "
         "so a row is 2 * D long.", {"width": 1}),
    )],
)  # fmt: skip
