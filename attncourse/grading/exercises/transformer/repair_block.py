"""Exercise repair_block: a decoder layer whose norms stand on the wrong lines."""

import torch
from torch.nn.functional import layer_norm

from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, seeded


def attend(query, source):
    """A part that reads: each query position takes what fits of the source."""
    weights = torch.softmax(query @ source.mT, dim=-1)
    return weights @ torch.sin(source) - 0.3 * query


def read_back(y):
    """Causal self-attention in miniature."""
    return torch.tanh(y).cumsum(1) - 0.5 * y.roll(1, 2)


def think(y):
    return torch.relu(y - 0.2) * y.flip(2)


def same(y):
    return y


def normed(shift, scale):
    """A norm with a shift and a scale of its own, so that no two are alike."""
    return lambda y: scale * layer_norm(y, y.shape[-1:]) + shift


CALLS = (  # what is special, b n m, the width
    ("2 samples, 3 words written, 5 read, width 6", 2, 3, 5, 6),
    ("as many words written as read", 3, 4, 4, 5),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, b, n, m, width in CALLS:
        x, memory = (2 * torch.randn(b, k, width, generator=g) + 1 for k in (n, m))
        shifts = torch.randn(3, generator=g).tolist()
        norms = tuple(normed(s, 1.0 + 0.5 * k) for k, s in enumerate(shifts))
        found.append(Case(what, (x, memory, read_back, attend, think, norms)))
    parts = same, lambda y, source: source, same, (same, same, same)
    found.append(Case("parts and norms that return what they get", (x.clone(), x, *parts)))
    return found


NAMES = "self-attention", "cross-attention", "feed-forward network"


@Dataflow
def right(x, memory, self_attend, cross_attend, feed_forward, norms):
    parts = self_attend, lambda y: cross_attend(y, memory), feed_forward
    for norm, part, name in zip(norms, parts, NAMES, strict=True):
        y = yield f"the normed words in front of the {name}", norm(x)
        y = yield f"the results of the {name}", part(y)
        x = yield f"the sums behind the {name}", x + y
    return x


def traced(answer) -> dict[str, tuple]:
    """What each norm and part gets, and the caller: a sum is a tuple of names, as + joins them."""
    gets = {}

    def part(name):
        def called(*given):
            gets.setdefault(name, given)
            return (f"{name}(...)",)

        return called

    parts = map(part, ("self_attend", "cross_attend", "feed_forward"))
    norms = [part(f"norms[{k}]") for k in range(3)]
    gets["The caller"] = (answer(("x",), ("memory",), *parts, norms),)
    return gets


def written(given: tuple) -> str:
    return " and ".join(map(" + ".join, given))


def wrong_part(asked: Asked) -> str:
    """The first norm or part that gets something else than it should, where only + makes sums."""
    right, seen = traced(asked.exercise.right), traced(asked.answer)
    for name, should in right.items() if len(seen) > 1 else ():
        found = seen.get(name)
        if found is None or list(map(sorted, found)) != list(map(sorted, should)):
            gets = "is never called" if found is None else f"gets {written(found)}"
            return f"{name} {gets}; it should get {written(should)}."
    return ""


EXERCISE = Exercise(
    name="repair_block",
    answer="repaired_layer",
    judge=Calls(right, cases),
    right=right,
    axes=("b n d",),
    explain=(wrong_part,),
)
