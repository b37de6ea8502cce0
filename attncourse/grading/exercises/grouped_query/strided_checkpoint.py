"""Exercise strided_checkpoint: move the query heads so that a contiguous layer computes the same."""

import torch

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def heads_of(x, w, count):
    return spec.split_heads(x @ w.T, count)


def layer(x, w_q, w_k, w_v, w_o, num_heads, num_kv_heads, strided=False):
    """A layer without biases; ``strided`` deals out the key heads, h % G."""
    q = heads_of(x, w_q, num_heads)
    k, v = heads_of(x, w_k, num_kv_heads), heads_of(x, w_v, num_kv_heads)
    group = num_heads // num_kv_heads
    heads = []
    for h in range(num_heads):
        g = h % num_kv_heads if strided else h // group
        heads.append(
            spec.scaled_dot_product_attention(q[:, h : h + 1], k[:, g : g + 1], v[:, g : g + 1])[0]
        )
    return spec.merge_heads(torch.cat(heads, dim=1)) @ w_o.T  # fmt: skip


class Loaded:
    """Runs a contiguous layer with the matrices that the answer returns."""

    def __init__(self):
        def strided(*args):
            return layer(*args, strided=True)

        self.calls = Calls(strided, cases, gradients=False)

    def observe(self, answer, seed: int) -> dict:
        if not callable(answer):
            return self.calls.observe(answer, seed)

        def loaded(x, w_q, w_k, w_v, w_o, num_heads, num_kv_heads):
            shapes = w_q.shape, w_o.shape
            new_q, new_o = answer(w_q, w_o, num_heads, num_kv_heads)
            if (new_q.shape, new_o.shape) != shapes:
                raise ValueError("return (w_q, w_o), in the shapes in which they came")
            parts = (y.detach().to(torch.float64) for y in (x, new_q, w_k, w_v, new_o))
            return layer(*parts, num_heads, num_kv_heads)

        return self.calls.observe(loaded, seed)

    def expected(self, seed: int) -> dict:
        return self.calls.expected(seed)


def cases(seed: int) -> list[Case]:
    """Groups that differ in size and number; groups as many as they are large; both ends of the dial."""
    g = torch.Generator().manual_seed(seed)

    def call(n, width, num_heads, num_kv_heads, head_dim):
        w, kv = num_heads * head_dim, num_kv_heads * head_dim
        shapes = (2, n, width), (w, width), (kv, width), (kv, width), (width, w)
        args = [
            torch.randn(s, generator=g) / (s[1] ** 0.5 if k else 1) for k, s in enumerate(shapes)
        ]
        return (*args, num_heads, num_kv_heads)

    return [
        Case("6 query heads, 2 key heads, head_dim 4, width 9", call(3, 9, 6, 2, 4)),
        Case("6 query heads, 3 key heads, head_dim 2, width 12", call(3, 12, 6, 3, 2)),
        Case("8 query heads, 2 key heads, head_dim 1", call(2, 7, 8, 2, 1)),
        Case("4 query heads, 2 key heads", call(3, 12, 4, 2, 3)),
        Case("as many key heads as query heads", call(2, 5, 3, 3, 2)),
        Case("1 key head", call(2, 5, 3, 1, 2)),
    ]


def moved(w_q, w_o, order):
    """Heads in this order, rows of w_q and columns of w_o."""
    h = len(order)
    return w_q.unflatten(0, (h, -1))[order].flatten(0, 1), w_o.unflatten(1, (h, -1))[
        :, order
    ].flatten(1)


def contiguous(h, g):
    """The old head that belongs in each new place."""
    return [r * g + k for k in range(g) for r in range(h // g)]


ACCEPTED = Accepted()


@ACCEPTED.add
def by_a_list(w_q, w_o, num_heads, num_kv_heads):
    return moved(w_q, w_o, contiguous(num_heads, num_kv_heads))


@ACCEPTED.add
def unflatten_and_transpose(w_q, w_o, num_heads, num_kv_heads):
    shape = (num_heads // num_kv_heads, num_kv_heads, -1)
    rows = w_q.unflatten(0, shape).transpose(0, 1).flatten(0, 2)
    return rows, w_o.unflatten(1, shape).transpose(1, 2).flatten(1)


@ACCEPTED.add
def sorted_by_key_head(w_q, w_o, num_heads, num_kv_heads):
    order = torch.argsort(torch.arange(num_heads) % num_kv_heads, stable=True)
    d = w_q.size(0) // num_heads
    rows = (order[:, None] * d + torch.arange(d)).flatten()
    return w_q[rows], w_o[:, rows]


@ACCEPTED.add
def heads_of_a_group_in_another_order(w_q, w_o, num_heads, num_kv_heads):
    order = [h for g in range(num_kv_heads) for h in reversed(range(g, num_heads, num_kv_heads))]
    return list(moved(w_q.double(), w_o.double(), order))


@ACCEPTED.add
def a_permutation_matrix(w_q, w_o, num_heads, num_kv_heads):
    d = w_q.shape[0] // num_heads
    p = torch.eye(num_heads)[contiguous(num_heads, num_kv_heads)]
    p = torch.kron(p, torch.eye(d))
    return p @ w_q, w_o @ p.T


@ACCEPTED.add
def loops(w_q, w_o, num_heads, num_kv_heads):
    d, r = len(w_q) // num_heads, num_heads // num_kv_heads
    new_q, new_o = torch.zeros_like(w_q), torch.zeros_like(w_o)
    for h in range(num_heads):
        to = h % num_kv_heads * r + h // num_kv_heads
        new_q[to * d : to * d + d] = w_q[h * d : h * d + d]
        new_o[:, to * d : to * d + d] = w_o[:, h * d : h * d + d]
    return new_q, new_o


MISTAKES = Mistakes()


def wrong(says):
    """A mistake in (w_q, w_o, their right versions, H, G)."""

    def register(rule):
        @MISTAKES.add(says)
        def answer(w_q, w_o, num_heads, num_kv_heads):
            right = by_a_list(w_q, w_o, num_heads, num_kv_heads)
            return rule(w_q, w_o, *right, num_heads, num_kv_heads)

        return rule

    return register


def inverse(h, g):
    return contiguous(h, h // g)


wrong("The matrices are as they were; the heads of a group must become neighbours.")(
    lambda q, o, new_q, new_o, h, g: (q, o)
)
wrong("Only w_q is reordered; the output matrix must expect the heads in the new order, too.")(
    lambda q, o, new_q, new_o, h, g: (new_q, o)
)
wrong("Only w_o is reordered; the queries must stand in the new order, too.")(
    lambda q, o, new_q, new_o, h, g: (q, new_o)
)
wrong("This is the way back: it turns contiguous heads into strided ones.")(
    lambda q, o, new_q, new_o, h, g: moved(q, o, inverse(h, g))
)
wrong("w_q moves forth and w_o moves back; both need the same order.")(
    lambda q, o, new_q, new_o, h, g: (new_q, moved(q, o, inverse(h, g))[1])
)
wrong("w_q moves back and w_o moves forth; both need the order of w_o.")(
    lambda q, o, new_q, new_o, h, g: (moved(q, o, inverse(h, g))[0], new_o)
)
wrong("The rows of w_o are reordered; a head owns columns of w_o.")(
    lambda q, o, new_q, new_o, h, g: (new_q, o[torch.arange(len(o)).flip(0)])
)
wrong("Single rows and columns are reordered; a head owns head_dim of them, which stay together.")(
    lambda q, o, new_q, new_o, h, g: moved(q, o, contiguous(len(q), g))
)
wrong("The order is (w_o, w_q); return (w_q, w_o).")(
    lambda q, o, new_q, new_o, h, g: (new_o, new_q)
)
wrong("Only w_q is returned; return (w_q, w_o).")(lambda q, o, new_q, new_o, h, g: new_q)
wrong("The groups are reversed: the heads of key head 0 come first.")(
    lambda q, o, new_q, new_o, h, g: moved(q, o, contiguous(h, g)[::-1])
)
wrong("The heads of w_q are all reversed and those of w_o are in the right order.")(
    lambda q, o, new_q, new_o, h, g: (moved(q, o, contiguous(h, g)[::-1])[0], new_o)
)
wrong("Both are transposed; matrices stay (out, in).")(
    lambda q, o, new_q, new_o, h, g: (new_q.T, new_o.T)
)
wrong("Queries of a group are averaged; no head is lost in a reordering.")(
    lambda q, o, new_q, new_o, h, g: (
        new_q.unflatten(0, (g, h // g, -1)).mean(1, keepdim=True).expand(-1, h // g, -1, -1).flatten(0, 2),
        new_o,
    )
)  # fmt: skip


@MISTAKES.add("The checkpoint itself is changed; make new matrices.")
def in_place(w_q, w_o, num_heads, num_kv_heads):
    new_q, new_o = by_a_list(w_q, w_o, num_heads, num_kv_heads)
    return w_q.copy_(new_q), w_o.copy_(new_o)


EXERCISE = Exercise(
    name="strided_checkpoint",
    answer="load_strided",
    title="Load a strided checkpoint",
    kind="Repair",
    points=3,
    difficulty=4,
    minutes=25,
    needs="section 'Does it agree?' of chapter 6",
    judge=Loaded(),
    hints=(
        "Key heads stay where they are. Which query heads belong to key head 0 in the checkpoint, and where "
        "does a contiguous layer look for them?",
        "New order of the old heads: 0, G, 2 G, ..., then 1, G + 1, ... A head owns head_dim rows of w_q, and the "
        "head_dim columns of w_o that read its output.",
        "shape = (num_heads // num_kv_heads, num_kv_heads, -1); w_q.unflatten(0, shape).transpose(0, 1)"
        ".flatten(0, 2), and w_o.unflatten(1, shape).transpose(1, 2).flatten(1).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
