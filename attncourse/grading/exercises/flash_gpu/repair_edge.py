"""Exercise repair_edge: a kernel that is right on whole tiles, and reads and writes the neighbours' numbers on others."""

import math
from functools import partial

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.flash_gpu._launches import Launch, Launches
from attncourse.grading.inputs import seeded

CALLS = (  # what is special; n, m, d, block_m, block_n; how many programs run; what lies last in memory
    ("whole tiles", 16, 24, 4, 8, 8, 2, ""),
    ("ragged rows and columns", 13, 21, 5, 8, 6, 2, ""),
    ("NaN behind every tensor", 10, 11, 3, 4, 8, 3, ""),
    ("scores far below zero", 7, 9, 2, 4, 4, 2, ""),
    ("the first of three programs alone", 20, 7, 6, 8, 4, 1, ""),
    ("memory ends behind the keys", 9, 5, 4, 8, 16, 2, "K"),
    ("memory ends behind the queries", 3, 9, 4, 8, 4, 1, "Q"),
)


def launches(seed: int) -> list[Launch]:
    """Query, keys, values and output lie in one memory, with somebody else's numbers between them."""
    g, found = seeded(seed), []
    for what, n, m, d, block_m, block_n, programs, last in CALLS:
        parts, addresses, length = [], {}, 0
        for name in sorted(("Q", "V", "Out", "K"), key=last.__eq__):
            gap = 3 * torch.randn(16 * d + int(torch.randint(20, (), generator=g)), generator=g)
            gap = gap * math.nan if what.startswith("NaN") else gap
            tensor = torch.randn((m if name in "KV" else n) * d, generator=g)
            if (
                what.startswith("scores") and name in "QK"
            ):  # about -2**26, in steps that float32 does not round
                tensor.fill_({"Q": -(2.0**13), "K": 2.0**12}[name])
                tensor[::d] += 0.5 * torch.arange(m) if name == "K" else 0.0
            addresses[name] = length + len(gap)
            parts += [gap, tensor]
            length += len(gap) + len(tensor)
        parts += [] if last else [gap.flip(0)]
        numbers = *(addresses[x] for x in ("Q", "K", "V", "Out")), n, m, d, block_m, block_n
        end = addresses["Out"] + min(n, programs * block_m) * d
        label = f"{what}: {n} queries, {m} keys, head_dim {d}, tiles {block_m} x {block_n}"
        written = {"memory": slice(addresses["Out"], end)}
        found.append(Launch(label, {"memory": torch.cat(parts)}, numbers, programs, written))
    return found


def definition(launch):
    """Softmax attention of the tensors that lie at these addresses."""
    q, k, v, _, n, m, d, block_m, _ = launch.numbers
    memory = launch.buffers["memory"].double()
    query, key, value = (
        memory[x : x + rows * d].view(rows, d) for x, rows in ((q, n), (k, m), (v, m))
    )
    output = torch.softmax(query @ key.T / math.sqrt(d), dim=-1) @ value
    return {"memory": output[: launch.programs * block_m]}


def start(kernel, buffers, launch):
    for program in range(launch.programs):
        kernel(program, *buffers, *launch.numbers)


def refuse(answer):
    got = type(answer).__name__
    return "" if callable(answer) else f"expected a function, got {got}; pass the function itself"


def load(memory, addresses, mask=True, other=0.0):
    mask = torch.as_tensor(mask).expand(addresses.shape)
    found = torch.full(addresses.shape, other)
    found[mask] = memory[addresses[mask]]
    return found


def store(memory, addresses, values, mask=True):
    mask = torch.as_tensor(mask).expand(addresses.shape)
    memory[addresses[mask]] = values[mask]


def kernel(
    program, memory, Q, K, V, Out, n, m, d, block_m, block_n,
    q_rows=lambda rows, n: (rows, rows < n),
    k_rows=lambda columns, m: (columns, columns < m), v_rows=lambda columns, m: (columns, columns < m),
    hide=lambda scores, columns, n, m: scores.masked_fill(columns >= m, -math.inf), tiles=lambda m, b: range(0, m, b),
    write=lambda memory, at, values, rows, n: store(memory, at, values, (rows < n)[:, None]),
    scale=lambda d: d**-0.5, rescale=lambda r: (r, r), first=lambda program, block: program * block,
    end=lambda mixed, total: mixed / total[:, None],
):  # fmt: skip
    """The repaired kernel; a mistake replaces a step."""
    rows, features = first(program, block_m) + torch.arange(block_m), torch.arange(d)

    def matrix(base, places, inside):
        at = base + places[:, None] * d + features
        return load(memory, at, torch.as_tensor(inside).unsqueeze(-1))

    q = matrix(Q, *q_rows(rows, n))
    maximum = torch.full((block_m,), -math.inf)
    total, mixed = torch.zeros(block_m), torch.zeros(block_m, d)
    for begin in tiles(m, block_n):
        columns = begin + torch.arange(block_n)
        k, v = matrix(K, *k_rows(columns, m)), matrix(V, *v_rows(columns, m))
        scores = hide(q @ k.mT * scale(d), columns, n, m)
        new = torch.maximum(maximum, scores.amax(1))
        p, (r, r_mixed) = torch.exp(scores - new[:, None]), rescale(torch.exp(maximum - new))
        total, mixed, maximum = r * total + p.sum(1), r_mixed[:, None] * mixed + p @ v, new
    write(memory, Out + rows[:, None] * d + features, end(mixed, total), rows, n)


ACCEPTED = Accepted(
    steps=kernel,
    clamped_queries=partial(kernel, q_rows=lambda rows, n: (rows.clamp(max=n - 1), True)),
)


@ACCEPTED.add
def slices(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    """No masks: shorter tiles at the edge."""
    i, e = program * block_m, min((program + 1) * block_m, n)
    q, k, v = (
        memory[x + a * d : x + b * d].reshape(-1, d)
        for x, a, b in ((Q, i, e), (K, 0, m), (V, 0, m))
    )
    memory[Out + i * d : Out + e * d] = (torch.softmax(q @ k.T / d**0.5, -1) @ v).flatten()


@ACCEPTED.add
def weights_masked(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    """Hidden weights are set to 0 after the exponential, and the maximum is that of all keys."""
    rows = torch.arange(program * block_m, min(program * block_m + block_m, n))

    def at(base, x):
        return base + x[:, None] * d + torch.arange(d)

    q, starts = memory[at(Q, rows)].double(), range(0, m, block_n)
    blocks = [torch.arange(s, s + block_n).clamp(max=m - 1) for s in starts]
    scores = torch.stack([q @ memory[at(K, x)].double().T / math.sqrt(d) for x in blocks])
    real = torch.stack([torch.arange(s, s + block_n) < m for s in starts])[:, None]
    p = torch.exp(scores - scores.amax((0, 2))[:, None]) * real
    mixed = sum(w @ memory[at(V, x)].double() for w, x in zip(p, blocks, strict=True))
    memory[at(Out, rows)] = (mixed / p.sum((0, 2))[:, None]).float()


@ACCEPTED.add
def row_by_row(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    for i in range(program * block_m, min(n, (program + 1) * block_m)):
        q = memory[Q + i * d : Q + (i + 1) * d]
        scores = (
            torch.stack([(q * memory[K + j * d : K + j * d + d]).sum() for j in range(m)]) / d**0.5
        )
        w = torch.exp(scores - scores.max())
        for c in range(d):
            memory[Out + i * d + c] = (w * memory[V + c : V + m * d : d]).sum() / w.sum()


def whole(rows, n):
    return rows, True


def everywhere(memory, at, values, rows, n):
    store(memory, at, values)


UNMASKED = {"q_rows": whole, "k_rows": whole, "v_rows": whole}
OPEN = {"hide": lambda scores, *_: scores}
MISTAKES = Mistakes(Mistake(says, partial(kernel, **steps)) for says, steps in (
    ("This is the kernel as found: nothing is masked at the edge.", {**UNMASKED, **OPEN, "write": everywhere}),
    ("Rows beyond n are written over what lies behind the output; mask the store. Zeros are no better there.",
     {"write": everywhere}),
    ("The loads have no mask: they read what lies behind, or where there is no memory at all.", UNMASKED),
    ("Columns beyond m have the score 0, and exp(0) is a weight of 1; hide their scores with minus infinity.", OPEN),
    ("The store is masked, but nothing else is: columns beyond m are somebody else's keys.", {**UNMASKED, **OPEN}),
    ("The keys are loaded without a mask; where memory ends behind them, there is nothing to read.", {"k_rows": whole}),
    ("The values are loaded without a mask: a weight of 0 times NaN is NaN.", {"v_rows": whole}),
    ("The queries are loaded without a mask; where memory ends behind them, there is nothing to read.",
     {"q_rows": whole}),
    ("Keys beyond m are replaced by the last one, which then counts several times; hide their scores.",
     {"k_rows": lambda columns, m: (columns.clamp(max=m - 1), True), **OPEN}),
    ("Columns are compared with n; there are m keys.", {"hide": lambda s, c, n, m: s.masked_fill(c >= n, -math.inf)}),
    ("One column too many is seen: the last one is m - 1.", {"hide": lambda s, c, n, m: s.masked_fill(c > m, -math.inf)}),
    ("One column too few is seen: column m - 1 is a key.", {"hide": lambda s, c, n, m: s.masked_fill(c >= m - 1, -math.inf)}),
    ("Hidden scores become a number such as -100, and some scores are less; minus infinity is less than any.",
     {"hide": lambda s, c, n, m: s.masked_fill(c >= m, -100.0)}),
    ("The last, ragged tile of keys is left out.", {"tiles": lambda m, b: range(0, m - b + 1, b) or range(1)}),
    ("The last row is not stored: row n - 1 exists.",
     {"write": lambda memory, at, x, rows, n: store(memory, at, x, (rows < n - 1)[:, None])}),
    ("One row too many is stored: the last one is n - 1.",
     {"write": lambda memory, at, x, rows, n: store(memory, at, x, (rows <= n)[:, None])}),
    ("A tile of rows that hangs over the edge is not stored at all; store the rows that exist.",
     {"write": lambda memory, at, x, rows, n: store(memory, at, x, rows[-1] < n)}),
    ("The scale 1 / sqrt(d) is lost.", {"scale": lambda d: 1.0}),
    ("What was mixed before a new maximum is not rescaled.", {"rescale": lambda r: (r, 1 + 0 * r)}),
    ("The total is not rescaled under a new maximum.", {"rescale": lambda r: (1 + 0 * r, r)}),
    ("The output is not divided by the total.", {"end": lambda mixed, total: mixed}),
    ("Every program works on the first rows; program p has rows p * block_m and on.", {"first": lambda p, block: 0}),
))  # fmt: skip

EXERCISE = Exercise(
    name="repair_edge",
    answer="repaired_kernel",
    judge=Launches(definition, launches, start, refuse),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
