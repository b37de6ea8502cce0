"""Exercise multi_head_attention: project, split, attend, merge, project."""

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    """The sum of the course, with its parameters under their names."""
    matrices = {"q_proj": w_q, "k_proj": w_k, "v_proj": w_v, "out_proj": w_o}
    params = {f"{name}.weight": w for name, w in matrices.items()}
    return spec.multi_head_attention(query, key, value, params, num_heads)


def cases(seed: int) -> list[Case]:
    """Inputs of three widths and two lengths; all widths equal; saturated scores; one head."""
    g = torch.Generator().manual_seed(seed)

    def call(b, n, m, width, kdim, vdim, heads, loud=1.0):
        inputs = (b, n, width), (b, m, kdim), (b, m, vdim)
        matrices = (width, width), (width, kdim), (width, vdim), (width, width)
        query, key, value = (torch.randn(s, generator=g) for s in inputs)
        w = [torch.randn(s, generator=g) / s[1] ** 0.5 for s in matrices]
        return (loud * query, key, value, *w, heads)

    return [
        Case(
            "2 samples, 3 queries, 4 keys, embed_dim 10, keys 7 and values 8 wide, 5 heads",
            call(2, 3, 4, 10, 7, 8, 5),
        ),
        Case("all widths 6, 3 heads", call(1, 5, 4, 6, 6, 6, 3)),
        # float32 rounds the large scores, and the gradients of W^Q and W^K with them
        Case("large scores", call(1, 4, 5, 6, 6, 6, 2, loud=900.0), gradients=False),
        Case("1 head", call(2, 2, 3, 5, 5, 5, 1)),
        Case("1 query, 4 heads of 1 number", call(2, 1, 3, 4, 4, 4, 4)),
        Case("as many queries as keys", call(1, 3, 3, 6, 6, 6, 2)),
    ]


def attend(q, k, v, scale=None, axis=-1):
    """Output and weights of heads that are already split."""
    scale = q.size(-1) ** -0.5 if scale is None else scale
    weights = torch.softmax(q @ k.mT * scale, dim=axis)
    return weights @ v, weights


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


ACCEPTED = Accepted()


@ACCEPTED.add
def split_attend_merge(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (split(x @ w.T, num_heads) for x, w in ((query, w_q), (key, w_k), (value, w_v)))
    out, weights = attend(q, k, v)
    return merge(out) @ w_o.T, weights


@ACCEPTED.add
def one_head_after_the_other(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    outputs, maps = [], []
    rows = (w.chunk(num_heads, dim=0) for w in (w_q, w_k, w_v))
    for wq, wk, wv in zip(*rows, strict=True):
        out, weights = attend(query @ wq.T, key @ wk.T, value @ wv.T)
        outputs.append(out)
        maps.append(weights)
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
    q, k, v = (
        split(F.linear(x, w), num_heads) for x, w in ((query, w_q), (key, w_k), (value, w_v))
    )
    out, weights = attend(q, k, v)
    slices = w_o.chunk(num_heads, dim=1)
    return sum(out[:, h] @ w.T for h, w in enumerate(slices)), weights


@ACCEPTED.add
def in_double(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    x = [x.double() for x in (query, key, value, w_q, w_k, w_v, w_o)]
    return list(split_attend_merge(*x, num_heads))


MISTAKES = Mistakes()


def project(query, key, value, w_q, w_k, w_v, num_heads):
    pairs = (query, w_q), (key, w_k), (value, w_v)
    return tuple(split(x @ w.T, num_heads) for x, w in pairs)


@MISTAKES.add("The output projection is missing: multiply the merged heads by w_o.T.")
def no_output_projection(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    out, weights = attend(*project(query, key, value, w_q, w_k, w_v, num_heads))
    return merge(out), weights


@MISTAKES.add("w_o is not transposed: matrices are (out, in), so write merged @ w_o.T.")
def w_o_not_transposed(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    out, weights = attend(*project(query, key, value, w_q, w_k, w_v, num_heads))
    return merge(out) @ w_o, weights


@MISTAKES.add("w_q, w_k and w_v are not transposed: matrices are (out, in), so write x @ w.T.")
def not_transposed(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    return split_attend_merge(query, key, value, w_q.T, w_k.T, w_v.T, w_o, num_heads)


@MISTAKES.add("The heads are merged without a transpose, so positions mix.")
def merged_without_transpose(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    out, weights = attend(*project(query, key, value, w_q, w_k, w_v, num_heads))
    return out.reshape(len(query), query.size(1), -1) @ w_o.T, weights


@MISTAKES.add("The heads are split without a transpose, so each head holds several positions.")
def split_without_transpose(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    def scramble(x):
        return x.reshape(len(x), num_heads, x.size(1), x.size(-1) // num_heads)

    pairs = (query, w_q), (key, w_k), (value, w_v)
    out, weights = attend(*(scramble(x @ w.T) for x, w in pairs))
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The heads are interleaved: head h is rows h * head_dim ... of w_q, w_k and w_v.")
def interleaved(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    def every(x):
        return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)

    out, weights = attend(every(query @ w_q.T), every(key @ w_k.T), every(value @ w_v.T))
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The scale uses embed_dim; each head divides by the square root of its head_dim.")
def scaled_by_embed_dim(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, scale=w_q.size(0) ** -0.5)
    return merge(out) @ w_o.T, weights


@MISTAKES.add(
    "The scale uses the number of heads; each head divides by the square root of head_dim."
)
def scaled_by_heads(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, scale=num_heads**-0.5)
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The scale uses the number of queries; it is the square root of head_dim.")
def scaled_by_queries(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, scale=query.size(1) ** -0.5)
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The scale uses the number of keys; it is the square root of head_dim.")
def scaled_by_keys(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, scale=key.size(1) ** -0.5)
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The scores are divided by head_dim instead of its square root.")
def divided_by_head_dim(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, scale=1 / q.size(-1))
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The scores are not divided by the square root of head_dim.")
def unscaled(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, scale=1.0)
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The softmax runs over the queries; each query shares out its weight among the keys.")
def softmax_over_queries(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, axis=-2)
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The softmax runs over the heads; each head shares out its weight among the keys.")
def softmax_over_heads(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = project(query, key, value, w_q, w_k, w_v, num_heads)
    out, weights = attend(q, k, v, axis=1)
    return merge(out) @ w_o.T, weights


@MISTAKES.add("num_heads is ignored: one head works in the whole width.")
def single_head(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    return split_attend_merge(query, key, value, w_q, w_k, w_v, w_o, 1)


@MISTAKES.add("The width is never split into heads; the weights must be (batch, heads, n, m).")
def never_split(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    out, weights = attend(query @ w_q.T, key @ w_k.T, value @ w_v.T)
    return out @ w_o.T, weights


@MISTAKES.add(
    "The width is never split into heads, although the scale is that of a head; the weights must be "
    "(batch, heads, n, m)."
)
def never_split_but_scaled(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    scale = (w_q.size(0) // num_heads) ** -0.5
    out, weights = attend(query @ w_q.T, key @ w_k.T, value @ w_v.T, scale=scale)
    return out @ w_o.T, weights


@MISTAKES.add(
    "The weights are stacked with the heads first; return (batch, heads, n, m): stack along dim=1."
)
def weights_heads_first(*args):
    output, weights = split_attend_merge(*args)
    return output, weights.transpose(0, 1)


@MISTAKES.add("The inputs are split and projected by nothing; w_q, w_k and w_v come first.")
def not_projected(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    out, weights = attend(*(split(x, num_heads) for x in (query, key, value)))
    return merge(out) @ w_o.T, weights


@MISTAKES.add("The values are not projected: multiply them by w_v.T before the split.")
def values_not_projected(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k = split(query @ w_q.T, num_heads), split(key @ w_k.T, num_heads)
    out, weights = attend(q, k, split(value, num_heads))
    return merge(out) @ w_o.T, weights


@MISTAKES.add("value is ignored: the values are projected from key.")
def values_from_keys(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    return split_attend_merge(query, key, key, w_q, w_k, w_v, w_o, num_heads)


@MISTAKES.add("key and value are ignored: the query attends to itself.")
def self_attention(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    return split_attend_merge(query, query, query, w_q, w_k, w_v, w_o, num_heads)


@MISTAKES.add("The weights are averaged over the heads; return (batch, heads, n, m).")
def averaged_weights(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    output, weights = split_attend_merge(query, key, value, w_q, w_k, w_v, w_o, num_heads)
    return output, weights.mean(dim=1)


@MISTAKES.add("Only the output is returned; return (output, weights).")
def output_only(*args):
    return split_attend_merge(*args)[0]


@MISTAKES.add("The order is (weights, output); return (output, weights).")
def swapped(*args):
    return split_attend_merge(*args)[::-1]


@MISTAKES.add("No gradient flows through the weights; they are detached or made inside no_grad.")
def detached(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    weights = split_attend_merge(query, key, value, w_q, w_k, w_v, w_o, num_heads)[1].detach()
    return merge(weights @ split(value @ w_v.T, num_heads)) @ w_o.T, weights


EXERCISE = Exercise(
    name="multi_head_attention",
    answer="multi_head_attention",
    title="Multi-head attention",
    kind="Implement",
    points=3,
    difficulty=3,
    minutes=20,
    needs="sections 'The sum' and 'The function' of chapter 3",
    judge=Calls(definition, cases),
    hints=(
        "Five moves: project three times, split three times, attend, merge, project once.",
        "A matrix is (out, in), as in torch.nn.Linear: the projection of x is x @ w.T. After the "
        "split, attention works on (batch, heads, n, head_dim) without knowing about heads.",
        "q = (query @ w_q.T).unflatten(-1, (num_heads, -1)).transpose(1, 2), likewise k and v; "
        "weights = softmax(q @ k.mT / sqrt(head_dim)); "
        "output = (weights @ v).transpose(1, 2).flatten(2) @ w_o.T.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
    forbids=(
        "torch.nn.functional.multi_head_attention_forward",
        "torch.nn.MultiheadAttention",
    ),
)
