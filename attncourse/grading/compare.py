"""Observations of an answer, and how they differ from the expected ones."""

import linecache
import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# Inputs are float32, the spec is compared in float64: loose enough for any right style.
RTOL, ATOL = 3e-4, 5e-5  # closer than float16 rounds
NO_NUMBERS = str, bytes, bool, complex, list, tuple, dict, type(None)
LIBRARIES = ("torch", "attncourse", "attngrade", "numpy", "functools", "contextlib", "inspect")
NO_GRADIENT = "no gradient reaches it"


@dataclass(frozen=True)
class Close:
    """A number with its tolerance, relative or absolute."""

    value: Tensor
    rtol: float
    atol: float = 1e-12


@dataclass(frozen=True)
class Raised:
    """An error instead of a result. Where the expected error has no message, the kind decides."""

    kind: str
    message: str = ""
    line: str = field(default="", compare=False)  # of the answer's own code

    @classmethod
    def by(cls, error: BaseException) -> "Raised":
        """Named after the nearest built-in class, so subclasses count as their base."""
        kind = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        try:
            message = str(error)
        except Exception:  # its __str__ raises
            message = type(error).__name__
        return cls(kind, message, own_line(error))

    @property
    def where(self) -> str:
        """The line of the answer that raised, as the end of a sentence; '' where none is known."""
        return f"; in {self.line}" if self.line else ""


def own_line(error: BaseException) -> str:
    """The last line of the answer's own code before an error: ``line 3, `query @ key` ``."""
    line, step = "", error.__traceback__
    while step:
        module = str(step.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if module not in LIBRARIES:
            text = linecache.getline(step.tb_frame.f_code.co_filename, step.tb_lineno).strip()
            line = f"line {step.tb_lineno}, `{text[:80]}`" if text else ""
        step = step.tb_next
    return line


class Described(str):
    """An observation in words; equal where the words before the colon are."""

    @property
    def kind(self) -> str:
        """The words before the colon; a plain str, as partition may return the object itself."""
        return str(self).partition(":")[0]

    def __eq__(self, other):
        return isinstance(other, Described) and self.kind == other.kind

    def __hash__(self):
        return hash(self.kind)


def plain(x: Any) -> bool:
    """True for a strided tensor of real numbers with storage."""
    return (
        isinstance(x, Tensor) and x.layout == torch.strided and not x.is_meta and not x.is_complex()
    )


def difference(expected: Any, seen: Any) -> str:
    """How ``seen`` differs from the expected, in one sentence; '' where it does not."""
    if isinstance(expected, Raised):
        same = isinstance(seen, Raised) and seen.kind == expected.kind
        if same and (not expected.message or _wording(expected) == _wording(seen)):
            return ""
        where = seen.where if isinstance(seen, Raised) else ""
        return f"expected a {expected.kind}, got {_short(seen)}{where}"
    if isinstance(seen, Raised):
        return f"raised {_short(seen)}{seen.where}"
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
    except Exception:  # its __eq__ may do anything
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
        return f"expected {_count(expected.value)}, got {_short(seen)}{_no_number(seen)}"
    if seen.value.shape != expected.value.shape:
        return f"expected {_count(expected.value)}, got {_count(seen.value)}"
    right = torch.isclose(seen.value, expected.value, rtol=expected.rtol, atol=expected.atol)
    if right.all():
        return ""
    if right.dim() == 0:
        return f"{_short(seen.value)} is not right"
    wrong = [str(k + 1) for k, good in enumerate(right.flatten().tolist()) if not good]
    return f"{len(wrong)} of {right.numel()} are not right: number {', '.join(wrong)}"


def _no_number(seen: Any) -> str:
    """Which of several numbers is none."""
    several = seen if isinstance(seen, list | tuple) else ()
    strange = (k for k, x in enumerate(several) if isinstance(x, NO_NUMBERS))
    return next((f"; number {k + 1} of them is {_strange(seen[k])}" for k in strange), "")


def _strange(x: Any) -> str:
    """An object in the place of a number, in words."""
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
    if not expected.dtype.is_floating_point and seen.dtype.is_floating_point:
        return f"expected whole numbers of a type such as torch.int64, got dtype {seen.dtype}"
    if seen.is_complex():
        return f"expected real numbers, got dtype {seen.dtype}"
    if seen.dtype in (torch.float16, torch.bfloat16):
        return f"expected float32 or a higher precision, got dtype {seen.dtype}"
    if seen.layout != torch.strided or seen.is_meta:
        return f"expected a plain tensor, got layout {seen.layout} on {seen.device}"
    a, b = expected.double(), seen.double()
    b = b if b.device == a.device else b.cpu()
    most = a.abs().mul_(RTOL).add_(ATOL)
    if bool(((b - a).abs_() <= most).all()) and bool(most.isfinite().all()):
        return ""  # a tenth of the time of isclose, which is needed for infinity only
    apart = ~torch.isclose(b, a, rtol=RTOL, atol=ATOL, equal_nan=True)
    if not apart.any():
        return ""
    where = tuple(apart.nonzero()[0].tolist())
    right, got = a[where].item(), b[where].item()
    digits = 4 if f"{right:.4g}" != f"{got:.4g}" else 8  # as many as it takes to see it
    return (
        f"{int(apart.sum())} of {apart.numel()} numbers differ; at {list(where)} expected "
        f"{right:.{digits}g}, got {got:.{digits}g}"
    )


def same(expected: Any, seen: Any, tolerance: float = 1e-3) -> bool:
    """Are these the same results? Tensors within a tolerance, relative to their largest number."""
    if isinstance(expected, tuple):
        several = isinstance(seen, tuple) and len(seen) == len(expected)
        return several and all(same(e, s, tolerance) for e, s in zip(expected, seen, strict=True))
    if not isinstance(expected, Tensor):
        return not difference(expected, seen)
    if not plain(seen) or seen.shape != expected.shape:
        return False
    expected, seen = expected.double(), seen.double().cpu()
    finite = expected[expected.isfinite()]
    size = float(finite.abs().max()) if finite.numel() else 1.0
    return torch.allclose(seen, expected, rtol=tolerance, atol=tolerance * size, equal_nan=True)


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
    except Exception:  # its __repr__ may do anything
        text = f"a {type(x).__name__}"
    return text if len(text) < 160 else text[:157] + "..."


def _count(x: Tensor) -> str:
    if x.dim() < 2:
        return "one number" if x.dim() == 0 else f"{x.numel()} numbers"
    return f"numbers of shape {tuple(x.shape)}"
