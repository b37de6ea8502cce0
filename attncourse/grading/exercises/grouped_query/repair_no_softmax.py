"""Exercise repair_no_softmax: the heads of a group are added up, and the softmax is forgotten."""

from attncourse import spec
from attncourse.grading.exercise import Asked, Calls, Exercise
from attncourse.grading.exercises.grouped_query.grouped_query_attention import CASES, with_weights


def alike(asked: Asked) -> str:
    """Have all query heads of a group the same weights, in all calls that can tell?"""

    def shared(call, result) -> bool:
        groups = result[1].unflatten(1, (call.case.args[1].size(1), -1))
        return bool((groups == groups[:, :, :1]).all())

    calls = [x for x in asked.shaped if not shared(x, x.expected)]
    if len(calls) < 2 or not all(shared(x, x.seen) for x in calls):
        return ""
    return (
        "All query heads that share a KV head have the same weights; each has a query, and so "
        "weights, of its own."
    )


EXERCISE = Exercise(
    name="repair_no_softmax",
    answer="grouped_attention",
    judge=Calls(spec.grouped_query_attention, CASES),
    right=with_weights,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    explain=(alike,),
)
