"""Exercise hidden_sending: from how many tokens on does a ring step hide its sending?"""

import math
from fractions import Fraction

import torch

from attncourse.grading.exercise import Case, Counts, Exercise, seeded
from attncourse.grading.explain.counts import Made
from attncourse.grading.explain.probes import doubled


def definition(num_heads, num_kv_heads, head_dim, flops_per_second, bytes_per_second):
    """Count for one token and one pair of tokens, then go up until computing takes as long."""
    shape, types = (num_kv_heads, head_dim), (torch.bfloat16, torch.float32)
    kept = [torch.empty(shape, dtype=t, device="meta") for t in types]
    sent = sum(2 * x.nbytes for x in kept)  # keys and values, and the gradients of both
    products = "scores", "dP", "dV", "dQ", "dK"
    a_pair = Fraction(sum(2 * num_heads * head_dim for _ in products), 2)
    n = math.floor(Fraction(sent, bytes_per_second) * flops_per_second / a_pair)
    return n if n * a_pair * bytes_per_second >= sent * flops_per_second else n + 1


# num_heads, num_kv_heads, head_dim, TFLOP/s, GB/s
CALLS = (32, 8, 128, 400, 45), (16, 16, 64, 300, 35), (12, 1, 96, 65, 1.1), (8, 8, 128, 65, 0.2)


def cases(seed: int) -> list[Case]:
    """Cards and links by name, with a margin to the next whole number; and sizes at random."""
    g, calls = seeded(seed), list(CALLS)
    for _ in range(3):
        kv_heads, group, width, fast, wide = (
            int(torch.randint(*x, (), generator=g))
            for x in ((1, 17), (2, 9), (4, 33), (50, 1000), (2, 900))
        )
        # A little more than whole, so that no two times are equal.
        calls.append((kv_heads * group, kv_heads, 4 * width, fast + 7e-12, wide + 11e-9))
    return [
        Case(
            f"{heads} heads, {kv_heads} KV heads, {fast:.0f} TFLOP/s, {wide:.3g} GB/s",
            (heads, kv_heads, width, round(fast * 10**12), round(wide * 10**9)),
            gradients=False,
        )
        for heads, kv_heads, width, fast, wide in calls
    ]


def right(num_heads, num_kv_heads, head_dim, flops_per_second, bytes_per_second):
    sent, computed = 12 * num_kv_heads * head_dim, 5 * num_heads * head_dim
    return -(-sent * flops_per_second // (computed * bytes_per_second))


MADE = Made(others={  # the number of tokens is what is sent, divided by what is computed
    "counting the forward pass, which sends keys and values and takes two products": 5 / 6,
    "sending the gradients in bfloat16": 2 / 3, "sending everything in float32": 4 / 3,
    "leaving out the gradients that are sent": 1 / 3, "sending keys or values alone": 1 / 2,
    "computing all pairs, not half of them": 1 / 2,
    "taking head_dim FLOPs for a product, not 2 head_dim": 2,
    **{f"taking {n} product{'s' * (n > 1)} for a pair": 5 / n for n in (1, 2, 3, 4, 6, 7)},
})  # fmt: skip
ONE_OFF = {
    -1: "One gets that by counting n (n + 1) / 2 pairs, or by cutting off 1,199,999.99.",
    1: "One gets that by rounding down and adding 1, or by counting n (n - 1) / 2 pairs.",
}
EXERCISE = Exercise(
    name="hidden_sending",
    answer="hidden_from",
    judge=Counts(definition, cases),
    right=right,
    explain=(doubled(8, 4, 64, 10**12, 10**6, made=MADE, near=ONE_OFF),),
)
