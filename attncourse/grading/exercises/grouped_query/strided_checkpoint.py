"""Exercise strided_checkpoint: move the query heads so that a contiguous layer computes the same."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.callable import no_function
from attncourse.grading.compare import Raised, difference
from attncourse.grading.exercise import (
    GIVEN,
    Accepted,
    Calls,
    Case,
    Exercise,
    Mistake,
    Mistakes,
    cases_of,
)
from attncourse.grading.inputs import sized_cases
from attncourse.grading.layers_judge import merge, split

CALLS = (  # what is special, b n width, rows of w_q and of w_k, a factor on x, num_heads, num_kv_heads
    ("6 query heads, 2 KV heads, head_dim 4, width 9", (2, 3, 9, 24, 8), 0.1, 6, 2),
    ("6 query heads, 3 KV heads, head_dim 2, width 12", (2, 3, 12, 12, 6), 0.1, 6, 3),
    ("8 query heads, 2 KV heads, head_dim 1", (2, 2, 7, 8, 2), 0.3, 8, 2),
    ("4 query heads, 2 KV heads", (2, 3, 12, 12, 6), 0.1, 4, 2),
    ("as many KV heads as query heads", (2, 2, 5, 6, 6), 0.3, 3, 3),
    ("1 KV head", (2, 2, 5, 6, 2), 0.3, 3, 1),
)


def cases(seed: int) -> list[Case]:
    return sized_cases(seed, "b n w q k", "b n w, q w, k w, k w, w q", CALLS)


def trained(x, w_q, w_k, w_v, w_o, num_heads, num_kv_heads):
    """What the checkpoint computed: the KV heads are dealt out, h % G."""
    q = spec.split_heads(x @ w_q.T, num_heads)
    k, v = (spec.split_heads(x @ w.T, num_kv_heads) for w in (w_k, w_v))
    of = [h % num_kv_heads for h in range(num_heads)]
    heads = spec.scaled_dot_product_attention(q, k[:, of], v[:, of])[0]
    return spec.merge_heads(heads) @ w_o.T


def asked(w_q, w_o, num_heads, num_kv_heads):
    """How an answer is called."""


class Told(str):
    """What is known of an answer and decides nothing: equal to all others."""

    def __eq__(self, other):
        return isinstance(other, Told)

    __hash__ = str.__hash__


class Loaded(Calls):
    """Runs a contiguous layer with the matrices that the answer returns."""

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        calls = (Case(c.label, (c.args[1], *c.args[4:])) for c in cases_of(self, seed))
        if problem := no_function(answer, asked, list(calls)):
            yield GIVEN, problem
            return
        returned = []

        def loaded(x, w_q, w_k, w_v, w_o, *heads):
            new = checked(answer(w_q, w_o, *heads), w_q, w_o)
            returned.append((w_q, w_o, *new, *heads))
            x, w_q, w_k, w_v, w_o = (y.detach().double() for y in (x, new[0], w_k, w_v, new[1]))
            q, *kv = map(split, (x @ w_q.T, x @ w_k.T, x @ w_v.T), (*heads, heads[1]))
            return merge(F.scaled_dot_product_attention(q, *kv, enable_gqa=True)) @ w_o.T

        yield from super().observe(loaded, seed)
        yield HEADS, Told("\n".join(heads_of(*matrices) for matrices in returned))

    def expected(self, seed: int) -> dict[str, Any]:
        return Calls(self.spec, self.cases, gradients=False).expected(seed) | {HEADS: Told()}

    def notice(self, expected: dict[str, Any], seen: dict[str, Any], seed: int) -> str:
        outputs = [what for what in expected if what.endswith(", output")]
        if any(isinstance(seen.get(what), Raised) for what in outputs):
            return ""
        wrong = [k for k, what in enumerate(outputs) if difference(expected[what], seen.get(what))]
        return seen[HEADS].split("\n")[wrong[0]] if wrong and HEADS in seen else ""


HEADS = "the heads that moved"


def checked(new: Any, w_q: torch.Tensor, w_o: torch.Tensor) -> Any:
    """Two matrices of the right shapes, or an error that says what is missing."""
    if isinstance(new, torch.Tensor):
        raise TypeError("one tensor is returned; return (w_q, w_o)")
    if new is None:
        raise TypeError("nothing is returned; is `return` missing?")
    if (
        not isinstance(new, tuple | list)
        or len(new) != 2
        or not all(isinstance(y, torch.Tensor) for y in new)
    ):
        raise TypeError("return (w_q, w_o), two tensors")
    if any(y.dim() != 2 for y in new):
        raise ValueError("w_q and w_o are matrices, with two axes")
    if [y.shape for y in new] != [w_q.shape, w_o.shape]:
        raise ValueError("return (w_q, w_o), in the shapes in which they came")
    return new


def heads_of(old_q, old_o, w_q, w_o, num_heads: int, num_kv_heads: int) -> str:
    """Which old heads stand where in the new matrices, and which belong there."""

    def places(old, new):
        apart = torch.cdist(*(y.double().reshape(num_heads, -1) for y in (new, old)))
        return ", ".join(
            str(int(row.argmin())) if row.min() < 1e-3 else "(changed)" for row in apart
        )

    size = num_heads // num_kv_heads
    first = ", ".join(map(str, range(0, num_heads, num_kv_heads)))
    return (
        f"With {num_heads} heads and {num_kv_heads} KV heads, w_q has the rows of the old heads {places(old_q, w_q)}, and w_o the "
        f"columns of {places(old_o.mT, w_o.mT)}. The first {size} read KV head 0: the old heads {first} belong there, in both in the "
        "same order."
    )


def moved(w_q, w_o, order):
    """Heads in this order, rows of w_q and columns of w_o."""
    q, o = w_q.unflatten(0, (len(order), -1)), w_o.unflatten(1, (len(order), -1))
    return q[order].flatten(0, 1), o[:, order].flatten(1)


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
    p = torch.eye(num_heads)[contiguous(num_heads, num_kv_heads)]
    p = torch.kron(p, torch.eye(w_q.shape[0] // num_heads))
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


ORDERS = {
    "stay": lambda h, g: list(range(h)),
    "forth": contiguous,
    "back": lambda h, g: contiguous(h, h // g),
    "reversed": lambda h, g: contiguous(h, g)[::-1],
}


def order(of_q, of_o):
    """The heads of w_q in one order, those of w_o in another."""
    of_q, of_o = ORDERS[of_q], ORDERS[of_o]
    return lambda q, o, h, g: (moved(q, o, of_q(h, g))[0], moved(q, o, of_o(h, g))[1])


def then(change):
    """Something else is made of w_q, w_o and of their right versions."""
    return lambda q, o, h, g: change(q, o, *by_a_list(q, o, h, g))


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("The matrices are as they were; the heads of a group must become neighbours.", order("stay", "stay")),
    ("Only w_q is reordered; the output matrix must expect the heads in the new order, too.",
     order("forth", "stay")),
    ("Only w_o is reordered; the queries must stand in the new order, too.", order("stay", "forth")),
    ("This is the way back: it turns contiguous heads into strided ones.", order("back", "back")),
    ("w_q moves forth and w_o moves back; both need the same order.", order("forth", "back")),
    ("w_q moves back and w_o moves forth; both need the order of w_o.", order("back", "forth")),
    ("The groups are reversed: the heads of KV head 0 come first.", order("reversed", "reversed")),
    ("The heads of w_q are all reversed and those of w_o are in the right order.", order("reversed", "forth")),
    ("The heads of w_o are all reversed and those of w_q are in the right order.", order("forth", "reversed")),
    ("Single rows and columns are reordered; a head owns head_dim of them, which stay together.",
     lambda q, o, h, g: moved(q, o, contiguous(len(q), g))),
    ("The rows of w_o are reordered; a head owns columns of w_o.", then(lambda q, o, new_q, new_o: (new_q, o.flip(0)))),
    ("The order is (w_o, w_q); return (w_q, w_o).", then(lambda q, o, new_q, new_o: (new_o, new_q))),
    ("Only w_q is returned; return (w_q, w_o).", then(lambda q, o, new_q, new_o: new_q)),
    ("Both are transposed; matrices stay (out, in).", then(lambda q, o, new_q, new_o: (new_q.T, new_o.T))),
    ("The heads of the matrices are still apart; w_q and w_o keep their shapes.",
     lambda q, o, h, g: (q.unflatten(0, (h // g, g, -1)).transpose(0, 1), o)),
    ("Queries of a group are averaged; no head is lost in a reordering.", lambda q, o, h, g: (
        q.unflatten(0, (h // g, g, -1)).mean(0).repeat_interleave(h // g, 0).flatten(0, 1), by_a_list(q, o, h, g)[1])),
    ("The checkpoint itself is changed; make new matrices.",
     then(lambda q, o, new_q, new_o: (q.copy_(new_q), o.copy_(new_o)))),
))  # fmt: skip

EXERCISE = Exercise(
    name="strided_checkpoint",
    answer="load_strided",
    judge=Loaded(trained, cases, gradients=False),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
