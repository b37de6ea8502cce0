"""Exercise absorbed_attention: one decoding step that never makes a key or a value."""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.exercise import Calls, Case, Dataflow, Described, Exercise
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.memory_judge import Budget, MemoryLimited


def definition(query, q_rotary, latent, k_rotary, w_k, w_v):
    """Keys and values are made; then it is the attention of the course, in loops."""
    key, value = (spec.split_heads(spec.affine(latent, w), query.size(1)) for w in (w_k, w_v))
    key = torch.cat([key, k_rotary[:, None].expand(-1, query.size(1), -1, -1)], -1)
    query = torch.cat([query, q_rotary], -1)[:, :, None]
    return tuple(x[:, :, 0] for x in spec.scaled_dot_product_attention(query, key, value))


CALLS = (  # what is special, b h d e m c r, how loud
    ("2 samples, 3 heads, 5 tokens, values 8 wide, latent 7", (2, 3, 4, 8, 5, 7, 6), 1),
    ("a latent of 3, keys and values 5 wide", (2, 4, 5, 5, 6, 3, 2), 1),
    ("scores of 384 and -384", (2, 2, 2, 3, 5, 4, 2), 0),  # exp has no number for them
)  # fmt: skip


def call(generator, b, h, d, e, m, c, r, loud=1) -> list:
    """One query and m tokens; where loud is 0, scores of 384 and -384."""
    args = normal(generator, (b, h, d), (b, h, r), (b, m, c), (b, m, r), (h * d, c), (h * e, c))
    if not loud:
        args[1][..., 0], args[3][..., 0] = 12.0 * (-1.0) ** torch.arange(h), 64.0
    return [loud * args[0], (loud or 1) * args[1], *args[2:4], args[4] / c**0.5, args[5]]


def cases(seed: int) -> list[Case]:
    """float32 rounds large scores, and the gradients with them."""
    g = seeded(seed)
    return [Case(what, (*call(g, *of, loud),), gradients=loud == 1) for what, of, loud in CALLS]


def memory(answer) -> bool | str:
    """True when no key and no value is made, at once or in pieces, nor anything as large."""
    args = call(torch.Generator().manual_seed(7), 2, 12, 64, 60, 200, 6, 2)
    made, of_a_head = as_answer(answer).allocations(*args), 2 * 60 * 200
    if made.total >= 12 * of_a_head:
        return Described(f"they are made: all results together have {made.total:,} numbers")
    large = f"something is as large as those of a head: {made.how}"
    return made.new < of_a_head or Described(large)


@Dataflow
def right(query, q_rotary, latent, k_rotary, w_k, w_v):
    of_keys, of_values = (w.unflatten(0, (query.size(1), -1)) for w in (w_k, w_v))
    asks = yield "the absorbed queries", torch.einsum("bhd,hdc->bhc", query, of_keys)
    content = yield "the products of queries and latents", asks @ latent.mT
    rotary = yield "the products of the rotary parts", q_rotary @ k_rotary.mT
    width = query.size(-1) + q_rotary.size(-1)
    scores = yield "the scores", (content + rotary) / width**0.5
    weights = yield "the weights", scores.softmax(-1)
    mixed = yield "the mixed latents", weights @ latent
    return torch.einsum("bhc,hec->bhe", mixed, of_values), weights


EXERCISE = Exercise(
    name="absorbed_attention",
    judge=MemoryLimited(
        Calls(definition, cases),
        "2 samples, 12 heads, 200 tokens, latent 6, rotary 2: no keys and no values are made",
        memory,
        # The keys or the values of one head are 128 MiB; the latents are small.
        Budget(partial(call, b=1, h=2, d=4096, e=4096, m=8192, c=6, r=2), right),
        instead="Move w_k to the query, which is one token instead of m, and mix the latents "
        "before w_v; the heads are rows of one product, (b, h, c) @ (b, c, m).",
    ),
    right=right,
    axes=("b h e", "b h m"),
    results=("the output", "the weights"),
)
