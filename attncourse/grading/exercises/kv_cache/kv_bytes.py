"""Exercise kv_bytes: the size of a key-value cache, held against tensors."""

import math
from dataclasses import dataclass
from functools import partial

import torch

from attncourse.grading.compare import difference
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
    names = "float64 bfloat16 float8_e5m2 int8 uint8 int16 int32 int64 bool complex64 complex128"
    types = [getattr(torch, name) for name in names.split()]
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


@dataclass(frozen=True)
class Bytes(Counts):
    """Counts that tell where alone an answer is wrong."""

    def notice(self, expected, seen, seed: int) -> str:
        wrong = [
            k for k in expected if k.endswith(", output") and difference(expected[k], seen.get(k))
        ]
        for start, says in ONLY:
            if all(what.startswith(start) for what in wrong):
                return says
        return ""


ONLY = (  # how the labels of all wrong calls begin
    ("torch.", "Only some types are wrong: a number of them has another size, or an error is raised. dtype.itemsize knows all types."),
    ("Llama 2 70B, 5", "Only the largest cache is wrong: 32 bits are too few for its bytes. Python's whole numbers have no end."),
    ("nothing cached", "Only the empty cache is wrong: with length 0 it takes 0 bytes."),
)  # fmt: skip

ACCEPTED = Accepted(
    product=lambda b, layers, heads, m, d, e, dtype: b * layers * heads * m * (d + e) * dtype.itemsize,
    tensors=lambda b, layers, heads, m, d, e, dtype: torch.tensor(
        layers * sum(torch.empty(b, heads, m, x, dtype=dtype).nbytes for x in (d, e))),
    token_by_token=lambda b, layers, heads, m, d, e, dtype: b * m * sum(
        (d + e) * torch.tensor([], dtype=dtype).element_size() for _ in range(layers * heads)),
)  # fmt: skip


@ACCEPTED.add
def table_of_sizes(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    name = str(dtype).removeprefix("torch.").partition("_")[0]
    bits = 8 if name == "bool" else int("".join(filter(str.isdigit, name)))
    return math.prod([batch, layers, num_kv_heads, length, head_dim + value_dim]) * bits // 8


def count(
    b, c, g, m, d, e, t, without="", width=lambda d, e: d + e, rows=lambda m: m,
    one=lambda t: t.itemsize, end=lambda total: total, extra=lambda b, c, g: 1,
):  # fmt: skip
    """The bytes; a mistake leaves factors out or replaces some."""
    factors = {"b": b, "c": c, "g": g, "m": rows(m), "w": width(d, e), "t": one(t)}
    return end(extra(b, c, g) * math.prod(x for name, x in factors.items() if name not in without))


UNITS = (
    ("KiB", 2**10),
    ("MiB", 2**20),
    ("GB or GiB", 2**30),
    ("kB", 10**3),
    ("MB", 10**6),
    ("GB or GiB", 10**9),
)
KNOWN = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2, torch.int8: 1}
MISTAKES = Mistakes(Mistake(says, partial(count, **steps)) for says, steps in (
    ("Only the keys are counted; the values are kept, too.", {"width": lambda d, e: d}),
    ("Only the values are counted; the keys are kept, too.", {"width": lambda d, e: e}),
    ("The values have a width of their own: head_dim + value_dim, not 2 head_dim.", {"width": lambda d, e: 2 * d}),
    ("The keys have a width of their own: head_dim + value_dim, not 2 value_dim.", {"width": lambda d, e: 2 * e}),
    ("Each width is taken for the wider of the two; keys have head_dim numbers, values value_dim.",
     {"width": lambda d, e: 2 * max(d, e)}),
    ("Each width is taken for the narrower of the two; keys have head_dim numbers, values value_dim.",
     {"width": lambda d, e: 2 * min(d, e)}),
    ("The widths are missing; a key has head_dim numbers, a value value_dim.", {"width": lambda d, e: 1}),
    ("head_dim and value_dim are added twice; each belongs to one tensor.", {"width": lambda d, e: 2 * (d + e)}),
    ("The mean width, (head_dim + value_dim) // 2, drops a half.", {"width": lambda d, e: (d + e) // 2 * 2}),
    ("head_dim and value_dim are multiplied; keys and values lie side by side.", {"width": lambda d, e: d * e}),
    ("Two tensors of head_dim with 2 bytes a number: the values' width and dtype are ignored.",
     {"width": lambda d, e: 2 * d, "one": lambda t: 2}),
    ("The queries are counted, too; they are not kept.", {"width": lambda d, e: 2 * d + e}),
    ("This is one layer only; every layer has its cache.", {"without": "c"}),
    ("This is one KV head of one layer; every layer and every KV head has keys and values.", {"without": "cg"}),
    ("The layers are counted twice over; each has one cache.", {"extra": lambda b, c, g: c}),
    ("The sequences are counted twice over; each has one cache.", {"extra": lambda b, c, g: b}),
    ("The KV heads are counted twice over; each has one key a token.", {"extra": lambda b, c, g: g}),
    ("This is one sequence only; every sequence of the batch has its cache.", {"without": "b"}),
    ("This is one layer of one sequence; every layer and every sequence has a cache.", {"without": "bc"}),
    ("num_kv_heads is missing; every KV head has keys and values of its own.", {"without": "g"}),
    ("The length is missing; every token leaves a key and a value.", {"without": "m"}),
    ("A token too many is counted; length tokens are kept.", {"rows": lambda m: m + 1}),
    ("A token too few is counted; all length tokens are kept.", {"rows": lambda m: m - 1}),
    ("The length is squared, as in a table of scores; a cache has one row a token.", {"rows": lambda m: m * m}),
    ("These are numbers; multiply by the bytes of one number, dtype.itemsize.", {"without": "t"}),
    ("These are numbers, of one layer and one sequence; count bytes, of all of them.", {"without": "bct"}),
    ("A number has always 2 bytes here; it depends on dtype.", {"one": lambda t: 2}),
    ("A number has always 4 bytes here; it depends on dtype.", {"one": lambda t: 4}),
    ("A float has always 2 bytes here, and any other number 1; it depends on dtype.",
     {"one": lambda t: 2 if t.is_floating_point else 1}),
    ("A number has always 8 bytes here; it depends on dtype.", {"one": lambda t: 8}),
    ("itemsize is no function: dtype.itemsize, without parentheses.", {"one": lambda t: t.itemsize()}),
    ("A dtype has no element_size(), only a tensor has; it has itemsize.", {"one": lambda t: t.element_size()}),
    ("A table of types misses some; dtype.itemsize knows all of them.", {"one": KNOWN.__getitem__}),
    ("Not every type that is no float has 1 byte: torch.int32 has 4. dtype.itemsize knows all types.",
     {"one": lambda t: t.itemsize if t.is_floating_point else 1}),
    ("torch.finfo knows no integers; dtype.itemsize knows all.", {"one": lambda t: torch.finfo(t).bits // 8}),
    ("The digits in the name of a type are not always its bits: torch.bool has none.",
     {"one": lambda t: int("".join(filter(str.isdigit, str(t)))), "end": lambda total: total // 8}),
    ("The product overflows int32 beyond 2**31 bytes; use Python's whole numbers.",
     {"end": lambda total: (total + 2**31) % 2**32 - 2**31}),
    ("These are bits; a byte has 8 of them.", {"end": lambda total: total * 8}),
    *((f"These are {unit}, whole or not; return bytes.", {"end": end}) for unit, size in UNITS
      for end in (lambda total, size=size: total / size, lambda total, size=size: total // size)),
    ("The bytes are rounded; they are a whole number as they are.", {"end": lambda total: round(total, -3)}),
    ("The result is a float; bytes are counted in whole numbers.", {"end": float}),
)) + [Mistake(says, wrong) for says, wrong in (  # fmt: skip
    ("Keys and values are returned apart; add their bytes.", lambda b, c, g, m, d, e, t: (
        count(b, c, g, m, d, 0, t), count(b, c, g, m, 0, e, t))),
    ("Only the bytes of the values are multiplied; put the sum of both widths in parentheses.",
     lambda b, c, g, m, d, e, t: b * c * g * m * d + e * t.itemsize),
    ("Only the values are multiplied by the size of a number; put the sum of both widths in parentheses.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e * t.itemsize)),
    ("Batch, layers, heads and length are added; each multiplies the others.",
     lambda b, c, g, m, d, e, t: (b + c + g + m) * (d + e) * t.itemsize),
)]  # fmt: skip

EXERCISE = Exercise(
    name="kv_bytes", judge=Bytes(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES
)
