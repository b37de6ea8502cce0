"""Exercise merge_halves: results over two halves of the keys become one, also of none."""

import math

import torch

from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.exercises.ring import merge_parts
from attncourse.grading.explain.mixtures import mixture


def definition(output_a, lse_a, output_b, lse_b):
    """The halves as two of any number of parts, which `merge_parts` defines row by row."""
    outputs, lses = torch.stack([output_a, output_b]), torch.stack([lse_a, lse_b])
    return merge_parts.definition(outputs, lses)


CALLS = (  # special about the call, b h n e, how loud, which halves are empty in some rows
    ("2 samples, 3 heads, 4 queries, values 5 wide", (2, 3, 4, 5), 1, ""),
    ("the first half is empty in some rows", (2, 2, 5, 3), 1, "a"),
    ("each half is empty somewhere, and both in a row", (1, 3, 7, 4), 1, "abc"),
    ("log-sum-exps far from 0", (2, 3, 5, 2), 300, ""),
    ("log-sum-exps of about -11,000", (1, 2, 4, 3), 2, ""),
    ("outputs near 100,000", (2, 1, 3, 4), 2, ""),  # float16 has no such numbers
)


def cases(seed: int) -> list[Case]:
    """An output of a half that is empty is what the memory held: infinity, or another number."""
    g, found = seeded(seed), []
    for what, (b, h, n, e), loud, empty in CALLS:
        output_a, lse_a, output_b, lse_b = normal(g, *[(b, h, n, e), (b, h, n)] * 2)
        lse_a, lse_b = loud * lse_a, loud * lse_b
        if "11,000" in what:
            other = 40.0 * (torch.arange(n) % 2)  # one has all; float32 has no other shares there
            lse_a, lse_b = (x.expand(b, h, n) - 11_000 for x in (-other, other))
        rows = torch.randperm(n, generator=g)
        for name, row in zip("abc", rows.tolist(), strict=False):
            for half, output, lse in ("a", output_a, lse_a), ("b", output_b, lse_b):
                if name in empty and name in (half, "c"):
                    lse[..., row], output[0, :, row], output[1:, :, row] = -math.inf, math.inf, 7e4
        if "100,000" in what:
            output_a, output_b = 1e5 * output_a, 1e5 * output_b
        args = output_a, lse_a, output_b, lse_b
        found.append(Case(what, args, gradients=None if empty else loud == 1))
    return found


@Dataflow
def right(output_a, lse_a, output_b, lse_b):
    lse = yield "the lse of both", torch.logaddexp(lse_a, lse_b)
    shift = yield "the lse that are subtracted", lse.masked_fill(lse == -math.inf, 0)
    a = yield "the shares of the first half", torch.exp(lse_a - shift)
    b = yield "the shares of the second half", torch.exp(lse_b - shift)
    kept_a, kept_b = (
        output.masked_fill((x == -math.inf)[..., None], 0)
        for output, x in ((output_a, lse_a), (output_b, lse_b))
    )
    kept_a = yield "the outputs of the first half, 0 where it is empty", kept_a
    kept_b = yield "the outputs of the second half, 0 where it is empty", kept_b
    return a[..., None] * kept_a + b[..., None] * kept_b, lse


EXERCISE = Exercise(
    name="merge_halves",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n"),
    results=("the output", "the lse"),
    explain=(mixture("output_a", "output_b", each="sample head query"),),
)
