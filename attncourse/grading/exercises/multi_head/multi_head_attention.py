"""Exercise multi_head_attention: project, split, attend, merge, project."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.exercises.multi_head import merge_heads, split_heads
from attncourse.grading.exercises.multi_head.merge_heads import merge
from attncourse.grading.exercises.multi_head.split_heads import split
from attncourse.grading.families import ATTENTION, in_place, mistakes_of, outputs, weights
from attncourse.grading.inputs import alternating, sized_cases
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, Recipe, triangle


def definition(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    """The sum of the course, with its parameters under their names."""
    matrices = {"q_proj": w_q, "k_proj": w_k, "v_proj": w_v, "out_proj": w_o}
    params = {f"{name}.weight": w for name, w in matrices.items()}
    return spec.multi_head_attention(query, key, value, params, num_heads)


CALLS = (  # what is special, b n m w k v, how loud, num_heads
    ("2 samples, 5 queries, 6 keys, embed_dim 12, keys 7 and values 8 wide, 3 heads", (2, 5, 6, 12, 7, 8), 1, 3),
    ("as many queries as keys, all widths 10, 2 heads", (3, 4, 4, 10, 10, 10), 1, 2),
    ("1 head", (2, 2, 3, 5, 6, 7), 1, 1),
    ("1 query, 4 heads of 1 number", (2, 1, 3, 4, 5, 6), 1, 4),
    ("1 sample, 1 query, 1 key", (1, 1, 1, 6, 5, 4), 1, 3),
    ("large scores", (1, 4, 5, 6, 6, 6), 900, 2),
    ("scores near 768 and -768", (1, 4, 5, 4, 4, 3), alternating, 1),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Matrices that keep numbers of their size; the last case does not mix the scores of its inputs."""
    found = sized_cases(seed, "b n m w k v", "b n w, b m k, b m v, w w, w k, w v, w w", CALLS)
    for w in (w for case in found for w in case.args[3:7]):
        w /= w.size(1) ** 0.5
    for w in found[-1].args[3:5]:
        torch.nn.init.eye_(w)
    return found


def given(query, key, value, w_q, w_k, w_v, w_o, num_heads, split=split):
    pairs = (query, w_q), (key, w_k), (value, w_v)
    return Given(*(split(x @ w.T, num_heads) for x, w in pairs), rest=w_o)


def answer(output, weights, scores, x, merge=merge):
    return merge(output) @ x.rest.T, weights


RIGHT = Recipe(given, answer=answer)
ACCEPTED = Accepted(
    split_attend_merge=RIGHT,
    in_double=lambda *args: list(RIGHT(*(x.double() for x in args[:-1]), args[-1])),
)


@ACCEPTED.add
def one_head_after_the_other(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    outputs, maps = [], []
    for wq, wk, wv in zip(*(w.chunk(num_heads) for w in (w_q, w_k, w_v)), strict=True):
        scores = query @ wq.T @ (key @ wk.T).transpose(1, 2) / len(wq) ** 0.5
        maps.append(torch.softmax(scores, dim=-1))
        outputs.append(maps[-1] @ (value @ wv.T))
    return torch.cat(outputs, dim=-1) @ w_o.T, torch.stack(maps, dim=1)


@ACCEPTED.add
def einsum(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    w_q, w_k, w_v = (w.unflatten(0, (num_heads, -1)) for w in (w_q, w_k, w_v))
    q = torch.einsum("bnc,hdc->bhnd", query, w_q)
    k = torch.einsum("bmc,hdc->bhmd", key, w_k)
    v = torch.einsum("bmc,hdc->bhmd", value, w_v)
    weights = torch.softmax(torch.einsum("bhnd,bhmd->bhnm", q, k) / q.shape[-1] ** 0.5, dim=-1)
    w_o = w_o.unflatten(1, (num_heads, -1))
    return torch.einsum("bhnm,bhmd,chd->bnc", weights, v, w_o), weights


@ACCEPTED.add
def heads_added_after_their_slice_of_w_o(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    pairs = (query, w_q), (key, w_k), (value, w_v)
    q, k, v = (split(F.linear(x, w), num_heads) for x, w in pairs)
    weights = F.softmax(q @ k.mT * (num_heads / len(w_q)) ** 0.5, dim=3)
    return sum((weights @ v)[:, h] @ w.T for h, w in enumerate(w_o.chunk(num_heads, 1))), weights


FAMILIES = (family for family in ATTENTION if family is not outputs)  # here, heads are merged
MISTAKES = Mistakes(
    mistakes_of(RIGHT, *FAMILIES, weights, in_place, without=("scaled by values",))
)  # fmt: skip
MISTAKES += [
    RIGHT.but("The output projection is missing: multiply the merged heads by w_o.T.",
              answer=lambda o, w, s, x: (merge(o), w)),
    RIGHT.but("w_o is not transposed: matrices are (out, in), so write merged @ w_o.T.",
              answer=lambda o, w, s, x: (merge(o) @ x.rest, w)),
    RIGHT.but("There is no mask here, and no causal one either: every query reads all keys.",
              mask=lambda s, x: s.masked_fill(~triangle(*s.shape[2:], 0), -torch.inf)),
    *(RIGHT.but(slip.says, given=partial(given, split=slip.answer)) for slip in split_heads.SHARED),
    *(RIGHT.but(slip.says, answer=partial(answer, merge=slip.answer)) for slip in merge_heads.SHARED),
    RIGHT.but("The heads are averaged or added; put them side by side.",
              answer=partial(answer, merge=lambda o: o.mean(1))),
    RIGHT.but("Axes of size 1 are squeezed away; keep all of them.",
              answer=lambda *made: (answer(*made)[0].squeeze(), made[1])),
    RIGHT.but("num_heads is ignored: one head works in the whole width.", given=lambda *a: given(*a[:-1], 1)),
    *(RIGHT.but(says, given=lambda *a, heads=heads: given(*a[:-1], 1)._replace(head_dim=len(a[3]) // heads(a[-1])),
                answer=lambda o, w, s, x: (answer(o, w, s, x)[0], w[:, 0])) for says, heads in (
        ("The width is never split into heads; the weights must be (batch, heads, n, m).", lambda h: 1),
        ("The width is never split into heads, although the scale is that of a head; the weights must be "
         "(batch, heads, n, m).", lambda h: h),
    )),
    *(RIGHT.but(says, given=lambda *a, change=change: given(*change(*a[:6]), *a[6:])) for says, change in (
        ("w_q, w_k and w_v are not transposed: matrices are (out, in), so write x @ w.T.",
         lambda q, k, v, *w: (q, k, v, *(x.T for x in w))),
        ("The inputs are split and projected by nothing; w_q, w_k and w_v come first.",
         lambda q, k, v, *w: (q, k, v, *(torch.eye(x.size(-1)) for x in (q, k, v)))),
        ("The values are not projected: multiply them by w_v.T before the split.",
         lambda q, k, v, *w: (q, k, v, *w[:2], torch.eye(v.size(-1)))),
        ("The keys are not projected: multiply them by w_k.T before the split.",
         lambda q, k, v, *w: (q, k, v, w[0], torch.eye(k.size(-1)), w[2])),
        ("The queries are not projected: multiply them by w_q.T before the split.",
         lambda q, k, v, *w: (q, k, v, torch.eye(q.size(-1)), *w[1:])),
        ("w_q is not transposed: matrices are (out, in), so write query @ w_q.T.",
         lambda q, k, v, *w: (q, k, v, w[0].T, *w[1:])),
        ("w_q projects keys and values as well; they have w_k and w_v.", lambda *x: (*x[:3], x[3], x[3], x[3])),
        ("value is ignored: the values are projected from key.", lambda q, k, v, *w: (q, k, k, *w)),
        ("key is ignored: the keys are projected from value.", lambda q, k, v, *w: (q, v, v, *w)),
        ("key and value are ignored: the query attends to itself.", lambda q, k, v, *w: (q, q, q, *w)),
        ("key and value are exchanged.", lambda q, k, v, *w: (q, v, k, *w)),
        ("w_k and w_v are exchanged.", lambda q, k, v, *w: (q, k, v, w[0], w[2], w[1])),
    )),
]  # fmt: skip

EXERCISE = Exercise(
    name="multi_head_attention", title="Multi-head attention", kind="Implement",
    points=3, difficulty=3, minutes=20, needs="sections 'The sum' and 'The function' of chapter 3",
    judge=Calls(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Five moves: project three times, split three times, attend, merge, project once.",
        "A matrix is (out, in), as in torch.nn.Linear: the projection of x is x @ w.T. After the "
        "split, attention works on (batch, heads, n, head_dim) without knowing about heads.",
        "q = (query @ w_q.T).unflatten(-1, (num_heads, -1)).transpose(1, 2), likewise k and v; "
        "weights = softmax(q @ k.mT / sqrt(head_dim)); "
        "output = (weights @ v).transpose(1, 2).flatten(2) @ w_o.T.",
    ),
    forbids=("torch.nn.functional.multi_head_attention_forward", "torch.nn.MultiheadAttention"),
)  # fmt: skip
