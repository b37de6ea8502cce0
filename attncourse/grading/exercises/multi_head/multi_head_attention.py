"""Exercise multi_head_attention: project, split, attend, and multiply each head by its own slice of w_o."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistakes
from attncourse.grading.exercises.multi_head import split_heads
from attncourse.grading.inputs import sized_cases
from attncourse.grading.layers_judge import merge, split
from attncourse.grading.mistakes import ATTENTION, in_place, mistakes_of, outputs, weights
from attncourse.grading.noticing import Noticing, weights_of
from attncourse.grading.recipe import Given, Recipe


def definition(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    """The sum of the course with a w_o that knows one head only, head after head."""
    params, shares = {"q_proj.weight": w_q, "k_proj.weight": w_k, "v_proj.weight": w_v}, []
    for head in torch.eye(num_heads).repeat_interleave(len(w_o) // num_heads, 1):
        params["out_proj.weight"] = w_o * head
        output, weights = spec.multi_head_attention(query, key, value, params, num_heads)
        shares.append(output)
    return torch.stack(shares, dim=1), weights


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


def of_columns(w_o, num_heads):
    """For each head the matrix (head_dim, embed_dim) that its outputs are multiplied by."""
    return w_o.unflatten(1, (num_heads, -1)).permute(1, 2, 0)


def answer(output, weights, scores, x, slices=of_columns):
    return output @ slices(x.rest, output.size(1)), weights


RIGHT = Recipe(given, answer=answer)
ACCEPTED = Accepted(
    slices_of_w_o=RIGHT,
    in_double=lambda *args: list(RIGHT(*(x.double() for x in args[:-1]), args[-1])),
)


@ACCEPTED.add
def one_head_after_the_other(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    shares, maps = [], []
    slices = *(w.chunk(num_heads) for w in (w_q, w_k, w_v)), w_o.chunk(num_heads, dim=1)
    for wq, wk, wv, wo in zip(*slices, strict=True):
        scores = query @ wq.T @ (key @ wk.T).transpose(1, 2) / len(wq) ** 0.5
        maps.append(torch.softmax(scores, dim=-1))
        shares.append(maps[-1] @ (value @ wv.T) @ wo.T)
    return torch.stack(shares, dim=1), torch.stack(maps, dim=1)


@ACCEPTED.add
def einsum(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    w_q, w_k, w_v = (w.unflatten(0, (num_heads, -1)) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bnc,hdc,bmk,hdk->bhnm", query, w_q, key, w_k) / w_q.size(1) ** 0.5
    weights, w_o = scores.softmax(dim=-1), w_o.unflatten(1, (num_heads, -1))
    return torch.einsum("bhnm,bmv,hdv,chd->bhnc", weights, value, w_v, w_o), weights


@ACCEPTED.add
def all_other_heads_silenced(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (F.linear(x, w) for x, w in ((query, w_q), (key, w_k), (value, w_v)))
    q, k, v = (torch.stack(x.chunk(num_heads, -1), 1) for x in (q, k, v))
    weights = F.softmax(q @ k.mT * (num_heads / len(w_q)) ** 0.5, dim=3)
    heads, one = weights @ v, torch.eye(num_heads)[:, :, None, None]
    return torch.stack([merge(heads * only) @ w_o.T for only in one], dim=1), weights


def whole(output, weights, scores, x):
    """What the layer returns: the shares are added up."""
    return answer(output, weights, scores, x)[0].sum(1), weights


FAMILIES = (
    family for family in ATTENTION if family is not outputs
)  # here, heads are multiplied by w_o
WHOLE = {"given": partial(given, split=lambda x, h: x[:, None])}  # one head, with the scale of many
WIDE = WHOLE | {"scale": lambda x: x.query.size(-1) ** -0.5}
MISTAKES = Mistakes([
    *mistakes_of(RIGHT, *FAMILIES, weights, in_place, without=("scaled by values",)),
    *(RIGHT.but(x.says, given=partial(given, split=x.answer)) for x in split_heads.SHARED),
    RIGHT.but("num_heads is ignored: one head works in the whole width.", **WIDE),
    *(RIGHT.but(f"The width is never split into heads{but}; shares and weights have an axis for the heads.", **steps,
                answer=lambda o, w, s, x: (answer(o, w, s, x)[0][:, 0], w[:, 0]))
      for but, steps in (("", WIDE), (", although the scale is that of a head", WHOLE))),
    *(RIGHT.but(says, answer=change) for says, change in (
        ("The shares are already added up: this is the output of the layer. Return what each head adds to it, "
         "(batch, num_heads, n, embed_dim).", whole),
        ("The output of the layer is divided among the heads in equal parts; each head adds something of its own.",
         lambda o, w, s, x: ((whole(o, w, s, x)[0] / o.size(1))[:, None].expand(-1, o.size(1), -1, -1), w)),
        ("Every head gets the whole output of the layer; return what it alone adds.",
         lambda o, w, s, x: (whole(o, w, s, x)[0][:, None].expand(-1, o.size(1), -1, -1), w)),
        ("The output of the layer is cut into num_heads pieces; but w_o has mixed the heads by then. Multiply each head "
         "by its slice of w_o.", lambda o, w, s, x: (split(whole(o, w, s, x)[0], o.size(1)), w)),
        ("The output projection is missing: multiply each head by its slice of w_o.", lambda o, w, s, x: (o, w)),
        ("The heads stand behind the positions; the shares are (batch, num_heads, n, embed_dim).",
         lambda o, w, s, x: (answer(o, w, s, x)[0].transpose(1, 2), w)),
        ("The heads stand before the samples; the shares are (batch, num_heads, n, embed_dim).",
         lambda o, w, s, x: (answer(o, w, s, x)[0].transpose(0, 1), w)),
        ("The shares are added up from head to head; return what each head adds alone.",
         lambda o, w, s, x: (answer(o, w, s, x)[0].cumsum(1), w)),
    )),
    *(RIGHT.but(says, answer=partial(answer, slices=slices)) for says, slices in (
        ("Head h meets rows of w_o, or w_o is not transposed. Matrices are (out, in): what a head hands in belongs to "
         "columns, and is multiplied by w_o[:, columns].T.", lambda w_o, h: w_o.unflatten(0, (h, -1))),
        ("The slices of w_o are interleaved: head h meets every num_heads-th column. They lie side by side.",
         lambda w_o, h: w_o.unflatten(1, (-1, h)).permute(2, 1, 0)),
        ("The slices of w_o come in reverse order; head 0 meets the first columns.",
         lambda w_o, h: of_columns(w_o, h).flip(0)),
        ("Every head meets the first columns of w_o; head h meets those from h * head_dim on.",
         lambda w_o, h: of_columns(w_o, h)[:1]),
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
    name="multi_head_attention",
    judge=Noticing(
        definition, cases, look=weights_of("shares", behind="the values, or how they meet w_o")
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
