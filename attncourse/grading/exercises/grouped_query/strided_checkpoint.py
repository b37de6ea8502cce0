"""Exercise strided_checkpoint: move query heads, so that a contiguous layer computes the same."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.grading.callable import no_function
from attncourse.grading.compare import difference, plain
from attncourse.grading.exercise import Case, Exercise, Facts, sized_cases
from attncourse.grading.heads import merge, split

CALLS = (  # special, b n width, rows of w_q and of w_k, a factor on x, num_heads, num_kv_heads
    ("6 query heads, 2 KV heads, head_dim 4, width 9", (2, 3, 9, 24, 8), 0.1, 6, 2),
    ("6 query heads, 3 KV heads, head_dim 2, width 12", (2, 3, 12, 12, 6), 0.1, 6, 3),
    ("8 query heads, 2 KV heads, head_dim 1", (2, 2, 7, 8, 2), 0.3, 8, 2),
    ("as many KV heads as query heads", (2, 2, 5, 6, 6), 0.3, 3, 3),
    ("1 KV head", (2, 2, 5, 6, 2), 0.3, 3, 1),
)


def layer(x, w_q, w_k, w_v, w_o, num_heads, num_kv_heads, strided):
    """A layer whose KV heads are dealt out, h % G, or shared by neighbouring query heads."""
    q, k, v = split(x @ w_q.T, num_heads), *(split(x @ w.T, num_kv_heads) for w in (w_k, w_v))
    if strided:
        k, v = (y[:, [h % num_kv_heads for h in range(num_heads)]] for y in (k, v))
    return merge(F.scaled_dot_product_attention(q, k, v, enable_gqa=True)) @ w_o.T


def matched(x: Tensor, y: Tensor) -> list[int | None]:
    """For each row of y the number of the row of x that is the same; None where none is."""
    apart = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist")
    most = 0.01 * x.norm(dim=1).mean()
    return [int(row.argmin()) if row.min() < most else None for row in apart]


def heads_of(old: tuple, new: tuple, num_heads: int, num_kv_heads: int) -> str:
    """Which old heads stand where in the new matrices, or what stands there; and which belong."""
    found, both = [], (("w_q", "rows", old[0], new[0]), ("w_o", "columns", old[1].mT, new[1].mT))
    for name, what, x, y in both:
        rows, d = matched(x, y), len(x) // num_heads
        heads = [rows[k : k + d] for k in range(0, len(rows), d)]
        for h, head in enumerate(heads):
            where = f"{name}: in the place of head {h}"
            if None in head:
                return f"{where} are {what} with other numbers; only their order may change"
            if head[0] % d or head != [*range(head[0], head[0] + d)]:
                stand = f"stand the old {what} {', '.join(map(str, head))}"
                return f"{where} {stand}; the {d} of a head stay together, in order"
        found.append(", ".join(str(head[0] // d) for head in heads))
    first = ", ".join(map(str, range(0, num_heads, num_kv_heads)))
    return (
        f"w_q has the rows of the old heads {found[0]}, and w_o the columns of {found[1]}. The "
        f"first {num_heads // num_kv_heads} read KV head 0: the old heads {first} belong there, in "
        "both in the same order"
    )


def problem(answer, x, w_q, w_k, w_v, w_o, *heads) -> str:
    """Why the contiguous layer does not compute the same; '' where it does."""
    given = w_q.float(), w_o.float()
    new = answer(*given, *heads)
    if new is None:
        return "nothing is returned; is `return` missing?"
    shapes = [getattr(y, "shape", None) for y in (new if isinstance(new, tuple | list) else [new])]
    if shapes != [w_q.shape, w_o.shape] or not all(map(plain, new)):
        came = " and ".join(str(tuple(x.shape)) for x in (w_q, w_o))
        return f"return (w_q, w_o), two tensors in the shapes in which they came: {came}"
    if any(y.dtype in (torch.float16, torch.bfloat16) for y in new):
        return f"they are {new[0].dtype} and {new[1].dtype}; keep the precision of float32"
    new_q, new_o = (y.detach().double() for y in new)
    before = layer(x, w_q, w_k, w_v, w_o, *heads, strided=True)
    if difference(before, layer(x, new_q, w_k, w_v, new_o, *heads, strided=False)):
        return heads_of((w_q, w_o), (new_q, new_o), *heads)
    kept = torch.equal(given[0], w_q.float()) and torch.equal(given[1], w_o.float())
    return "" if kept else "the checkpoint itself is changed; make new matrices"


def facts(answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
    """For each checkpoint: does the contiguous layer compute the same?"""
    cases = sized_cases(seed, "b n w q k", "b n w, q w, k w, k w, w q", CALLS)
    if strange := no_function(answer, right, [Case("", (None, None, 1, 1))]):
        yield CALLS[0][0], strange
        return
    for case in cases:
        double = (y.double() if isinstance(y, torch.Tensor) else y for y in case.args)
        yield case.label, problem(answer, *double) or True


def right(w_q, w_o, num_heads, num_kv_heads):
    shape = (num_heads // num_kv_heads, num_kv_heads, -1)
    rows = w_q.unflatten(0, shape).transpose(0, 1).flatten(0, 2)
    return rows, w_o.unflatten(1, shape).transpose(1, 2).flatten(1)


EXERCISE = Exercise(
    name="strided_checkpoint",
    answer="load_strided",
    judge=Facts(facts, tuple(call[0] for call in CALLS)),
    right=right,
)
