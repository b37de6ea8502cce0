"""Exercise repair_no_softmax: the heads of a group are added up, and the softmax is forgotten."""

from attncourse import spec
from attncourse.grading.exercise import Calls, Exercise, Mistake
from attncourse.grading.exercises.grouped_query.grouped_query_attention import (
    ALL,
    CASES,
    averaged,
    ideas,
)


def as_found(query, key, value):
    """The code that is to be repaired."""
    groups = query.unflatten(1, (-1, key.size(1)))  # strided
    scores = (groups @ key[:, None].mT).sum(1)
    return scores @ value, scores


EXERCISE = Exercise(
    name="repair_no_softmax",
    answer="grouped_attention",
    judge=Calls(spec.grouped_query_attention, CASES),
    right=ALL,
    axes=("b h n e", "b h n m"),
    results=("the output", "the weights"),
    measures=("gradients",),
    ideas=[
        Mistake(
            "This is the code as found, or computes the same: all four faults are still there.",
            as_found,
        ),
        ALL.but(
            "The weights of a group are averaged and the result is copied to its heads; each head "
            "has weights of its own.",
            finish=lambda w, x: averaged(w, x.key),
        ),
        *ideas(ALL),
    ],
)
