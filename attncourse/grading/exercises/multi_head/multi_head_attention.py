"""Exercise multi_head_attention: project, split, attend, multiply each head by a slice of w_o."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Calls, Case, Dataflow, Exercise, Mistake, sized_cases
from attncourse.grading.heads import split


def definition(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    """The sum of the course with a w_o that knows one head only, head after head."""
    params, shares = {"q_proj.weight": w_q, "k_proj.weight": w_k, "v_proj.weight": w_v}, []
    for head in torch.eye(num_heads).repeat_interleave(len(w_o) // num_heads, 1):
        params["out_proj.weight"] = w_o * head
        output, weights = spec.multi_head_attention(query, key, value, params, num_heads)
        shares.append(output)
    return torch.stack(shares, dim=1), weights


CALLS = (  # what is special, b n m w k v, how loud, num_heads
    ("2 samples, 5 queries, 6 keys, embed_dim 12, keys 7 and values 8 wide, 3 heads",
     (2, 5, 6, 12, 7, 8), 1, 3),
    ("as many queries as keys, all widths 10, 2 heads", (3, 4, 4, 10, 10, 10), 1, 2),
    ("1 head", (2, 2, 3, 5, 6, 7), 1, 1),
    ("large scores", (1, 4, 5, 6, 6, 6), 900, 2),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Matrices that keep numbers of their size."""
    found = sized_cases(seed, "b n m w k v", "b n w, b m k, b m v, w w, w k, w v, w w", CALLS)
    for w in (w for case in found for w in case.args[3:7]):
        w /= w.size(1) ** 0.5
    return found


@Dataflow
def right(query, key, value, w_q, w_k, w_v, w_o, num_heads, split=split):
    q, k, v = (split(x, num_heads) for x in (query @ w_q.T, key @ w_k.T, value @ w_v.T))
    scores = yield "the scaled scores", q @ k.mT / q.size(-1) ** 0.5
    weights = yield "the weights", scores.softmax(-1)
    heads = yield "the outputs of the heads", weights @ v
    columns = yield "the columns of w_o", w_o.unflatten(1, (num_heads, -1)).permute(1, 2, 0)
    return heads @ columns, weights


def cut_late(*args):
    shares, weights = right(*args)
    return split(shares.sum(1), args[-1]), weights


EXERCISE = Exercise(
    name="multi_head_attention",
    judge=Calls(definition, cases),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the shares", "the weights"),
    ideas=[
        Mistake("The output is cut into num_heads pieces, but w_o has mixed the heads by then: "
                "multiply each head by its slice of w_o.", cut_late),
        right.but("Head h meets rows of w_o. Matrices are (out, in): a head hands in columns, and "
                  "is multiplied by w_o[:, columns].T.", "the columns of w_o",
                  lambda x: x.permute(2, 0, 1).flatten(1).unflatten(0, x.shape[:2])),
        Mistake("The memory is only read with other sizes, so each head gets pieces of several "
                "positions: cut the last axis first, then transpose.",
                partial(right, split=lambda x, h: x.reshape(len(x), h, x.size(1), -1))),
    ],
)  # fmt: skip
