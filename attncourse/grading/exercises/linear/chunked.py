"""Exercise chunked: causal linear attention in chunks, without all pairs or a state a token."""

import torch

from attncourse import spec
from attncourse.grading.answer import as_answer
from attncourse.grading.exercise import Calls, Dataflow, Described, Exercise, normal
from attncourse.grading.exercises.linear.repair_global import cases
from attncourse.grading.feature_inputs import elu_plus_one, with_one
from attncourse.grading.memory_judge import Budget, MemoryLimited

TOKENS = 32  # and twice as many


def definition(query, key, value, size):
    """The loops of the course, pair by pair; the size of a chunk changes nothing."""
    return spec.linear_attention(query, key, value, is_causal=True)[0]


def measured(n, width, size):
    """One head of n tokens."""
    return *normal(torch.Generator().manual_seed(7), *[(1, 1, n, width)] * 3), size


def lean(answer) -> bool | str:
    """True without a table of all pairs or a state for every token, at once or one by one."""
    narrow = [as_answer(answer).allocations(*measured(n, 4, 16)) for n in (TOKENS, 2 * TOKENS)]
    wide, states = as_answer(answer).allocations(*measured(64, 48, 32)), 64 * 48 * 48
    if wide.new >= states:
        return Described(f"a state for every token: {wide.how}")
    if narrow[1].new >= 4 * TOKENS * TOKENS:
        return Described(f"all pairs at once: {narrow[1].how}")
    if narrow[1].total > 2.25 * narrow[0].total:
        one, two = (f"{x.total:,} numbers for {k * TOKENS} tokens" for k, x in enumerate(narrow, 1))
        return Described(f"all pairs, part by part: {one}, {two}")
    if wide.total > states:
        return Described(f"token by token: {wide.total:,} numbers in all for 64 tokens")
    return True


@Dataflow
def right(query, key, value, size):
    queries = yield "the features of the queries", elu_plus_one(query)
    keys = yield "the features of the keys", elu_plus_one(key)
    parts = (x.split(size, dim=2) for x in (queries, keys, with_one(value)))
    state, outputs = 0, []
    for q, k, v in zip(*parts, strict=True):
        own = yield "the weights inside a chunk", (q @ k.mT).tril()
        past = yield (
            "the sums that a chunk reads of the state",
            q @ state if outputs else 0 * (own @ v),
        )
        read = past + own @ v
        outputs.append(read[..., :-1] / read[..., -1:])
        state = yield "the numbers of the state", state + k.mT @ v
    return torch.cat(outputs, dim=2)


EXERCISE = Exercise(
    name="chunked",
    answer="linear_in_chunks",
    judge=MemoryLimited(
        Calls(definition, cases),
        "twice as many tokens take twice as much",
        lean,
        # All pairs would be 256 MiB.
        Budget(lambda g: (*normal(g, *[(1, 1, 2**13, 48)] * 3), 64), right),
        "Let each chunk meet one state and itself, all of its tokens together: no table of all "
        "pairs, and no state for every token.",
    ),
    right=right,
    axes=("b h t e",),
    measures=("gradients", "memory"),
)
