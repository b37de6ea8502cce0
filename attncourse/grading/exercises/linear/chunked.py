"""Exercise chunked: causal linear attention in chunks, without all pairs or a state a token."""

import torch

from attncourse.grading.answer import as_answer
from attncourse.grading.exercise import Calls, Dataflow, Described, Exercise, normal
from attncourse.grading.exercises.linear.repair_global import cases, definition
from attncourse.grading.feature_inputs import elu_plus_one, with_one
from attncourse.grading.memory_judge import Budget, MemoryLimited, grows_linearly


def measured(n, width, size):
    """One head of n tokens."""
    return *normal(torch.Generator().manual_seed(7), *[(1, 1, n, width)] * 3), size


def lean(answer) -> bool | str:
    """True without a table of all pairs or a state for every token, at once or one by one."""
    wide, states = as_answer(answer).allocations(*measured(64, 48, 32)), 64 * 48 * 48
    if wide.new >= states:
        return Described(f"a state for every token: {wide.how}")
    if wide.total > states:
        told = f"all operations make {wide.total:,} numbers for 64 tokens in chunks of 32"
        return Described(f"{told}; a state for every token would be {states:,}")
    return grows_linearly(lambda n: measured(n, 4, 16), 128, answer)


@Dataflow
def right(query, key, value, size):
    queries = yield "the features of the queries", elu_plus_one(query)
    keys = yield "the features of the keys", elu_plus_one(key)
    parts = (x.split(size, dim=2) for x in (queries, keys, with_one(value)))
    state, outputs = 0, []
    for q, k, v in zip(*parts, strict=True):
        own = yield "the weights inside a chunk", (q @ k.mT).tril()
        past = q @ state if outputs else 0 * (own @ v)
        past = yield "the sums that a chunk reads of the state", past
        read = past + own @ v
        outputs.append(read[..., :-1] / read[..., -1:])
        state = state + k.mT @ v
    return torch.cat(outputs, dim=2)


EXERCISE = Exercise(
    name="chunked",
    answer="linear_in_chunks",
    judge=MemoryLimited(
        Calls(definition, cases),
        "twice as many tokens take twice as much",
        lean,
        Budget(lambda g: measured(2**13, 48, 64), right),  # all pairs would be 256 MiB
        "Let each chunk meet one state and itself, all of its tokens together: no table of all "
        "pairs, and no state for every token.",
    ),
    right=right,
    axes=("b h t e",),
)
