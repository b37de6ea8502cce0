"""Which parameter of a layer is missing or too many, and how wide is a projection?"""

from collections.abc import Iterator
from itertools import product
from math import prod

from attncourse.grading.compare import difference
from attncourse.grading.explain.asked import Asked, listed
from attncourse.grading.layers_judge import Layers


def stored(asked: Asked) -> str:
    """The parameters that are missing or too many, or how wide a projection is and should be."""
    judge = asked.judge
    if not isinstance(judge, Layers):
        return ""
    layers = [x for x in judge.layers(asked.seed) if f"{x[0]}, parameters" in asked.seen]
    off = [x for x in layers if any(_off(asked, x[0]))]
    if not off:
        return ""
    sizes = layers[0][1]
    right, own = (
        dict(made(*sizes).named_parameters()) for made in (judge.definition, asked.answer)
    )
    missing, more = ([x for x in a if x not in b] for a, b in ((right, own), (own, right)))
    every = dict(asked.answer(*sizes).named_parameters(remove_duplicate=False))
    if twins := [x for x in missing if x in every]:
        return f"No numbers of their own: {listed(twins)}. Another projection stands in that place."
    if missing:
        instead = f"; it stores {listed(more)} instead" if more else ""
        return f"The layer stores no {listed(missing)}{instead}."
    if more:
        return f"The layer stores more than it should: {listed(more)}."
    wrong: dict[str, list[str]] = {}
    for name in right:
        for told in _width(asked, layers, name):
            wrong.setdefault(told, []).append(name.rpartition(".")[0])
    return " ".join(_said(told, list(dict.fromkeys(names))) for told, names in wrong.items())


def _said(told: str, names: list[str]) -> str:
    verbs = ("has", "it") if len(names) == 1 else ("have", "they")
    return f"{listed(names)} {told.format(*verbs)}"


def _off(asked: Asked, label: str) -> Iterator[bool]:
    for what, right in asked.expected.items():
        if what.startswith(f"{label}, shape of ") or what == f"{label}, parameters":
            yield bool(difference(right, asked.seen.get(what)))


def _width(asked: Asked, layers: list, name: str) -> Iterator[str]:
    """How many outputs a projection has and should have, or how many inputs, where these differ."""
    part = name.rpartition(".")[2]
    shapes = [
        [x.get(f"{label}, shape of {name}", "").split(" x ") for label, *_ in layers]
        for x in (asked.expected, asked.seen)
    ]
    for axis, what in enumerate(("outputs", "inputs")[: len(shapes[0][0])]):
        right, seen = ([int(x[axis]) for x in y] for y in shapes)
        if right != seen and part in ("weight", "bias"):
            sizes = [x[1] for x in layers]
            told = [_formula(asked.judge.names.split(), sizes, x) for x in (seen, right)]
            if not all(told):
                told = [f"{x[0]} (where {asked.judge.called(sizes[0])})" for x in (seen, right)]
            yield f"{{}} {told[0]} {what}; {{}} should have {told[1]}."


def _formula(names: list[str], sizes: list[tuple[int, ...]], seen: list[int]) -> str:
    """``"2 * embed_dim / num_heads"`` where that is ``seen`` for all sizes; '' without any."""
    powers = sorted(product((0, 1, -1), repeat=len(names)), key=lambda p: sum(map(abs, p)))
    for power, times in product(powers, range(1, 5)):
        if all(
            times * prod(map(pow, map(float, x), power)) == y
            for x, y in zip(sizes, seen, strict=True)
        ):
            above = [name for name, p in zip(names, power, strict=True) if p > 0]
            below = [f" / {name}" for name, p in zip(names, power, strict=True) if p < 0]
            number = [] if times == 1 and above else [str(times)]
            return " * ".join(number + above) + "".join(below)
    return ""
