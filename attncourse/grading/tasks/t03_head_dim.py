"""Exercise 03.head_dim: a layer that rounds head_dim down and runs on the wrong tokens, repaired."""

import warnings
from functools import lru_cache

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.observe import NotAttempted, Raised, is_stub

REFUSED = [(10, 3), (512, 7), (7, 2), (8, 3), (6, 4), (4, 8), (9, 0), (12, -3), (12, -5)]
BUILT = [(6, 1), (6, 2), (6, 3), (6, 6), (15, 5), (1, 1), (16, 8)]
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


class AsFound(nn.Module):
    """The layer of the statement: nothing stops a head_dim that was rounded down."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(embed_dim, embed_dim))

    def forward(self, x):
        batch = x.size(0)
        q, k, v = (
            p(x).view(batch, -1, self.num_heads, self.head_dim).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / self.head_dim**0.5, dim=-1)
        out = (weights @ v).transpose(1, 2).contiguous().view(batch, -1, self.embed_dim)
        return self.out_proj(out)


def facts(layer, seed: int) -> dict:
    """Which pairs the constructor refuses, and what the layers that it builds compute."""
    if isinstance(layer, nn.Module):
        return {NAMES[0]: "an instance"}
    seen = [refusal(layer, *pair) for pair in REFUSED]
    seen += [attends(layer, *pair, seed) for pair in BUILT]
    return dict(zip(NAMES, (True, *seen), strict=True))


NAMES = (
    "it is a class",
    *(f"embed_dim={e}, num_heads={h} is refused with a ValueError" for e, h in REFUSED),
    *(f"embed_dim={e}, num_heads={h} is built and attends" for e, h in BUILT),
)


def refusal(layer, embed_dim: int, num_heads: int):
    """True, or what happened instead of a ValueError in the constructor."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            module = layer(embed_dim, num_heads)
        except (Exception, SystemExit) as error:
            kind = type(error).__name__
            if isinstance(error, NotImplementedError):
                if is_stub(error):
                    raise NotAttempted from None
                return f"raises {kind}; the statement asks for a ValueError"
            return isinstance(error, ValueError) or f"{kind} in the constructor"
    answer = "it is built, with a warning" if said else "it is built"
    if embed_dim < 100:
        answer += (
            f", runs on {sum(_runs(module, n, embed_dim) for n in (5, embed_dim - 1))} of 2 inputs"
        )
    started = "_parameters" in getattr(module, "__dict__", {})
    numbers = [p.numel() for p in module.parameters()] if started else []
    return f"{answer} and learns {sum(numbers)} numbers"


def _runs(module, n: int, embed_dim: int) -> bool:
    try:
        module(torch.zeros(1, n, embed_dim))
    except Exception:
        return False
    return True


@lru_cache(maxsize=256)
def situation(embed_dim: int, num_heads: int, seed: int):
    """Input, parameters and right output of a small layer."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, embed_dim, generator=g)
    params = {}
    for name in PROJECTIONS:
        params[f"{name}.weight"] = torch.randn(embed_dim, embed_dim, generator=g) / embed_dim**0.5
        params[f"{name}.bias"] = torch.randn(embed_dim, generator=g)
    return x, params, spec.multi_head_attention(x, x, x, params, num_heads)[0]


def attends(layer, embed_dim: int, num_heads: int, seed: int):
    """True, or how the layer differs from multi-head attention."""
    x, params, expected = situation(embed_dim, num_heads, seed)
    try:
        module = layer(embed_dim, num_heads)
        module.load_state_dict(params, strict=False)
        return torch.allclose(module(x), expected, rtol=1e-3, atol=1e-3) or "another output"
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and is_stub(error):
            raise NotAttempted from None
        return Raised.by(error)


ACCEPTED = Accepted()


@ACCEPTED.add
class Remainder(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads < 1 or embed_dim % num_heads != 0:
            raise ValueError(f"num_heads={num_heads} must divide embed_dim={embed_dim}")
        super().__init__(embed_dim, num_heads)


@ACCEPTED.add
class Product(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads <= 0:
            raise ValueError("num_heads must be positive")
        super().__init__(embed_dim, num_heads)
        if self.head_dim * num_heads != embed_dim:
            raise ValueError("embed_dim must be a multiple of num_heads")


@ACCEPTED.add
class Divisors(AsFound):
    def __init__(self, embed_dim, num_heads):
        divisors = [h for h in range(1, embed_dim + 1) if embed_dim % h == 0]
        if num_heads not in divisors:
            raise ValueError(f"num_heads must be one of {divisors}; got {num_heads}")
        super().__init__(embed_dim, num_heads)


@ACCEPTED.add
class OnItsOwn(nn.Module):
    class DivisionError(ValueError):
        pass

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        if num_heads < 1 or divmod(embed_dim, num_heads)[1]:
            raise self.DivisionError("no equal heads")
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim) for _ in range(4)
        )

    def forward(self, x):
        q, k, v = (
            torch.stack(p(x).chunk(self.num_heads, -1), 1)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(torch.cat(out.unbind(1), -1))


MISTAKES = Mistakes()


@MISTAKES.add("A warning lets the layer be built; raise a ValueError.")
class Warns(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads > 0 and embed_dim % num_heads:
            warnings.warn("embed_dim is not a multiple of num_heads", stacklevel=2)
        super().__init__(embed_dim, num_heads)


def mistake(says: str, check=None, change=lambda e, h: (e, h)):
    """A layer that checks its arguments wrongly, or changes them before it is built."""

    class Layer(AsFound):
        def __init__(self, embed_dim, num_heads):
            if check is not None:
                check(embed_dim, num_heads)
            super().__init__(*change(embed_dim, num_heads))

    MISTAKES.add(says)(Layer)


def refuse(wrong, error=ValueError):
    """Raise the error where ``wrong(embed_dim, num_heads)`` holds."""

    def check(e, h):
        if wrong(e, h):
            raise error("embed_dim must be a multiple of num_heads")

    return check


def odd(e, h):
    return h < 1 or e % h != 0


def largest_divisor(e, h):
    return e, next((d for d in range(min(h, e), 0, -1) if e % d == 0), 1)


mistake("Nothing is checked: this is the layer as found. Raise a ValueError in the constructor.")
mistake("An assert raises AssertionError and vanishes under python -O; raise ValueError.",
        refuse(odd, AssertionError))  # fmt: skip
mistake("Raise a ValueError, which says that an argument is wrong, not a RuntimeError.",
        refuse(odd, RuntimeError))  # fmt: skip
mistake("Raise a ValueError; a bare Exception cannot be caught without catching everything.",
        refuse(odd, Exception))  # fmt: skip
mistake("num_heads=0 divides by zero before your message; check num_heads < 1 first.",
        refuse(lambda e, h: e % h != 0 or h < 0))  # fmt: skip
mistake("A negative num_heads passes: 12 % -3 is 0. Check num_heads < 1 as well.",
        refuse(lambda e, h: h == 0 or e % h != 0))  # fmt: skip
mistake("num_heads < 1 is not looked at: 12 % -3 is 0, and % 0 raises ZeroDivisionError.",
        refuse(lambda e, h: e % h != 0))  # fmt: skip
mistake("`and` refuses only a pair that breaks both rules; write `or`.",
        refuse(lambda e, h: h < 1 and e % h != 0))  # fmt: skip
mistake("Raise a ValueError; NotImplementedError says that code is still to be written.",
        refuse(odd, lambda says: NotImplementedError(says)))  # fmt: skip
mistake("Only num_heads < 1 is refused; it must also divide embed_dim.", refuse(lambda e, h: h < 1))
mistake("Only num_heads > embed_dim and num_heads < 1 are refused; it must divide embed_dim.",
        refuse(lambda e, h: not 1 <= h <= e))  # fmt: skip
mistake("The test is the wrong way round: pairs that divide are refused, others are built.",
        refuse(lambda e, h: h > 0 and e % h == 0))  # fmt: skip
mistake("The operands are exchanged: test embed_dim % num_heads, not num_heads % embed_dim.",
        refuse(lambda e, h: h < 1 or h % e != 0))  # fmt: skip
mistake("embed_dim is divided by head_dim, which was rounded; divide it by num_heads.",
        refuse(lambda e, h: h < 1 or h > e or e % (e // h)))  # fmt: skip
mistake("Odd numbers of heads are refused altogether; 3 heads divide 6 well.",
        refuse(lambda e, h: odd(e, h) or h % 2))  # fmt: skip
mistake("num_heads must be a power of two here; every divisor of embed_dim is right.",
        refuse(lambda e, h: odd(e, h) or (h > 1 and h & (h - 1))))  # fmt: skip
mistake("A head_dim of 1 is refused; it is small, but right.",
        refuse(lambda e, h: odd(e, h) or e == h))  # fmt: skip
mistake("A single head is refused; it is the plain case.",
        refuse(lambda e, h: odd(e, h) or h == 1))  # fmt: skip
mistake("Only the two pairs of the example are refused; refuse every pair that does not divide.",
        refuse(lambda e, h: (e, h) in ((10, 3), (512, 7))))  # fmt: skip
mistake("num_heads is lowered silently to a divisor; raise, so that the caller knows.",
        change=largest_divisor)  # fmt: skip
mistake("embed_dim is rounded down silently to a multiple of num_heads; raise instead.",
        change=lambda e, h: (e // h * h, h))  # fmt: skip


@MISTAKES.add(
    "The check stands in forward; the constructor must raise, before anything is trained."
)
class Late(AsFound):
    def forward(self, x):
        refuse(odd)(self.embed_dim, self.num_heads)
        return super().forward(x)


@MISTAKES.add("super().__init__() was never called.")
class NeverStarted(AsFound):
    def __init__(self, embed_dim, num_heads):
        refuse(odd)(embed_dim, num_heads)


@MISTAKES.add("super().__init__() was never called, and nothing is refused.")
class NeverStartedNorChecked(AsFound):
    def __init__(self, embed_dim, num_heads):
        self.embed_dim, self.num_heads = embed_dim, num_heads


@MISTAKES.add("head_dim is a float after /; keep // behind the check.")
class FloatHeadDim(Remainder):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.head_dim = embed_dim / num_heads


@MISTAKES.add("The constructor returns without its layers; raise a ValueError instead.")
class HalfBuilt(AsFound):
    def __init__(self, embed_dim, num_heads):
        if odd(embed_dim, num_heads):
            nn.Module.__init__(self)
            return
        super().__init__(embed_dim, num_heads)


MISTAKES.add("Pass the class, not an instance.")(Remainder(6, 2))

EXERCISE = Exercise(
    name="03.head_dim",
    number=5,
    title="Refuse a head_dim that does not fit",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'What the source documents say' of chapter 3",
    judge=Facts(facts, NAMES),
    hints=(
        "The constructor is the only place where both numbers are known before any data comes.",
        "10 % 3 is 1, so 3 does not divide 10. But 12 % -3 is 0, and 9 % 0 raises "
        "ZeroDivisionError.",
        "if num_heads < 1 or embed_dim % num_heads: raise ValueError(...), then super().__init__.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
