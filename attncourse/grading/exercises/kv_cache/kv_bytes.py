"""Exercise kv_bytes: the size of a key-value cache, held against tensors."""

import torch

from attncourse.grading.exercise import Asked, Case, Counts, Exercise, Raised, seeded


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
        "Llama 2 70B, 5 x 4095: over 2**32 bytes": (5, 80, 8, 4095, 128, 127, torch.float16),
        "nothing cached yet": (2, 3, 4, 0, 16, 8, torch.float16),
        "other sizes": (*some, torch.float32),
        **{f"torch.{x}": (2, 3, 5, 7, 16, 9, getattr(torch, x)) for x in TYPES.split()},
    }
    return [Case(label, args, gradients=False) for label, args in calls.items()]


def right(batch, layers, num_kv_heads, length, head_dim, value_dim, dtype):
    return batch * layers * num_kv_heads * length * (head_dim + value_dim) * dtype.itemsize


UNITS = {"KiB": 2**10, "kB": 10**3, "MiB": 2**20, "MB": 10**6, "GiB or GB": 2**30}


def unit(asked: Asked) -> str:
    """Are these no bytes, but a larger unit, rounded down or not?"""
    if {x.seen for x in asked.calls if not isinstance(x.seen, Raised)} == {0}:
        return "The answer is 0 in every call."
    for name, size in UNITS.items():
        if all(int(x.seen) == x.expected // size for x in asked.calls):
            return f"These are {name}; return bytes."
    return ""


def grown(asked: Asked) -> str:
    """Does the answer grow as it should where one of its arguments changes?"""
    sizes, types = (3, 5, 7, 11, 13, 17), TYPES.split()
    args = [(*sizes, torch.float32)]
    args += [(*sizes[:k], 2 * x, *sizes[k + 1 :], torch.float32) for k, x in enumerate(sizes)]
    args += [(*sizes, getattr(torch, x)) for x in types]
    (_, right, seen), *others = asked.again([Case("", x, gradients=False) for x in args])
    grows = [found != seen for _, _, found in others[: len(sizes)]]
    if any(grows) and all(found == seen for _, _, found in others[len(sizes) :]):
        return "All types give the same number; dtype.itemsize tells how many bytes each has."
    where = [f"where {x} doubles" for x in asked.arguments[:-1]]
    where += [f"where torch.float32 becomes torch.{x}" for x in types]
    wrong = [
        f"{what}, by {found / seen:.3g} instead of {should / right:.3g}"
        for what, (_, should, found) in zip(where, others, strict=True)
        if not isinstance(found, Raised) and abs(found / seen - should / right) > 0.01
    ]
    if not wrong:
        return ""
    return f"The number of bytes does not grow as it should: {'; '.join(wrong[:3])}."


EXERCISE = Exercise(
    name="kv_bytes", judge=Counts(definition, cases), right=right, explain=(unit, grown)
)
