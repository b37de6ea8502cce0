"""What is noticed of wrong answers that no known mistake explains, where heads share keys."""

from typing import Any

import torch

from attncourse.grading.compare import Raised, difference, plain
from attncourse.grading.exercise import Calls, cases_of
from attncourse.grading.layers_judge import Layers, draw, split
from attncourse.grading.told import only_loud, told, told_by

GONE = "One output is left for each KV head; all query heads must have an output of their own."


class GroupedCalls(Calls):
    """Judges grouped-query attention; in its first call values are wider than there are keys."""

    def notice(self, expected: dict[str, Any], seen: dict[str, Any], seed: int) -> str:
        case = cases_of(self, seed)[0]
        if any(isinstance(found, Raised) for found in seen.values()):
            return ""
        if says := only_loud(expected, seen):
            return says
        output = seen.get(f"{case.label}, output")
        output = output[0] if isinstance(output, tuple) and output else output
        if plain(output) and output.shape[:3] == (*case.args[1].shape[:2], case.args[0].size(2)):
            return GONE
        return told_by(case.label, expected, seen, case.args)


class GroupedLayers(Layers):
    """Judges layers that share keys; the first has heads at least as wide as there are positions."""

    def notice(self, expected: dict[str, Any], seen: dict[str, Any], seed: int) -> str:
        _, sizes, shape, _ = self.sizes[0]
        label = ", ".join(
            f"{name} {size}" for name, size in zip(self.names.split(), sizes, strict=True)
        )
        off = [what for what in expected if difference(expected[what], seen.get(what))]
        if says := only_loud(expected, seen):
            return says
        wrong = {what.removeprefix(f"{label}, ") for what in off if what.startswith(f"{label}, ")}
        stored = {what for what in wrong if "parameters" in what or "shape" in what}
        if stored == {"parameters"}:
            stores, right = (x[f"{label}, parameters"] for x in (seen, expected))
            return (
                f"The four projections have the right shapes, but the layer stores {stores:,} numbers instead of {right:,}: "
                "something else in it learns."
            )
        output = seen.get(f"{label}, output")
        right = expected[f"{label}, output"]
        if stored or not plain(output) or output.shape != right.shape or "output" not in wrong:
            return ""
        if any(isinstance(x, Raised) for x in seen.values()):
            return ""
        known = {
            name: draw(name, tuple(p.shape), seed, label).double()
            for name, p in self.definition(*sizes).named_parameters()
        }
        x, heads = (
            draw("x", (*shape, sizes[0]), seed, label).double(),
            (sizes[1], sizes[2], sizes[2]),
        )

        def projected(name, count):
            return split(x @ known[f"{name}_proj.weight"].mT + known[f"{name}_proj.bias"], count)

        merged = torch.linalg.solve(
            known["out_proj.weight"], (output.double() - known["out_proj.bias"]).mT
        ).mT
        says = told(*map(projected, "qkv", heads), split(merged, sizes[1]))
        return says and f"Taken back through out_proj: {says[0].lower()}{says[1:]}"
