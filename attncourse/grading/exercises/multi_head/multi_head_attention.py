"""Exercise multi_head_attention: project, split, attend, merge, project."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Calls, Case, Exercise, Mistakes
from attncourse.grading.exercises.multi_head import merge_heads, split_heads
from attncourse.grading.inputs import sized_cases
from attncourse.grading.layers_judge import merge, split
from attncourse.grading.mistakes import ATTENTION, in_place, mistakes_of, outputs, weights
from attncourse.grading.recipe import Given, Recipe


def definition(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    """The sum of the course, with its parameters under their names."""
    params = {"q_proj.weight": w_q, "k_proj.weight": w_k, "v_proj.weight": w_v}
    params["out_proj.weight"] = w_o
    return spec.multi_head_attention(query, key, value, params, num_heads)


CALLS = (  # what is special, b n m w k v, how loud, num_heads
    ("2 samples, 5 queries, 6 keys, embed_dim 12, keys 7 and values 8 wide, 3 heads", (2, 5, 6, 12, 7, 8), 1, 3),
    ("as many queries as keys, all widths 10, 2 heads", (3, 4, 4, 10, 10, 10), 1, 2),
    ("1 head", (2, 2, 3, 5, 6, 7), 1, 1),
    ("1 sample, 1 query, 1 key", (1, 1, 1, 6, 5, 4), 1, 3),
    ("large scores", (1, 4, 5, 6, 6, 6), 900, 2),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    """Matrices that keep numbers of their size."""
    found = sized_cases(seed, "b n m w k v", "b n w, b m k, b m v, w w, w k, w v, w w", CALLS)
    for w in (w for case in found for w in case.args[3:7]):
        w /= w.size(1) ** 0.5
    return found


def project(*pairs):
    return [x @ w.T for x, w in pairs]


def given(query, key, value, w_q, w_k, w_v, w_o, num_heads, project=project, split=split):
    parts = (split(x, num_heads) for x in project((query, w_q), (key, w_k), (value, w_v)))
    return Given(*parts, head_dim=len(w_q) // num_heads, rest=w_o)


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
    scores = torch.einsum("bnc,hdc,bmk,hdk->bhnm", query, w_q, key, w_k) / w_q.size(1) ** 0.5
    weights, w_o = scores.softmax(dim=-1), w_o.unflatten(1, (num_heads, -1))
    return torch.einsum("bhnm,bmv,hdv,chd->bnc", weights, value, w_v, w_o), weights


@ACCEPTED.add
def heads_added_after_their_slice_of_w_o(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (F.linear(x, w) for x, w in ((query, w_q), (key, w_k), (value, w_v)))
    q, k, v = (torch.stack(x.chunk(num_heads, -1), 1) for x in (q, k, v))
    weights = F.softmax(q @ k.mT * (num_heads / len(w_q)) ** 0.5, dim=3)
    return sum((weights @ v)[:, h] @ w.T for h, w in enumerate(w_o.chunk(num_heads, 1))), weights


FAMILIES = (family for family in ATTENTION if family is not outputs)  # here, heads are merged
WHOLE = {"given": partial(given, split=lambda x, h: x[:, None])}  # one head, with the scale of many
WIDE = WHOLE | {"scale": lambda x: x.query.size(-1) ** -0.5}
MISTAKES = Mistakes([
    *mistakes_of(RIGHT, *FAMILIES, weights, in_place, without=("scaled by values",)),
    *(RIGHT.but(x.says, given=partial(given, split=x.answer)) for x in split_heads.SHARED),
    *(RIGHT.but(x.says, answer=partial(answer, merge=x.answer)) for x in merge_heads.SHARED),
    RIGHT.but("num_heads is ignored: one head works in the whole width.", **WIDE),
    *(RIGHT.but(f"The width is never split into heads{but}; the weights must be (batch, heads, n, m).", **steps,
                answer=lambda o, w, s, x: (answer(o, w, s, x)[0], w[:, 0]))
      for but, steps in (("", WIDE), (", although the scale is that of a head", WHOLE))),
    *(RIGHT.but(says, answer=change) for says, change in (
        ("The output projection is missing: multiply the heads by w_o.T.", lambda o, w, s, x: (merge(o), w)),
        ("w_o is not transposed: matrices are (out, in); write merged @ w_o.T.",
         lambda o, w, s, x: (merge(o) @ x.rest, w)),
        ("The heads are averaged or added; put them side by side.", partial(answer, merge=lambda o: o.mean(1))),
    )),
    *(RIGHT.but(says, given=partial(given, project=change)) for says, change in (  # pairs of input and matrix
        ("w_q, w_k and w_v are not transposed; write x @ w.T.", lambda *pairs: [x @ w for x, w in pairs]),
        ("The inputs are not projected; w_q, w_k and w_v come first.", lambda *pairs: [x for x, _ in pairs]),
        ("The queries are not projected: multiply by w_q.T first.", lambda q, k, v: (q[0], *project(k, v))),
        ("The keys are not projected: multiply by w_k.T first.", lambda q, k, v: (*project(q), k[0], *project(v))),
        ("The values are not projected: multiply by w_v.T first.", lambda q, k, v: (*project(q, k), v[0])),
        ("value is ignored: the values are made of key.", lambda q, k, v: project(q, k, (k[0], v[1]))),
        ("key and value are ignored: the query attends to itself.",
         lambda q, k, v: project(q, (q[0], k[1]), (q[0], v[1]))),
        ("w_k and w_v are exchanged.", lambda q, k, v: project(q, (k[0], v[1]), (v[0], k[1]))),
    )),
])  # fmt: skip

EXERCISE = Exercise(
    name="multi_head_attention", title="Multi-head attention", kind="Implement",
    points=3, difficulty=3, minutes=20, needs="section 'The formula, and ten lines that do it' of chapter 3",
    judge=Calls(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Five moves: project three times, split three times, attend, merge, project once.",
        "A matrix is (out, in), as in torch.nn.Linear: the projection of x is x @ w.T. After the split, "
        "attention works on (batch, heads, n, head_dim) without knowing about heads.",
        "Make q, k and v with their matrices and cut each into heads. The weights are the softmax of "
        "q @ k.mT, divided by the root of head_dim, not of embed_dim. Mix the values, undo the cut, and "
        "multiply by w_o.T.",
    ),
)  # fmt: skip
