"""Exercise hidden_sending: from how many tokens a machine on, is a backward step of the ring longer than its sending?"""

import math
from fractions import Fraction
from functools import partial

import torch

from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Counts, Exercise, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import Case


def definition(num_heads, num_kv_heads, head_dim, flops_per_second, bytes_per_second):
    """Count for one token and one pair of tokens, then go up until computing takes as long as sending."""
    shape, types = (num_kv_heads, head_dim), (torch.bfloat16, torch.float32)
    kept = [torch.empty(shape, dtype=t, device="meta") for t in types]
    sent = sum(2 * x.nbytes for x in kept)  # keys and values, and the gradients of both
    a_pair = Fraction(sum(2 * num_heads * head_dim for _ in ("scores", "dP", "dV", "dQ", "dK")), 2)
    n = math.floor(Fraction(sent, bytes_per_second) * flops_per_second / a_pair)
    return n if n * a_pair * bytes_per_second >= sent * flops_per_second else n + 1


def cases(seed: int) -> list[Case]:
    """Cards and links by name, with a margin to the next whole number; and sizes drawn at random."""
    g, calls = seeded(seed), {
        "32 heads, 8 KV heads, 400 TFLOP/s, 45 GB/s": (32, 8, 128, 400 * 10**12, 45 * 10**9),
        "16 heads, each with a KV head, 300 TFLOP/s, 35 GB/s": (16, 16, 64, 300 * 10**12, 35 * 10**9),
        "12 heads, 1 KV head, 65 TFLOP/s, 1.1 GB/s": (12, 1, 96, 65 * 10**12, 11 * 10**8),
    }  # fmt: skip
    for _ in range(3):
        kv_heads, group, width, fast, wide = (int(torch.randint(*x, (), generator=g)) for x in (
            (1, 17), (2, 9), (4, 33), (50, 1000), (2, 900)))  # fmt: skip
        args = kv_heads * group, kv_heads, 4 * width, fast * 10**12 + 7, wide * 10**9 + 11
        calls[f"{args[0]} heads, {args[1]} KV heads, {fast} TFLOP/s, {wide} GB/s"] = args
    return [Case(label, args, gradients=False) for label, args in calls.items()]


def count(
    h, g, d, speed, wide, sent=lambda h, g, d: 12 * g * d, done=lambda h, g, d: 5 * h * d,
    ratio=lambda sent, done, speed, wide: Fraction(sent, wide) / Fraction(done, speed), end=math.ceil,
):  # fmt: skip
    """A right answer: bytes a token, FLOPs a token squared, and where the times are equal."""
    return end(ratio(sent(h, g, d), done(h, g, d), speed, wide))


ACCEPTED = Accepted(
    counted=count,
    whole_numbers=lambda h, g, d, speed, wide: -(-12 * g * speed // (5 * h * wide)),
    floats=lambda h, g, d, speed, wide: math.ceil(12 * g / wide / (5 * h / speed)),
    tensors=lambda h, g, d, speed, wide: torch.ceil(torch.tensor(2.4, dtype=torch.float64) * g / h * speed / wide).long(),
)  # fmt: skip


@ACCEPTED.add
def by_bisection(num_heads, num_kv_heads, head_dim, flops_per_second, bytes_per_second):
    low, high = 0, 10**9
    while high - low > 1:
        n = (low + high) // 2
        sending = 12 * n * num_kv_heads * head_dim * flops_per_second
        slow = sending > 5 * n * n * num_heads * head_dim * bytes_per_second
        low, high = (n, high) if slow else (low, n)
    return high


MISTAKES = Mistakes(Mistake(says, partial(count, **steps)) for says, steps in (
    ("These are the bytes of the forward step: keys and values. Backward, the gradients of both travel along.",
     {"sent": lambda h, g, d: 4 * g * d}),
    ("These are 8 bytes for a key number and a value number together; each of them has 2, and its "
     "gradient, which is added up on its way in float32, another 4.", {"sent": lambda h, g, d: 8 * g * d}),
    ("Everything is counted with 4 bytes; keys and values are in bfloat16.", {"sent": lambda h, g, d: 16 * g * d}),
    ("The number of heads has dropped out, as if as many were sent as compute; num_kv_heads heads are sent, and all "
     "num_heads compute.", {"sent": lambda h, g, d: 12 * h * d}),
    ("These are the FLOPs of the forward step, two products; backward there are five.",
     {"done": lambda h, g, d: 2 * h * d}),
    ("Backward is counted as four products; the scores are computed again, which makes five.",
     {"done": lambda h, g, d: 4 * h * d}),
    ("This is half the number: keys, values and both gradients travel, and under the causal mask a zigzag step "
     "computes half of all pairs.", {"done": lambda h, g, d: 10 * h * d}),
    ("This is twice the number: a multiply-add is two FLOPs, and the pairs are halved once.",
     {"done": lambda h, g, d: Fraction(5 * h * d, 2)}),
    ("head_dim does not stay: both bytes and FLOPs grow with it.", {"done": lambda h, g, d: 5 * h}),
    ("The fraction is upside down, or the bytes are divided by the FLOPs a second: compare two times.",
     {"ratio": lambda s, f, speed, wide: Fraction(f, s) * speed / wide}),
    ("The number is rounded down, and there sending still takes longer.", {"end": math.floor}),
    ("The number is rounded to the nearest one; the smallest that suffices is the next one up.", {"end": round}),
    ("One too many: where both take equally long, or the first that suffices, is the answer.",
     {"end": lambda n: math.ceil(n) + 1}),
    ("The number is not rounded; tokens are whole.", {"end": float}),
    ("The link is counted in bits; its speed is given in bytes a second.", {"end": lambda n: math.ceil(8 * n)}),
))  # fmt: skip

EXERCISE = Exercise(
    name="hidden_sending",
    answer="hidden_from",
    judge=Counts(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
