"""Exercise decode_without_copy: one decoding step that reads the cache where it lies."""

from functools import partial

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.exercise import Calls, Dataflow, Described, Exercise
from attncourse.grading.inputs import alternating, normal, sized_cases
from attncourse.grading.memory_judge import Budget, MemoryLimited


def alternating_heads(query, key):
    alternating(query.transpose(1, 2), key)


MEASURED = "3 samples, 4 heads, 517 tokens, head_dim 16", (3, 4, 1, 517, 16, 16), 1
CALLS = (  # what is special, b h n m d e, how loud
    ("2 samples, 3 heads, 5 tokens, head_dim 6, values 7 wide", (2, 3, 1, 5, 6, 7), 1),
    ("scores near 384 and -384", (1, 3, 1, 5, 4, 3), alternating_heads),
    MEASURED,
)
CASES = partial(sized_cases, letters="b h n m d e", shapes="b h n d, b n m d, b n m e")


def memory(answer) -> bool | str:
    """True when nothing new is as large as the keys, else how large it is, and what made it."""
    args = CASES(7, calls=[MEASURED])[0].args
    made = as_answer(answer).allocations(*args)
    what = f"{made.new // args[1].numel()} x the numbers of key are made at once: {made.how}"
    return made.new < args[1].numel() or Described(what)


LARGE = (1, 2, 1, 128), (1, 1, 13 * 2**14, 128), (1, 1, 13 * 2**14, 128)  # keys of 104 MiB


def as_rows(heads, matrix):
    """The heads (b, h, 1, d) are the rows of one product with a matrix (b, 1, d, m)."""
    return (heads.transpose(1, 2) @ matrix).transpose(1, 2)


@Dataflow
def right(query, key, value):
    products = yield "the products of queries and keys", as_rows(query, key.mT)
    weights = yield "the weights", (products / query.size(-1) ** 0.5).softmax(-1)
    return as_rows(weights, value), weights


EXERCISE = Exercise(
    name="decode_without_copy",
    answer="decode_step",
    judge=MemoryLimited(
        Calls(spec.grouped_query_attention, partial(CASES, calls=CALLS), gradients=False),
        f"{MEASURED[0]}, no new tensor is as large as the cached keys",
        memory,
        Budget(lambda generator: normal(generator, *LARGE), right),
        instead="Let the heads be the rows of one product, query[:, :, 0] @ key[:, 0].mT, and "
        "scale the query or the scores, not the keys.",
    ),
    right=right,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
)
