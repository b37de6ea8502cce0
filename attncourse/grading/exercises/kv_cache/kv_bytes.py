"""Exercise kv_bytes: the size of a key-value cache, held against tensors."""

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, Mistake, seeded
from attncourse.grading.explain.formula import product
from attncourse.grading.explain.probes import simpler


def definition(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    """Make the tensors of all layers (on the device that keeps shapes only), add up their bytes."""
    sizes = batch, layers, num_kv_heads, length
    each = [torch.empty(*sizes, x, dtype=dtype, device="meta") for x in (head_dim, value_dim)]
    return sum(x.nbytes for x in each)


TYPES = "float64 bfloat16 float8_e5m2 int8 uint8 int16 int32 int64 bool complex64 complex128"


def cases(seed: int) -> list[Case]:
    """Published models and odd sizes; all types of numbers; widths that differ."""
    g = seeded(seed)
    some = [int(torch.randint(2, 30, (), generator=g)) for _ in range(6)]
    calls = {
        "3 sequences, values of another width": (3, 5, 7, 11, 13, 18, torch.float32),
        "Llama 2 70B, 4096 tokens": (1, 80, 8, 4096, 128, 128, torch.float16),
        "Llama 2 70B, 5 times 4095 tokens": (5, 80, 8, 4095, 128, 127, torch.float16),
        "1 of everything": (1, 1, 1, 1, 1, 1, torch.float32),
        "nothing cached yet": (2, 3, 4, 0, 16, 8, torch.float16),
        "other sizes": (*some, torch.float32),
        **{f"torch.{x}": (2, 3, 5, 7, 16, 9, getattr(torch, x)) for x in TYPES.split()},
    }
    return [Case(label, args, gradients=False) for label, args in calls.items()]


def right(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    return batch * layers * num_kv_heads * length * (head_dim + value_dim) * dtype.itemsize


ONLY = (  # how the labels of all wrong calls begin
    ("torch.", "Only some types are wrong: a number of them has another size, or an error is "
     "raised. dtype.itemsize knows all types."),
    ("Llama 2 70B, 5", "Only the largest cache is wrong: 32 bits are too few for its bytes. Whole "
     "numbers of Python have no end."),
    ("nothing cached", "Only the empty cache is wrong: with length 0 it takes 0 bytes."),
)  # fmt: skip


def only(asked):
    """Which kind of call alone is wrong."""
    labels = [x.label for x in asked.wrong]
    return next((says for start, says in ONLY if all(x.startswith(start) for x in labels)), "")


UNITS = {"": 1.0, "2": 2.0, "8": 8.0} | {f"1 / {a}**{k}": a**-k for a, k in (
    (2, 10), (2, 20), (2, 30), (10, 3), (10, 6), (10, 9))}  # fmt: skip
RIGHT = "batch * layers * num_kv_heads * length * (head_dim + value_dim) * dtype.itemsize"


def counted(asked):
    """The product that the answer gives, with its factors."""
    calls = [x for x in asked.calls if x.expected]
    b, c, g, m, d, e, types = zip(*(x.case.args for x in calls), strict=True)
    sizes = [t.itemsize for t in types]

    def one(name, numbers, *others):
        return {name: numbers, "": 1.0, f"{name} ** 2": [x**2 for x in numbers], **dict(others)}

    both = list(zip(d, e, strict=True))
    found = product(
        [float(x.seen) for x in calls],
        one("batch", b), one("layers", c), one("num_kv_heads", g), one("length", m),
        {"(head_dim + value_dim)": list(map(sum, both)), "head_dim": d, "value_dim": e, "": 1.0,
         "2 * head_dim": [2 * x for x in d], "2 * value_dim": [2 * x for x in e],
         "(2 * head_dim + value_dim)": [2 * x + y for x, y in both],
         "head_dim * value_dim": [x * y for x, y in both]},
        {"dtype.itemsize": sizes, "": 1.0, "2": 2.0, "4": 4.0, "8": 8.0},
        UNITS,
    )  # fmt: skip
    return f"The numbers are {found}; they should be {RIGHT}." if found else ""


SIZES = "batch", "layers", "num_kv_heads", "length", "head_dim", "value_dim"
QUESTIONS = simpler(
    ("Where all sizes are 1, in int8", (1,) * 6 + (torch.int8,)),
    *((f"Where {x} is 3 and the others are 1, in int8", tuple(1 + 2 * (x == y) for y in SIZES)
       + (torch.int8,)) for x in SIZES),
    ("Where all sizes are 1, in float32", (1,) * 6 + (torch.float32,)),
    ("Where all sizes are 1, in int16", (1,) * 6 + (torch.int16,)),
)  # fmt: skip


EXERCISE = Exercise(
    name="kv_bytes",
    judge=Counts(definition, cases),
    right=right,
    explain=(only, counted, QUESTIONS),
    ideas=[
        Mistake("itemsize is no function: dtype.itemsize, without parentheses.",
                lambda *given: given[-1].itemsize()),
        Mistake("The result is a float; bytes are counted in whole numbers.",
                lambda *given: float(right(*given))),
    ],
)  # fmt: skip
