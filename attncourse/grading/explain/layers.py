"""What does a layer compute with known parameters, and what is wrong with it?"""

import torch
from torch import Tensor, nn

from attncourse.grading.compare import difference, plain
from attncourse.grading.explain.asked import OUTPUT, Asked
from attncourse.grading.explain.maps import of_mixing
from attncourse.grading.explain.weights import AS_FAR
from attncourse.grading.heads import split
from attncourse.grading.layers_judge import Layers, draw


def unsteady(asked: Asked) -> str:
    """Random numbers where there is nothing to draw: in evaluation the same x gives two results."""
    if not _names(asked):
        return ""
    label, sizes, shape, _ = _first(asked)
    x, layer = draw("x", (*shape, sizes[0]), asked.seed, label), asked.answer(*sizes).eval()
    case = asked.judge.calls(shape[1], asked.seed)[0]
    with torch.no_grad():
        both = (layer(x, *case.args, **case.kwargs) for _ in range(2))
        once, again = (tuple(y) if isinstance(y, list) else y for y in both)
    return (
        "In evaluation each call gives another result: random numbers, such as those of dropout, "
        "belong to training only."
        if difference(once, again)
        else ""
    )


def _no_out_proj(known: dict[str, Tensor]) -> None:
    nn.init.eye_(known["out_proj.weight"])
    if "out_proj.bias" in known:
        known["out_proj.bias"].zero_()


def _names(asked: Asked) -> list[str]:
    judge = asked.judge
    if not isinstance(judge, Layers) or not asked.shaped:
        return []
    return [name for name, _ in judge.definition(*judge.sizes[0][1]).named_parameters()]


def _first(asked: Asked) -> tuple:
    """The first layer whose results are wrong."""
    return next(x for x in asked.judge.layers(asked.seed) if asked.shaped[0].label.startswith(x[0]))


def of_layer(asked: Asked) -> str:
    """What is wrong with the maps of a layer, seen with values that are the identity.

    The last features of x count the tokens; v_proj reads only them, and out_proj is the identity.
    """
    names = _names(asked)
    if not {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"} <= {*names}:
        return ""
    sizes, shape = _first(asked)[1:3]
    heads, n = sizes[asked.judge.names.split().index("num_heads")], shape[1]
    right = asked.exercise.right
    stored = dict(right(*sizes).named_parameters())
    count = heads * stored["v_proj.weight"].size(0) // sizes[0]
    sizes = (sizes[0] * (1 + count * n * heads // sizes[0]), *sizes[1:])
    layer, own = right(*sizes), asked.answer(*sizes)
    known = {k: draw(k, tuple(p.shape), asked.seed) for k, p in layer.named_parameters()}
    x = draw("x", (shape[0], n, sizes[0]), asked.seed)
    x[..., -n:] = torch.eye(n)
    v = known["v_proj.weight"].zero_().unflatten(0, (count, -1))
    for g in range(count):
        v[g, g * n : (g + 1) * n, -n:] = torch.eye(n)
    _no_out_proj(known)
    if "v_proj.bias" in known:
        known["v_proj.bias"].zero_()
    label = f"{asked.judge.called(sizes)}, values that are the identity"
    seen = [dict(asked.judge.called_with(y, x, known, label, asked.seed)) for y in (layer, own)]
    query, key = (
        split(x @ known[f"{p}_proj.weight"].mT + known.get(f"{p}_proj.bias", 0), many)
        for p, many in (("q", heads), ("k", count))
    )
    for what in seen[0]:
        both = [y[what] for y in seen]
        if what.endswith(OUTPUT) and all(map(plain, both)) and difference(*both):
            reads, made = (split(y.double(), heads)[..., : count * n] for y in both)
            if says := of_mixing(what.removesuffix(OUTPUT), reads, made, count, query, key):
                return f"{AS_FAR}{says[0].lower()}{says[1:]}" if " sum to " in says else says
    return ""
