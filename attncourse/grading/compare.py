"""What can be seen of an answer, and how it differs from what was expected."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Inputs are float32, the spec is compared in float64: loose enough for any right style.
RTOL, ATOL = 1e-3, 1e-4
NO_NUMBERS = str, bytes, bool, complex, list, tuple, dict, type(None)
NO_GRADIENT = "no gradient reaches it"


@dataclass(frozen=True)
class Close:
    """A number with its tolerance, relative or absolute."""

    value: Tensor
    rtol: float
    atol: float = 1e-12


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


class Described(str):
    """What was seen, in words; two with the same words before the colon are the same."""

    @property
    def kind(self) -> str:
        """The words before the colon, a plain text: where there is no colon, partition gives back itself."""
        return str(self).partition(":")[0]

    def __eq__(self, other):
        return isinstance(other, Described) and self.kind == other.kind

    def __hash__(self):
        return hash(self.kind)


def plain(x: Any) -> bool:
    """Is this a tensor of real numbers that can be looked at in every way?"""
    return (
        isinstance(x, Tensor) and x.layout == torch.strided and not x.is_meta and not x.is_complex()
    )


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
    text = "the text " if isinstance(seen, str) and isinstance(expected, int | float) else ""
    return f"expected {_short(expected)}, got {text}{_short(seen)}"


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
        problem = "it is None" if s is None is not e else difference(e, s)
        if problem:
            return f"result {k + 1} of {len(expected)}: {problem}"
    return ""


def _difference_number(expected: Close, seen: Any) -> str:
    if isinstance(seen, str):
        return f"expected a number, got the text {seen!r}; write it without quotes"
    if not isinstance(seen, Close):
        return f"expected {_count(expected.value)}, got {_short(seen)}{_what_to_do(seen)}"
    if seen.value.shape != expected.value.shape:
        return f"expected {_count(expected.value)}, got {_count(seen.value)}"
    right = torch.isclose(seen.value, expected.value, rtol=expected.rtol, atol=expected.atol)
    if right.all():
        return ""
    if right.dim() == 0:
        return f"{_short(seen.value)} is not right"
    wrong = [str(k + 1) for k, good in enumerate(right.flatten().tolist()) if not good]
    return f"{len(wrong)} of {right.numel()} are not right: number {', '.join(wrong)}"


def _what_to_do(seen: Any) -> str:
    """How a number comes of what stands in its place, if that is plain."""
    if callable(seen) and not isinstance(seen, Tensor):
        return "; that is a function or a class, pass the number that it gives"
    if isinstance(seen, list | tuple):
        strange = (k for k, x in enumerate(seen) if isinstance(x, NO_NUMBERS))
        return next((f"; number {k + 1} of them is {_strange(seen[k])}" for k in strange), "")
    return "; that is a dict, pass its numbers" if isinstance(seen, dict) else ""


def _strange(x: Any) -> str:
    """What stands in the place of a number."""
    if isinstance(x, str):
        return f"the text {_short(x)!r}"
    return "several" if isinstance(x, list | tuple) else _short(x).partition(";")[0]


def _difference_tensor(expected: Tensor, seen: Any) -> str:
    if seen is NO_GRADIENT:
        return NO_GRADIENT
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
    a, b = expected.double(), seen.double()
    b = b if b.device == a.device else b.cpu()
    off, most = _off(a, b)
    if bool((off <= most).all()) and bool(most.isfinite().all()):
        return ""  # in a tenth of the time of isclose, which knows what to do with infinity
    apart = ~torch.isclose(b, a, rtol=RTOL, atol=ATOL, equal_nan=True)
    if not apart.any():
        return ""
    where = tuple(apart.nonzero()[0].tolist())
    return (
        f"{int(apart.sum())} of {apart.numel()} numbers differ; at {list(where)} expected "
        f"{a[where].item():.4g}, got {b[where].item():.4g}"
    )


def _off(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """How far each number is from what was expected, and how far it may be."""
    return (b - a).abs_(), a.abs().mul_(RTOL).add_(ATOL)


def plainly_apart(expected: Any, seen: Any) -> bool:
    """Is some finite number of these tensors, or of several, too far off? Quicker than `difference`, which knows more."""
    if isinstance(expected, tuple) and isinstance(seen, tuple) and len(expected) == len(seen):
        return any(map(plainly_apart, expected, seen))
    if not (plain(expected) and plain(seen)) or expected.shape != seen.shape:
        return False
    if expected.device != seen.device:
        return False
    off, most = _off(expected.double(), seen.double())
    return bool((off > most).any())


def _short(x: Any) -> str:
    if isinstance(x, Close):
        return _short(x.value)
    if isinstance(x, Tensor):
        number = x.dim() == 0 and plain(x)
        return f"{x.item():,.10g}" if number else f"a tensor of shape {tuple(x.shape)}"
    if isinstance(x, tuple):
        return "one result" if len(x) == 1 else f"{len(x)} results"
    if isinstance(x, Raised):
        x = f"{x.kind}: {x.message}" if x.message else x.kind
    if x is None:
        return "None; is `return` missing?"
    try:
        text = x if isinstance(x, str) else repr(x)
    except Exception:  # whatever its __repr__ does
        text = f"a {type(x).__name__}"
    return text if len(text) < 160 else text[:157] + "..."


def _count(x: Tensor) -> str:
    if x.dim() < 2:
        return "one number" if x.dim() == 0 else f"{x.numel()} numbers"
    return f"numbers of shape {tuple(x.shape)}"
