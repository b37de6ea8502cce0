"""What can be said of a wrong answer that no known mistake explains: true of what was seen, not guessed."""

from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from attncourse.grading.compare import Raised, difference, plain
from attncourse.grading.gradients import cut_gradient, lost_gradient
from attncourse.grading.meanings import meaning
from attncourse.grading.observe import run

# bfloat16 keeps 8 bits; a few roundings in a row lose two or three of them.
COARSE = 0.03


def symptom(expected: dict[str, Any], seen: dict[str, Any]) -> str:
    """One sentence on how all that is wrong is wrong, or ''."""
    pairs = [
        (what, expected[what], seen[what])
        for what in expected
        if what in seen and what.endswith(", output") and not same(expected[what], seen[what])
    ]
    if said := _raised_alike(expected, seen):
        return said
    if not pairs:
        typed = [
            (what, x, seen[what])
            for what, x in expected.items()
            if difference(x, seen.get(what, x))
        ]
        return (
            _typed(typed, 0)
            or _nearly(expected, seen)
            or _changed(expected, seen)
            or lost_gradient(expected, seen)
            or cut_gradient(expected, seen)
        )
    for explains in (
        _raised,
        _uncalled,
        _packed,
        _reordered,
        _reshaped,
        _typed,
        _multiplied,
        _rounded,
        _not_a_number,
    ):
        if said := explains(pairs, sum(what.endswith(", output") for what in expected)):
            return said
    return _nearly(expected, seen) or _alone(expected, seen, pairs)


def _raised(pairs, calls: int) -> str:
    """One error in most of what is wrong, and what it means."""
    errors = [s.message for _, _, s in pairs if isinstance(s, Raised)]
    if 2 * len(errors) < len(pairs):
        return ""
    return meaning(errors)


def _raised_alike(expected: dict, seen: dict) -> str:
    """One error wherever something else than a result of a call was asked, and what it means."""
    errors = [
        x.message
        for what, x in seen.items()
        if isinstance(x, Raised)
        and not isinstance(expected.get(what), Raised)
        and not what.endswith(", output")
    ]
    return meaning(errors)


def _uncalled(pairs, calls: int) -> str:
    """Functions instead of what they return."""
    uncalled = all(callable(s) and not isinstance(s, Tensor) for _, _, s in pairs)
    return "A function is returned; return what it gives when it is called." if uncalled else ""


def _packed(pairs, calls: int) -> str:
    """The right tensor in a list, in an array of numpy, or beside others."""
    of_numpy = [isinstance(s, tuple) and any(map(_is_array, s)) for _, _, s in pairs]
    if all(of_numpy) and all(same(e, run(_made_tensors, s)) for _, e, s in pairs):
        return "The numbers are right, but these are arrays of numpy; return tensors."
    if not all(plain(e) for _, e, _ in pairs):
        return ""
    reasons = []
    for _, e, s in pairs:
        beside = isinstance(s, tuple) and next((k for k, x in enumerate(s) if same(e, x)), None)
        if _is_array(s) or isinstance(s, tuple) and beside is None:
            reasons.append("a list" if isinstance(s, tuple) else "an array of numpy")
            s = run(lambda s=s, e=e: torch.tensor(s, dtype=e.dtype))
        elif isinstance(s, tuple):
            reasons.append(f"{len(s)} results, of which only number {beside + 1} is asked")
            s = s[beside]
        if not same(e, s):
            return ""
    return (
        f"The numbers are right, but this is {reasons[0]}; return a tensor."
        if len(set(reasons)) == 1
        else ""
    )


def _made_tensors(results: tuple) -> tuple[Tensor, ...]:
    return tuple(map(torch.as_tensor, results))


def _is_array(x: Any) -> bool:
    return type(x).__name__ == "ndarray"


def same(expected: Any, seen: Any, tolerance: float = 1e-3) -> bool:
    """Are these the same results? Tensors within a tolerance, relative to their largest number."""
    if isinstance(expected, tuple):
        alike = isinstance(seen, tuple) and len(seen) == len(expected)
        return alike and all(same(*both, tolerance) for both in _tensors(expected, seen))
    if not isinstance(expected, Tensor):
        return not difference(expected, seen)
    if not plain(seen) or seen.shape != expected.shape:
        return False
    expected, seen = expected.double(), seen.double().cpu()
    finite = expected[expected.isfinite()]
    size = float(finite.abs().max()) if finite.numel() else 1.0
    return torch.allclose(seen, expected, rtol=tolerance, atol=tolerance * size, equal_nan=True)


def _reordered(pairs, calls: int) -> str:
    """Several results that are all there, in another order."""

    def other_order(e, s):
        several = isinstance(e, tuple) and isinstance(s, tuple) and 1 < len(s) == len(e) <= 4
        return several and any(same(e, order) for order in permutations(s))

    moved = all(other_order(e, s) for _, e, s in pairs)
    return "The results are right, but stand in another order." if moved else ""


def _reshaped(pairs, calls: int) -> str:
    """The right numbers with other axes, for one and the same reason in every call that is wrong."""
    wrong = [both for _, e, s in pairs for both in _tensors(e, s) if not same(*both)]
    reasons = set.intersection(*(_other_axes(*both) for both in wrong))
    return f"The numbers are right, but {min(reasons)}." if reasons else ""


def _other_axes(e: Any, s: Any) -> set[str]:
    if not (plain(e) and plain(s)) or e.numel() != s.numel() or s.dim() > 5:
        return set()
    reasons = set()
    if e.squeeze().shape == s.squeeze().shape and same(e.squeeze(), s.squeeze()):
        reasons.add(f"axes of size 1 are {'missing' if s.dim() < e.dim() else 'added or moved'}")
    if e.dim() == s.dim():
        orders = (p for p in permutations(range(e.dim())) if s.permute(p).shape == e.shape)
        if any(same(e, s.permute(p)) for p in orders):
            reasons.add("the axes stand in another order")
    elif not reasons and same(e.flatten(), s.flatten()):
        reasons.add("axes are joined or split")
    return reasons


def _tensors(e: Any, s: Any) -> list[tuple[Any, Any]]:
    if isinstance(e, tuple) and isinstance(s, tuple) and len(e) == len(s):
        return list(zip(e, s, strict=True))
    return [(e, s)]


def _typed(pairs, calls: int) -> str:
    """The right values as numbers where booleans are asked, or the other way round."""
    wrong = [both for _, e, s in pairs for both in _tensors(e, s) if difference(*both)]
    if not all(plain(e) and plain(s) and same(e, s) for e, s in wrong):
        return ""
    types = {(e.dtype, s.dtype) for e, s in wrong if torch.bool in (e.dtype, s.dtype)}
    if len(types) != 1:
        return ""
    ((e, s),) = types
    asked = "torch.bool is" if e == torch.bool else "numbers are"
    return f"The values are right, but their type is {s}; {asked} asked."


def _multiplied(pairs, calls: int) -> str:
    """What is wrong is a multiple of what it should be, with one factor everywhere."""
    wrong = [both for _, e, s in pairs for both in _tensors(e, s) if not same(*both)]
    found = [run(_factor, *both) for both in wrong]
    if len(pairs) < 2 or not all(
        isinstance(x, float) and abs(x / found[0] - 1) < 1e-4 for x in found
    ):
        return ""
    if abs(found[0] - 1) < 1e-3:  # right numbers, of another kind
        return ""
    where = "" if len(pairs) == calls else f", in {len(pairs)} of {calls} calls: {_labels(pairs)}"
    return f"The numbers are {found[0]:.4g} times what they should be{where}."


def _factor(e: Any, s: Any) -> float | None:
    """``s / e``, if it is the same number everywhere, and neither 0 nor 1."""
    e, s = (torch.as_tensor(x).double() for x in (e, s))
    if e.shape != s.shape:
        return None
    largest = e.abs().argmax()
    factor = float(s.flatten()[largest] / e.flatten()[largest])
    told = abs(factor) > 1e-9 and abs(factor - 1) > 1e-3
    return factor if told and torch.allclose(s, e * factor, rtol=1e-3, atol=1e-6) else None


def _rounded(pairs, calls: int) -> str:
    """Right to two digits or so: half precision somewhere."""
    near = [what for what, e, s in pairs if not _whole(e) and same(e, s, COARSE)]
    most = 2 * len(near) >= len(pairs) and 2 * len(pairs) >= calls
    if near and (most or 1 < len(near) == len(pairs)):
        return (
            "The numbers are right to about two digits only. Is something rounded, or computed in float16 "
            "or bfloat16?"
        )
    return ""


def _whole(x: Any) -> bool:
    """Whole numbers, which nothing rounds."""
    return isinstance(x, Tensor) and not x.is_floating_point()


def _nearly(expected: dict, seen: dict) -> str:
    """Right to more digits than half precision loses in a row, and to fewer than float32 has."""
    outputs = [what for what in expected if what in seen and what.endswith(", output")]
    wrong = [what for what in outputs if difference(expected[what], seen[what])]
    near = [what for what in wrong if same(expected[what], seen[what])]
    if not near or 2 * len(near) < len(wrong):
        return ""
    where = "The" if near == wrong else f"In {len(near)} of {len(outputs)} calls the"
    return f"{where} numbers are right to about three digits only. Is something rounded, or computed in float16?"


def _not_a_number(pairs, calls: int) -> str:
    """NaN or infinity where numbers belong, and nothing else wrong."""

    def spoiled(e, s):
        comparable = plain(e) and plain(s) and s.shape == e.shape
        return comparable and bool(e.isfinite().all()) and not s.isfinite().all()

    if len(pairs) < calls and all(
        any(spoiled(*both) for both in _tensors(e, s)) for _, e, s in pairs
    ):
        return f"Most is right, but there are NaN or infinite numbers here: {_labels(pairs)}."
    return ""


def _alone(expected: dict, seen: dict, pairs) -> str:
    """One call of many, and no other is off by a little."""
    outputs = [what for what in expected if what in seen and what.endswith(", output")]
    wrong = [what for what in outputs if difference(expected[what], seen[what])]
    if len(pairs) == len(wrong) == 1 and len(outputs) > 2:
        return f"All other calls give what they should; only this one does not: {_labels(pairs)}."
    return ""


def _labels(pairs) -> str:
    return "; ".join(what.removesuffix(", output") for what, *_ in pairs[:3])


def _changed(expected: dict, seen: dict) -> str:
    """The inputs that are not what they were."""
    kept = ", inputs left unchanged"
    changed = {
        seen[what] for what in expected if what.endswith(kept) and seen.get(what, True) is not True
    }
    named = [str(x).removeprefix("no, ").removesuffix(" changed").split(" and ") for x in changed]
    names = sorted({name for names in named for name in names})
    which = "an input is" if len(names) == 1 else "inputs are"
    return (
        f"The results are right, but {which} changed in place: {' and '.join(names)}."
        if names
        else ""
    )
