"""Exercise attention_tile: a Triton kernel for one tile of attention, run by Triton's interpreter."""

import importlib
import math
import os

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.flash_gpu._launches import Launch, Launches
from attncourse.grading.inputs import seeded

CALLS = (  # what is special; n, m, head_dim, block_m, block_n; how many programs; how large the scores are
    ("whole tiles", 32, 16, 16, 16, 16, 2, 0),
    ("ragged rows and keys", 21, 27, 16, 16, 32, 2, 0),
    ("the first of two programs alone", 23, 13, 32, 16, 16, 1, 0),
    ("scores about 400 and -400", 9, 29, 16, 32, 32, 1, 400),
    ("scores about -2**27", 7, 5, 16, 16, 16, 1, -1),
)


def launches(seed: int) -> list[Launch]:
    """Behind the rows and the keys that exist lie others: large numbers, and NaN."""
    g, found = seeded(seed), []
    for what, n, m, d, block_m, block_n, programs, loud in CALLS:
        shapes = (n + 100, d), (m + 100, 2 * d), (n + 100, d), (n + 2000,)
        query, memory, out, lse = (torch.randn(shape, generator=g) for shape in shapes)
        query[:, 0] += loud / 4 * (-1) ** torch.arange(n + 100)
        memory[:, 0] += 16 * (loud > 0)
        if loud < 0:  # in steps that float32 does not round
            query[:], memory[:m, :d] = -(2.0**13), 2.0**12
            memory[:m, 0] += 0.5 * torch.arange(m)
        memory[m:, :d], memory[m:, d:] = 3 * memory[m:, :d], math.nan
        rows = min(n, programs * block_m)
        buffers = {"Q": query, "KV": memory, "Out": out, "Lse": lse}
        written = {"Out": slice(0, rows * d), "Lse": slice(0, rows)}
        label = f"{what}: {n} queries, {m} keys, head_dim {d}, BLOCK_M {block_m}, BLOCK_N {block_n}"
        numbers = n, m, d**-0.5, d, block_m, block_n
        found.append(Launch(label, buffers, numbers, programs, written))
    return found


def definition(launch):
    """Softmax attention of the rows that these programs have."""
    n, m, scale, d, block_m, _ = launch.numbers
    query, memory = (launch.buffers[x].double() for x in ("Q", "KV"))
    scores = query[: min(n, launch.programs * block_m)] @ memory[:m, :d].T * scale
    return {"Out": scores.softmax(-1) @ memory[:m, d:], "Lse": scores.logsumexp(-1)}


def start(kernel, buffers, launch):
    kernel.run(*buffers, *launch.numbers, grid=(launch.programs,), warmup=False)


def refuse(answer):
    if type(answer).__name__ == "JITFunction":
        return (
            "Triton was imported before TRITON_INTERPRET was set to 1, so it wants a graphics card; "
            "restart the kernel and run the notebook from the top"
        )
    got = type(answer).__name__
    if got in ("InterpretedFunction", "Kernel", "Program"):  # Triton's, and those below
        return ""
    return f"expected a kernel with @triton.jit above it, got {got}; pass the kernel itself"


class Kernel:
    """A kernel of `_tiles`, which is imported when it runs: only where Triton is installed."""

    def __init__(self, name: str):
        self.name = name

    def run(self, *arguments, **launch):
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
        module = importlib.import_module("attncourse.grading.exercises.flash_gpu._tiles")
        getattr(module, self.name).run(*arguments, **launch)


STYLES = "dots", "products_and_sums", "powers_of_2", "block_pointers", "two_halves"
ACCEPTED = Accepted({name: Kernel(name) for name in STYLES})


class Program:
    """What a kernel leaves in memory, without Triton; a mistake replaces a step."""

    def __init__(self, **steps):
        self.steps = steps

    def run(self, q, kv, out, lse, *numbers, grid, warmup):
        for program in range(grid[0]):
            tile(program, q.flatten(), kv.flatten(), out.view(-1), lse, *numbers, **self.steps)


def tile(
    program, q, kv, out, lse, n, m, scale, d, block_m, block_n,
    first=lambda p, block: p * block, stride=lambda d: 2 * d, value_at=lambda d: d, v_exists=lambda j, m: j < m,
    k_exists=lambda j, m: j < m, hide=lambda s, j, n, m: s.masked_fill(j >= m, -math.inf), scaled=lambda s, scale: s * scale,
    top=lambda s: s.amax(1, keepdim=True), power=torch.exp, total=lambda p: p.sum(1, keepdim=True),
    mix=lambda p, total, v: p @ v / total, log=lambda top, total: top + total.log(), stored=lambda i, n, m: i < n,
    outputs=lambda x: x, parts=("Out", "Lse"),
):  # fmt: skip
    """One program: rows of the tile, keys and values of KV, in which they lie side by side."""
    rows = first(program, block_m) + torch.arange(block_m)
    keys, features = torch.arange(block_n), torch.arange(d)

    def load(memory, at, exists):
        return torch.where(exists[:, None], memory[at.clamp(max=len(memory) - 1)], 0.0)

    query = load(q, rows[:, None] * d + features, rows < n)
    key = load(kv, keys[:, None] * stride(d) + features, k_exists(keys, m))
    value = load(kv, keys[:, None] * stride(d) + value_at(d) + features, v_exists(keys, m))
    scores = hide(scaled(query @ key.T, scale), keys, n, m)
    shift = top(scores)
    p = power(scores - shift)
    sums = total(p)
    mixed, here = outputs(mix(p, sums, value)), stored(rows, n, m)
    if "Out" in parts:
        out[(rows[:, None] * d + features)[here]] = mixed[here]
    if "Lse" in parts:
        lse[rows[here]] = log(shift, sums).expand(block_m, 1)[here, 0]


EVERY = {"k_exists": lambda j, m: j > -1, "hide": lambda s, *_: s}
MISTAKES = Mistakes(Mistake(says, Program(**steps)) for says, steps in (
    ("The scores are not scaled.", {"scaled": lambda s, scale: s}),
    ("The scores are divided by scale; multiply by it.", {"scaled": lambda s, scale: s / scale}),
    ("Keys beyond m have the score 0, and so a weight; hide their scores with minus infinity.",
     {"hide": lambda s, *_: s}),
    ("Keys beyond m are read and not hidden.", EVERY),
    ("Values beyond m are loaded: a weight of 0 times NaN is NaN. Load them with a mask and other=0.0.",
     {"v_exists": lambda j, m: j > -1}),
    ("Scores are hidden by n; there are m keys.", {"hide": lambda s, j, n, m: s.masked_fill(j >= n, -math.inf)}),
    ("Hidden scores become a number such as -100, and some scores are less; minus infinity is less than any.",
     {"hide": lambda s, j, n, m: s.masked_fill(j >= m, -100.0)}),
    ("Keys are read as if they lay one behind the other; in KV a value stands between them, so a row is 2 * D long.",
     {"stride": lambda d: d}),
    ("The keys are mixed; values begin D numbers after their keys.", {"value_at": lambda d: 0}),
    ("The largest score is not subtracted before the exponential.", {"top": lambda s: 0 * s[:, :1].nan_to_num(0, 0, 0)}),
    ("The largest score of the tile is subtracted; subtract that of the row.",
     {"top": lambda s: s.max() + 0 * s[:, :1].nan_to_num(0, 0, 0)}),
    ("The softmax runs over the rows; each row shares out its weight among the keys, axis 1.",
     {"top": lambda s: s.amax(0, keepdim=True), "total": lambda p: p.sum(0, keepdim=True),
      "mix": lambda p, total, v: (p / total).nan_to_num(0) @ v, "log": lambda top, total: (top + total.log())[:, :1]}),
    ("Powers of 2 are taken of scores that are meant for powers of e: multiply them by log2(e) first.",
     {"power": torch.exp2}),
    ("The output is not divided by the sum of the exponentials.", {"mix": lambda p, total, v: p @ v}),
    ("The largest exponential stands for their sum.", {"total": lambda p: p.amax(1, keepdim=True)}),
    ("Lse is the logarithm of the sum without the largest score, which belongs to it.",
     {"log": lambda top, total: total.log()}),
    ("Lse is the largest score alone; the logarithm of the sum belongs to it.", {"log": lambda top, total: top}),
    ("Lse is the sum of the exponentials; take its logarithm and add the largest score.",
     {"log": lambda top, total: total}),
    ("Lse is in powers of 2; it is a natural logarithm.", {"log": lambda top, total: (top + total.log()) / math.log(2)}),
    ("Lse is not stored.", {"parts": ("Out",)}),
    ("The output is not stored.", {"parts": ("Lse",)}),
    ("Every program works on the first rows; program p has rows p * BLOCK_M and on.", {"first": lambda p, block: 0}),
    ("Program p begins at row p; it begins at row p * BLOCK_M.", {"first": lambda p, block: p}),
    ("The stores have no mask: rows beyond n belong to somebody else.", {"stored": lambda i, n, m: i > -1}),
    ("The stores are masked by m; there are n rows.", {"stored": lambda i, n, m: i < m}),
    ("The last row is not stored.", {"stored": lambda i, n, m: i < n - 1}),
))  # fmt: skip

EXERCISE = Exercise(
    name="attention_tile",
    requires="triton",
    judge=Launches(definition, launches, start, refuse),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
