"""How an answer is looked at: call it on copies of the inputs and keep what can be compared."""

import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

# Inputs are float32, the spec is compared in float64: loose enough for any right style.
RTOL, ATOL = 1e-3, 1e-4


class NotAttempted(Exception):
    """The answer is still the stub of the exercise."""


@dataclass(frozen=True)
class Case:
    """One call of the answer. ``label`` says what is special about it, with its shapes."""

    label: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    gradients: bool = True


@dataclass(frozen=True)
class Close:
    """A number with its tolerance."""

    value: Tensor
    rtol: float


@dataclass(frozen=True)
class Raised:
    """An error instead of a result. Where none was expected to say anything, its kind decides."""

    kind: str
    message: str = ""

    @classmethod
    def by(cls, error: BaseException) -> "Raised":
        """Named after the nearest kind that Python knows, so that subclasses count."""
        kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        try:
            return cls(kind, str(error))
        except Exception:  # an error that cannot say what it is
            return cls(kind, type(error).__name__)


def is_stub(error: NotImplementedError) -> bool:
    """A bare ``raise NotImplementedError`` is the stub; one that says something is an answer."""
    return not error.args


@dataclass(frozen=True)
class Call:
    """A case, the copies of its inputs that the answer gets, and what gives the result."""

    case: Case
    args: list
    kwargs: dict
    gradients: bool
    result: Callable[[], Any]


def prepared(answer, cases: list[Case], gradients: bool) -> list[Call]:
    """The calls of an answer. One that is far away does all of them now, and tells of each later."""
    wanted = [gradients and case.gradients for case in cases]
    given = [
        (
            [_copy(x, want) for x in case.args],
            {name: _copy(x, False) for name, x in case.kwargs.items()},
        )
        for case, want in zip(cases, wanted, strict=True)
    ]
    torch.default_generator.manual_seed(0)
    if hasattr(answer, "far_each"):
        results = answer.far_each(given)
    else:
        results = [partial(answer, *args, **kwargs) for args, kwargs in given]
    return [
        Call(case, *call, want, result)
        for case, call, want, result in zip(cases, given, wanted, results, strict=True)
    ]


def observe_call(call: Call, names: list[str]) -> dict[str, Any]:
    """Outputs, gradients of the inputs (called by ``names``), and whether these were left alone."""
    case, args, kwargs = call.case, call.args, call.kwargs
    torch.default_generator.manual_seed(0)
    try:
        output = call.result()
        seen = {f"{case.label}, output": _detached(output)}
        if call.gradients:
            seen |= _gradients(output, dict(zip(names, args, strict=False)), case.label)
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and is_stub(error):
            raise NotAttempted from None
        return {f"{case.label}, output": Raised.by(error)}
    pairs = zip([*args, *kwargs.values()], [*case.args, *case.kwargs.values()], strict=True)
    seen[f"{case.label}, inputs left unchanged"] = all(
        torch.equal(x.detach(), y) for x, y in pairs if isinstance(x, Tensor)
    )
    return seen


def in_float64(spec):
    """The definition, computed in double precision whatever the inputs are."""

    def precise(*args, **kwargs):
        return spec(*map(_double, args), **{k: _double(x) for k, x in kwargs.items()})

    return precise


def _double(x):
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x


def _copy(x, require_grad: bool):
    if not isinstance(x, Tensor):
        return x
    copy = x.clone()
    return copy.requires_grad_() * 1 if require_grad and x.is_floating_point() else copy


def _gradients(output, args: dict[str, Any], label: str) -> dict[str, Any]:
    """Gradients of a fixed random mixture of all outputs."""
    generator = torch.Generator().manual_seed(1)
    outputs = output if isinstance(output, tuple | list) else [output]
    total = sum(
        (o * torch.randn(o.shape, generator=generator)).sum()
        for o in outputs
        if isinstance(o, Tensor) and o.is_floating_point()
    )
    inputs = {n: x for n, x in args.items() if isinstance(x, Tensor) and x.requires_grad}
    if not isinstance(total, Tensor) or not total.requires_grad:
        return {f"{label}, gradient": "no gradient reaches the inputs"} if inputs else {}
    found = torch.autograd.grad(total, list(inputs.values()), allow_unused=True)
    return {
        f"{label}, gradient of {name}": torch.zeros_like(args[name]) if g is None else g
        for name, g in zip(inputs, found, strict=True)
    }


def _detached(output):
    if isinstance(output, Tensor):
        return output.detach()
    if isinstance(output, tuple | list):
        return tuple(_detached(x) for x in output)
    return output


def observe_number(answer: Any, rtol: float) -> Any:
    """A number or several numbers as a tensor; anything else as itself."""
    if type(answer).__name__ == "ndarray" and answer.dtype.kind in "iuf":
        answer = torch.from_numpy(answer)
    if isinstance(answer, Tensor):
        return Close(answer.detach().double().cpu(), rtol)
    several = isinstance(answer, tuple | list)
    if several:
        answer = [x.item() if isinstance(x, Tensor) and x.numel() == 1 else x for x in answer]
    if not all(isinstance(x, numbers.Real) for x in (answer if several else [answer])):
        return answer
    if isinstance(answer, bool):
        return answer
    try:
        return Close(torch.tensor(answer, dtype=torch.float64), rtol)
    except (OverflowError, RuntimeError):  # an int beyond the range of a float
        return answer


def difference(expected: Any, seen: Any) -> str:
    """'' if ``seen`` is what was expected, else one sentence."""
    if isinstance(expected, Raised):
        same = isinstance(seen, Raised) and seen.kind == expected.kind
        if same and (not expected.message or _wording(expected) == _wording(seen)):
            return ""
        return f"expected a {expected.kind}, got {_short(seen)}"
    if isinstance(seen, Raised):
        return f"raised {_short(seen)}"
    if isinstance(expected, tuple):
        return _difference_tuple(expected, seen)
    if isinstance(expected, Close):
        return _difference_number(expected, seen)
    if isinstance(expected, Tensor):
        return _difference_tensor(expected, seen)
    if type(expected) is type(seen) and _equal(expected, seen):
        return ""
    if expected is True:
        return "no" if seen is False else str(seen)
    return f"expected {_short(expected)}, got {_short(seen)}"


def _equal(a: Any, b: Any) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # whatever its __eq__ does
        return False


def _wording(error: Raised) -> str:
    """The message without its sizes: the same mistake on other shapes."""
    return re.sub(r"\[.*?\]|[\d.]+", "#", error.message)


def _difference_tuple(expected: tuple, seen: Any) -> str:
    if not isinstance(seen, tuple) or len(seen) != len(expected):
        return f"expected {len(expected)} results, got {_short(seen)}"
    for k, (e, s) in enumerate(zip(expected, seen, strict=True)):
        problem = difference(e, s)
        if problem:
            return f"result {k + 1} of {len(expected)}: {problem}"
    return ""


def _difference_number(expected: Close, seen: Any) -> str:
    if isinstance(seen, str):
        return f"expected a number, got the text {seen!r}; write it without quotes"
    if not isinstance(seen, Close):
        return f"expected a number, got {_short(seen)}"
    if seen.value.shape != expected.value.shape:
        return f"expected {_count(expected.value)}, got {_count(seen.value)}"
    if torch.allclose(expected.value, seen.value, rtol=expected.rtol, atol=1e-12):
        return ""
    return f"{_short(seen.value)} is not right"


def _difference_tensor(expected: Tensor, seen: Any) -> str:
    if not isinstance(seen, Tensor):
        return f"expected a tensor of shape {tuple(expected.shape)}, got {_short(seen)}"
    if seen.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}, got {tuple(seen.shape)}"
    if (expected.dtype == torch.bool) != (seen.dtype == torch.bool):
        return f"expected dtype {expected.dtype}, got {seen.dtype}"
    if seen.is_complex():
        return f"expected real numbers, got dtype {seen.dtype}"
    if seen.dtype in (torch.float16, torch.bfloat16):
        return f"expected float32 or a higher precision, got dtype {seen.dtype}"
    if seen.layout != torch.strided or seen.is_meta:
        return f"expected a plain tensor, got layout {seen.layout} on {seen.device}"
    a, b = expected.double(), seen.double().cpu()
    apart = ~torch.isclose(b, a, rtol=RTOL, atol=ATOL, equal_nan=True)
    if not apart.any():
        return ""
    where = tuple(apart.nonzero()[0].tolist())
    return (
        f"{int(apart.sum())} of {apart.numel()} numbers differ; at {list(where)} expected "
        f"{a[where].item():.4g}, got {b[where].item():.4g}"
    )


def _short(x: Any) -> str:
    if isinstance(x, Close):
        return _short(x.value)
    if isinstance(x, Tensor):
        return f"{x.item():,.10g}" if x.dim() == 0 else f"a tensor of shape {tuple(x.shape)}"
    if isinstance(x, tuple):
        return "one result" if len(x) == 1 else f"{len(x)} results"
    if isinstance(x, Raised):
        x = f"{x.kind}: {x.message}" if x.message else x.kind
    try:
        text = x if isinstance(x, str) else repr(x)
    except Exception:  # whatever its __repr__ does
        text = f"a {type(x).__name__}"
    return text if len(text) < 160 else text[:157] + "..."


def _count(x: Tensor) -> str:
    return "one number" if x.dim() == 0 else f"numbers of shape {tuple(x.shape)}"
