"""Exercise kv_bytes: the size of a key-value cache, held against tensors."""

import math
from dataclasses import dataclass
from functools import reduce
from operator import index, mul

import torch

from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    """Make the tensors of every layer (on the device that keeps shapes only) and add up their bytes."""
    total = 0
    for _ in range(layers):
        for width in (head_dim, value_dim):
            shape = (batch, num_kv_heads, length, width)
            total += torch.empty(shape, dtype=dtype, device="meta").nbytes
    return total


@dataclass(frozen=True)
class WholeNumbers(Calls):
    """Calls whose results are whole numbers of any type: int, of torch, of numpy; but no float."""

    def observe(self, answer, seed: int):
        def number(*args):
            found = answer(*args)
            try:
                return index(found)
            except TypeError:
                return found

        return super().observe(number if callable(answer) else answer, seed)


def cases(seed: int) -> list[Case]:
    """Published models and odd sizes; all types of numbers; widths that differ."""
    g = torch.Generator().manual_seed(seed)
    some = [int(torch.randint(2, 30, (), generator=g)) for _ in range(6)]
    calls = {
        "Llama 2 70B, 4096 tokens": (1, 80, 8, 4096, 128, 128, torch.float16),
        "3 sequences, values of another width": (3, 5, 7, 11, 13, 18, torch.float32),
        "1 key head, bfloat16": (2, 12, 1, 100, 64, 64, torch.bfloat16),
        "float64, 1 layer": (2, 1, 3, 5, 4, 6, torch.float64),
        "int8": (2, 3, 4, 5, 16, 8, torch.int8),
        "1 of everything": (1, 1, 1, 1, 1, 1, torch.float32),
        "nothing cached yet": (2, 3, 4, 0, 16, 8, torch.float16),
        "other sizes": (*some, torch.float32),
    }
    return [Case(label, args, gradients=False) for label, args in calls.items()]


ACCEPTED = Accepted()


@ACCEPTED.add
def product(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    return batch * layers * num_kv_heads * length * (head_dim + value_dim) * dtype.itemsize


@ACCEPTED.add
def tensors(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    key = torch.empty(layers, batch, length, num_kv_heads, head_dim, dtype=dtype)
    return key.nbytes // head_dim * (head_dim + value_dim)


@ACCEPTED.add
def token_by_token(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    one = torch.tensor([], dtype=dtype).element_size()
    per_token = sum(one * (head_dim + value_dim) for _ in range(layers * num_kv_heads))
    return per_token * length * batch


@ACCEPTED.add
def table_of_sizes(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    sizes = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2, torch.int8: 1}
    keys = reduce(mul, (batch, layers, num_kv_heads, length, head_dim))
    values = math.prod([batch, layers, num_kv_heads, length, value_dim])
    return (keys + values) * sizes[dtype]


MISTAKES = Mistakes()
for says, wrong in (
    ("Only the keys are counted; the values are kept, too.",
     lambda b, c, g, m, d, e, t: b * c * g * m * d * t.itemsize),
    ("Only the values are counted; the keys are kept, too.",
     lambda b, c, g, m, d, e, t: b * c * g * m * e * t.itemsize),
    ("The values have a width of their own: head_dim + value_dim instead of 2 head_dim.",
     lambda b, c, g, m, d, e, t: 2 * b * c * g * m * d * t.itemsize),
    ("The keys have a width of their own: head_dim + value_dim instead of 2 value_dim.",
     lambda b, c, g, m, d, e, t: 2 * b * c * g * m * e * t.itemsize),
    ("head_dim and value_dim are added twice: one tensor has head_dim, the other value_dim.",
     lambda b, c, g, m, d, e, t: 2 * b * c * g * m * (d + e) * t.itemsize),
    ("The mean width (head_dim + value_dim) // 2 drops a half when one is odd and the other even; add "
     "the widths.",
     lambda b, c, g, m, d, e, t: 2 * b * c * g * m * ((d + e) // 2) * t.itemsize),
    ("head_dim and value_dim are multiplied; keys and values lie side by side, so add them.",
     lambda b, c, g, m, d, e, t: b * c * g * m * d * e * t.itemsize),
    ("Two tensors of head_dim with 2 bytes a number: the values' width and dtype are ignored.",
     lambda b, c, g, m, d, e, t: 2 * b * c * g * m * d * 2),
    ("This is one layer only; every layer has its cache.",
     lambda b, c, g, m, d, e, t: b * g * m * (d + e) * t.itemsize),
    ("This is one sequence only; every sequence of the batch has its cache.",
     lambda b, c, g, m, d, e, t: c * g * m * (d + e) * t.itemsize),
    ("This is one layer of one sequence, as in the table of document 004, though in bytes.",
     lambda b, c, g, m, d, e, t: g * m * (d + e) * t.itemsize),
    ("The key heads are missing; every key head has keys and values of its own.",
     lambda b, c, g, m, d, e, t: b * c * m * (d + e) * t.itemsize),
    ("These are numbers; multiply by the bytes of one number, dtype.itemsize.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e)),
    ("These are numbers of one layer and one sequence, as in the table of document 004.",
     lambda b, c, g, m, d, e, t: g * m * (d + e)),
    ("These are bits; a byte has 8 of them.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e) * t.itemsize * 8),
    ("A number has always 2 bytes here; it depends on dtype.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e) * 2),
    ("A number has always 4 bytes here; it depends on dtype.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e) * 4),
    ("The length is squared, as in a table of scores; a cache has one row a token.",
     lambda b, c, g, m, d, e, t: b * c * g * m * m * (d + e) * t.itemsize),
    ("A token too many is counted.",
     lambda b, c, g, m, d, e, t: b * c * g * (m + 1) * (d + e) * t.itemsize),
    ("The length is missing; every token leaves a key and a value.",
     lambda b, c, g, m, d, e, t: b * c * g * (d + e) * t.itemsize),
    ("These are MiB; return bytes.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e) * t.itemsize / 2**20),
    ("These are GiB; return bytes.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e) * t.itemsize / 2**30),
    ("The result is a float; bytes are counted in whole numbers.",
     lambda b, c, g, m, d, e, t: float(b * c * g * m * (d + e) * t.itemsize)),
    ("torch.finfo knows no integers such as int8; dtype.itemsize knows all types.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (d + e) * torch.finfo(t).bits // 8),
    ("The queries are counted, too; they are not kept.",
     lambda b, c, g, m, d, e, t: b * c * g * m * (2 * d + e) * t.itemsize),
):  # fmt: skip
    MISTAKES.add(says)(wrong)

EXERCISE = Exercise(
    name="kv_bytes",
    answer="kv_bytes",
    title="The size of a cache",
    kind="Implement",
    points=1,
    difficulty=1,
    minutes=5,
    needs="section 'What it costs' of chapter 4",
    judge=WholeNumbers(definition, cases, gradients=False),
    hints=(
        "One token, one layer, one key head: which numbers are kept?",
        "A key of head_dim numbers and a value of value_dim numbers. How often is that repeated?",
        "batch * layers * num_kv_heads * length * (head_dim + value_dim) * dtype.itemsize",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
