"""Exercise kv_bytes: the size of a key-value cache, held against tensors."""

import math
from functools import partial

import torch

from attncourse.grading.exercise import Accepted, Case, Counts, Exercise, Mistake, Mistakes
from attncourse.grading.inputs import seeded


def definition(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    """Make the tensors of all layers (on the device that keeps shapes only) and add up their bytes."""
    sizes = batch, layers, num_kv_heads, length
    each = [torch.empty(*sizes, x, dtype=dtype, device="meta") for x in (head_dim, value_dim)]
    return sum(x.nbytes for x in each)


def cases(seed: int) -> list[Case]:
    """Published models and odd sizes; all types of numbers; widths that differ."""
    g = seeded(seed)
    types = torch.float64, torch.bfloat16, torch.int8, torch.int16, torch.bool, torch.complex64
    some = [int(torch.randint(2, 30, (), generator=g)) for _ in range(6)]
    calls = {
        "3 sequences, values of another width": (3, 5, 7, 11, 13, 18, torch.float32),
        "Llama 2 70B, 4096 tokens": (1, 80, 8, 4096, 128, 128, torch.float16),
        "Llama 2 70B, 5 times 4095 tokens": (5, 80, 8, 4095, 128, 127, torch.float16),
        "1 of everything": (1, 1, 1, 1, 1, 1, torch.float32),
        "nothing cached yet": (2, 3, 4, 0, 16, 8, torch.float16),
        "other sizes": (*some, torch.float32),
        **{str(dtype): (2, 3, 5, 7, 16, 9, dtype) for dtype in types},
    }
    return [Case(label, args, gradients=False) for label, args in calls.items()]


ACCEPTED = Accepted(
    product=lambda b, layers, heads, m, d, e, dtype: b * layers * heads * m * (d + e) * dtype.itemsize,
    tensors=lambda b, layers, heads, m, d, e, dtype: torch.tensor(
        layers * sum(torch.empty(b, heads, m, x, dtype=dtype).nbytes for x in (d, e))),
    token_by_token=lambda b, layers, heads, m, d, e, dtype: b * m * sum(
        (d + e) * torch.tensor([], dtype=dtype).element_size() for _ in range(layers * heads)),
)  # fmt: skip


@ACCEPTED.add
def table_of_sizes(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    name = str(dtype).removeprefix("torch.")
    bits = {"bool": 8, "float8_e4m3fn": 8}.get(name) or int("".join(filter(str.isdigit, name)))
    return math.prod([batch, layers, num_kv_heads, length, head_dim + value_dim]) * bits // 8


def count(
    b, c, g, m, d, e, t, without="", width=lambda d, e: d + e, rows=lambda m: m,
    one=lambda t: t.itemsize, end=lambda total: total,
):  # fmt: skip
    """The bytes; a mistake leaves factors out or replaces some."""
    factors = {"b": b, "c": c, "g": g, "m": rows(m), "w": width(d, e), "t": one(t)}
    return end(math.prod(x for name, x in factors.items() if name not in without))


KNOWN = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2, torch.int8: 1}
MISTAKES = Mistakes(Mistake(says, partial(count, **steps)) for says, steps in (
    ("Only the keys are counted; the values are kept, too.", {"width": lambda d, e: d}),
    ("Only the values are counted; the keys are kept, too.", {"width": lambda d, e: e}),
    ("The values have a width of their own: head_dim + value_dim, not 2 head_dim.", {"width": lambda d, e: 2 * d}),
    ("The keys have a width of their own: head_dim + value_dim, not 2 value_dim.", {"width": lambda d, e: 2 * e}),
    ("head_dim and value_dim are added twice; each belongs to one tensor.", {"width": lambda d, e: 2 * (d + e)}),
    ("The mean width, (head_dim + value_dim) // 2, drops a half.", {"width": lambda d, e: (d + e) // 2 * 2}),
    ("head_dim and value_dim are multiplied; keys and values lie side by side.", {"width": lambda d, e: d * e}),
    ("Two tensors of head_dim with 2 bytes a number: the values' width and dtype are ignored.",
     {"width": lambda d, e: 2 * d, "one": lambda t: 2}),
    ("The queries are counted, too; they are not kept.", {"width": lambda d, e: 2 * d + e}),
    ("This is one layer only; every layer has its cache.", {"without": "c"}),
    ("This is one sequence only; every sequence of the batch has its cache.", {"without": "b"}),
    ("This is one layer of one sequence; every layer and every sequence has a cache.", {"without": "bc"}),
    ("num_kv_heads is missing; every KV head has keys and values of its own.", {"without": "g"}),
    ("The length is missing; every token leaves a key and a value.", {"without": "m"}),
    ("The length is squared, as in a table of scores; a cache has one row a token.", {"rows": lambda m: m * m}),
    ("These are numbers; multiply by the bytes of one number, dtype.itemsize.", {"without": "t"}),
    ("These are numbers, of one layer and one sequence; count bytes, of all of them.", {"without": "bct"}),
    ("A number has always 2 bytes here; it depends on dtype.", {"one": lambda t: 2}),
    ("A number has always 4 bytes here; it depends on dtype.", {"one": lambda t: 4}),
    ("A table of types misses some; dtype.itemsize knows all of them.", {"one": KNOWN.__getitem__}),
    ("Not every type that is no float has 1 byte: torch.int32 has 4. dtype.itemsize knows all types.",
     {"one": lambda t: t.itemsize if t.is_floating_point else 1}),
    ("torch.finfo knows no integers; dtype.itemsize knows all.", {"one": lambda t: torch.finfo(t).bits // 8}),
    ("The digits in the name of a type are not always its bits: torch.bool has none.",
     {"one": lambda t: int("".join(filter(str.isdigit, str(t)))), "end": lambda total: total // 8}),
    ("The product overflows int32 beyond 2**31 bytes; use Python's whole numbers.",
     {"end": lambda total: (total + 2**31) % 2**32 - 2**31}),
    ("These are bits; a byte has 8 of them.", {"end": lambda total: total * 8}),
    ("These are MiB; return bytes.", {"end": lambda total: total / 2**20}),
    ("These are GiB; return bytes.", {"end": lambda total: total / 2**30}),
    ("The result is a float; bytes are counted in whole numbers.", {"end": float}),
))  # fmt: skip

EXERCISE = Exercise(
    name="kv_bytes", title="The size of a cache", kind="Implement",
    points=1, difficulty=1, minutes=5, needs="section 'What it costs' of chapter 6",
    judge=Counts(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=("One token, one layer, one KV head: which numbers are kept?",
           "A key of head_dim numbers and a value of value_dim numbers. How often is that repeated?",
           "batch * layers * num_kv_heads * length * (head_dim + value_dim) * dtype.itemsize"),
)  # fmt: skip
